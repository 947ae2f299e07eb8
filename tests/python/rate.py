#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""rate.py URI SUM ROUNDS C_READER - both array_readers read the same array in turns; prints how their rates compare.
Fails if what Python has read is not the array; no rate is too low."""
import os
import statistics
import subprocess
import sys

uri, want, rounds, c_reader = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
readers = {"C": [c_reader, uri], "Python": [sys.executable, os.path.dirname(__file__) + "/array_reader.py", uri]}
running = {n: subprocess.Popen(a, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for n, a in readers.items()}
spent = {name: [] for name in readers}
for i in range(rounds + 1):
    for name, reader in list(running.items())[::1 if i % 2 else -1]:
        reader.stdin.write("\n")
        reader.stdin.flush()
        said = reader.stdout.readline().split()
        if not said:
            sys.exit(f"the reader in {name} ended")
        if i:  # the first round makes pages
            spent[name].append(int(said[0]))
for name, reader in running.items():
    said = reader.communicate()[0]
    if reader.returncode:
        sys.exit("a reader failed")
    if name == "Python" and float(said) != want:
        sys.exit(f"the array's sum is {want}, Python has read {said}")
half, best = ({name: f(s) for name, s in spent.items()} for f in (statistics.median, min))
print(f"{rounds} reads each, in turns; Python's rate is {half['C'] / half['Python']:.3f} of C's by medians "
      f"({half['C'] / 1e6:.2f} and {half['Python'] / 1e6:.2f} ms), {best['C'] / best['Python']:.3f} by the best")
