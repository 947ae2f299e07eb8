#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""array share COUNT - a NumPy array of COUNT float64 that others can read; prints its URI, and holds it until it is
ended by a signal.
array read URI - reads all of it into an array here; prints its sum, and how fast it came."""
import signal
import sys
import time

import numpy
import rdmad

ENDS = {signal.SIGINT, signal.SIGTERM}

def share(session, count):
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    pool = session.pool(count * 8)
    array = pool.array(count, "f8")
    array[:] = 1
    numpy.cumsum(array, out=array)  # 1, 2, 3, ...
    lease = session.grant(array, rights=rdmad.Right.READ, flags=rdmad.LeaseFlag.KEEP_ALIVE)
    print(lease.uri, array.sum(), flush=True)
    signal.sigwait(ENDS)


def read(session, uri):
    lease = session.attach(uri)
    array = session.pool(lease.length).array(lease.length // 8, "f8")
    begun = time.perf_counter()
    lease.read(0, array)
    spent = time.perf_counter() - begun
    print(array.sum())
    print(f"{array.nbytes} bytes, {array.nbytes / spent / 1e9:.2f} GB/s", file=sys.stderr)


try:
    with rdmad.Session() as s:
        if sys.argv[1] == "share":
            share(s, int(sys.argv[2]))
        else:
            read(s, sys.argv[2])
except rdmad.Error as e:
    sys.exit(f"array: {e}")
