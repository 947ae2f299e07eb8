#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""array_reader URI - as tests/integration/array_reader.c, into a NumPy array, whose sum it prints at the end."""
import sys
import time

import rdmad

with rdmad.Session() as s, s.attach(sys.argv[1]) as lease:
    array = s.pool(lease.length).array(lease.length // 8, "f8")
    for line in sys.stdin:
        begun = time.monotonic_ns()
        lease.read(0, array)
        print(time.monotonic_ns() - begun, flush=True)
    print(array.sum())
