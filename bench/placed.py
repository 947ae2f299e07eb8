# SPDX-License-Identifier: MIT
"""Which processor each thread runs on where four wait for each other: two clients and their daemons' workers. With fewer
processors than threads the kernel's choice alone makes a half round trip twice as long or not, so two sides that are to
differ in one thing only are placed alike."""
import contextlib
import os


def places(cpus):
    """Where client, lessee's daemon, owner's daemon and answerer go: on a processor each, or else the two daemons on one
    and the other two on another, which is the fastest of the ways to share two."""
    first, last = cpus[0], cpus[-1]
    return tuple(cpus[:4]) if len(cpus) >= 4 else (first, last, last, first)


def move(pid, cpus):
    """All threads of a process."""
    for tid in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(ProcessLookupError):  # a thread may end meanwhile
            os.sched_setaffinity(int(tid), cpus)


@contextlib.contextmanager
def alike(lessee, owner, answerer):
    """Places these three, and what this thread starts meanwhile (the client), until the block ends."""
    cpus = os.sched_getaffinity(0)
    client, *others = places(sorted(cpus))
    pids = lessee, owner, answerer
    try:
        for pid, cpu in zip(pids, others):
            move(pid, {cpu})
        os.sched_setaffinity(0, {client})
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(OSError):  # it may have ended, which is told elsewhere
                move(pid, cpus)
        os.sched_setaffinity(0, cpus)
