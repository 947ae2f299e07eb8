#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""watched.py PID PROGRAM yes|no PROBE...: waits until all places of these probes in process PID are breakpoints, as the
kernel makes them while a tracer looks, or (no) each is the nop that the program has. Without PROBE: of all probes. Says
how many places there are."""
import os
import re
import subprocess
import sys
import time

PID, PROGRAM, WANTED, NAMES = sys.argv[1], os.path.realpath(sys.argv[2]), sys.argv[3], sys.argv[4:]
CODE = b"\xcc" if WANTED == "yes" else b"\x90"


def base():
    for line in open(f"/proc/{PID}/maps", encoding="utf-8"):
        words = line.split()
        if words[-1] == PROGRAM and int(words[2], 16) == 0:
            return int(words[0].split("-")[0], 16)
    sys.exit(f"process {PID} is not of {PROGRAM}")


def main():
    text = subprocess.run(["readelf", "-nW", PROGRAM], stdout=subprocess.PIPE, text=True, check=True).stdout
    sites = [int(at, 16) for name, at in re.findall(r"Provider: rdmad\s+Name: (\w+)\s+Location: (\w+),", text)
             if not NAMES or name in NAMES]
    start, last = base(), time.monotonic() + 60 * int(os.environ.get("RDMAD_TEST_PATIENCE", "1"))
    with open(f"/proc/{PID}/mem", "rb", buffering=0) as memory:
        while True:
            others = [at for at in sites if os.pread(memory.fileno(), 1, start + at) != CODE]
            if sites and not others:
                print(len(sites))
                return 0
            if time.monotonic() > last:
                print(f"of {len(sites)} places, {len(others)} are not {CODE.hex()}: {[hex(at) for at in others]}")
                return 1
            time.sleep(0.05)


sys.exit(main())
