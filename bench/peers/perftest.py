# SPDX-License-Identifier: MIT
"""perftest, the tests that come with RDMA, and programs that use verbs by themselves."""
import json
import os
import subprocess

from . import BANDWIDTH_DEPTH, RATE_DEPTH, PeerFailure, await_listener, free_port, output, started

ATTEMPTS = 4


def gid_index(device, sysfs="/sys/class/infiniband"):
    """That of the first IPv4-mapped GID: which one it is changes when addresses come and go."""
    where = f"{sysfs}/{device}/ports/1/gids"
    try:
        for index in sorted(map(int, os.listdir(where))):
            with open(f"{where}/{index}", encoding="ascii") as f:
                gid = f.read().strip().replace(":", "")
            if gid.startswith("00000000000000000000ffff"):
                return index
    except OSError as e:
        raise PeerFailure(f"{where}: {e.strerror}") from None
    raise PeerFailure(f"{device} has no GID of an IPv4 address")


def numbers(text):
    """perftest's line of results: numbers under a heading that starts with #bytes."""
    lines = [line.split() for line in text.splitlines()]
    for heading, line in zip(lines, lines[1:]):
        if heading[:1] == ["#bytes"]:
            try:
                return list(map(float, line))
            except ValueError:
                break
    raise PeerFailure(f"perftest printed what is not understood: {text.strip()}")


class Perftest:
    """ib_write_bw, ib_read_lat and the like from one device to another: ib_OP_bw and ib_OP_lat of
    write, read and send, ib_atomic_bw and ib_atomic_lat of cas and fadd."""

    atomics = {"cas": "CMP_AND_SWAP", "fadd": "FETCH_AND_ADD"}  # of 8 bytes always

    latencies = ("write", "read")

    def __init__(self, target, initiator, iterations, post_list=1, watch=None):
        self.devices, self.iterations = (target, initiator), iterations
        self.post_list, self.watch = post_list, watch
        self.name = f"post_list {post_list}"

    def title(self, op, what):
        program = f"ib_{'atomic' if op in self.atomics else op}_{what}"
        return program + (f" -l {self.post_list}" if self.post_list > 1 else "")

    def command(self, op, what, size):
        if op in self.atomics:
            return [f"ib_atomic_{what}", "-F", "-A", self.atomics[op]]
        return [f"ib_{op}_{what}", "-F", "-s", str(size)]

    def run(self, op, what, size, depth):
        """Its numbers. It measures what its clock's ticks are first, and prints zeros when others
        took the processor meanwhile; then again."""
        for _ in range(ATTEMPTS):
            result = self.once(op, what, size, depth)
            if result[4] > 0:
                return result
        raise PeerFailure(f"{self.title(op, what)} measured nothing, {ATTEMPTS} times")

    def once(self, op, what, size, depth):
        port, count, (target, initiator) = free_port(), self.iterations(size), self.devices
        argv = [*self.command(op, what, size), "-n", str(count), "-p", str(port)]
        if what == "bw":
            argv += ["-t", str(depth), "-l", str(self.post_list)]
        with started([*argv, "-d", target, "-x", str(gid_index(target))],
                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            await_listener(port, server)
            argv += ["-d", initiator, "-x", str(gid_index(initiator)), "127.0.0.1"]
            if not self.watch:
                return numbers(output(argv))
            return numbers(self.watch.theirs((op, size, depth), self.title(op, what), count,
                                             lambda: output(argv)))

    def latency(self, op, size):
        """Its t_typical is the median; half a ping-pong for write and send, as ours."""
        return self.run(op, "lat", size, 1)[4]

    def rate(self, op, size):
        return self.run(op, "bw", size, RATE_DEPTH)[4]

    def bandwidth(self, op, size):
        """Its MB/sec are MiB; the message rate has too few digits here."""
        return self.run(op, "bw", size, BANDWIDTH_DEPTH)[3] * (1 << 20) / 1e9


class VerbsMemory:
    """A program that registers and lends memory by itself (verbs_mr.c)."""

    def __init__(self, build, device):
        self.program, self.device = os.path.join(build, "bench/bench_verbs_mr"), device

    def run(self, what, size):
        return json.loads(output([self.program, what, self.device, str(size), "1"]))["us"]

    def register(self, size):
        return self.run("reg", size)

    def grant(self, size):
        return self.run("grant", size)
