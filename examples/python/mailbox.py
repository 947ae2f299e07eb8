#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""mailbox - examples/mailbox.c in Python: leases 4 KiB to whoever has the URI, prints the URI, and shows what was
written. examples/hello writes "hello"."""
import sys
import time

import rdmad


def main():
    with rdmad.Session() as s:
        box = s.pool(1 << 20).alloc(4096)
        box[:] = bytes(4096)
        lease = s.grant(box[:4095], rights=rdmad.Right.WRITE)
        print(lease.uri, flush=True)
        while not box[0] and lease.ttl_ms:
            time.sleep(0.001)
        lease.revoke()  # after that no writer can be half way through
        print(bytes(box).split(b"\0")[0].decode() or "(nothing came)")


try:
    main()
except rdmad.Error as e:
    sys.exit(f"mailbox: {e}")
