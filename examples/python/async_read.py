#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""async_read URI [DEPTH] - examples/async_epoll.c in asyncio: reads a whole lease, 1,000 pieces at a time."""
import asyncio
import sys

import rdmad
import rdmad.aio

PIECE = 4096


async def main(uri, depth):
    async with rdmad.aio.Session() as s:
        lease = await s.attach(uri)
        pool = s.pool(depth * PIECE)
        offsets, most, total = iter(range(0, lease.length, PIECE)), 0, 0

        async def read_pieces():
            nonlocal most, total
            piece = pool.alloc(PIECE)
            for offset in offsets:  # of all readers: each takes the next
                part = piece[:lease.length - offset]
                reading = asyncio.ensure_future(lease.read(offset, part))
                await asyncio.sleep(0)
                most = max(most, s.in_flight)
                await reading
                total += sum(part)

        await asyncio.gather(*(read_pieces() for _ in range(depth)))
        print(f"{lease.length} bytes, their sum is {total}")
        print(f"{most} ops were in flight at one time", file=sys.stderr)


try:
    asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000))
except rdmad.Error as e:
    sys.exit(f"async_read: {e}")
