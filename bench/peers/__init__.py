# SPDX-License-Identifier: MIT
"""What bench/compare measures against, each as a class with the operations that it has.

latency in us (half a ping-pong for write, the whole completion for read), rate in million operations
a second at depth 128, bandwidth in GB/s (10^9) at depth 16.
"""
import contextlib
import json
import os
import socket
import subprocess
import time

RATE_DEPTH, BANDWIDTH_DEPTH = 128, 16


class PeerFailure(Exception):
    """A peer did not do what it was asked for."""


@contextlib.contextmanager
def started(argv, **kwargs):
    """A process that does not outlive the block."""
    try:
        p = subprocess.Popen(argv, **kwargs)
    except OSError as e:
        raise PeerFailure(f"{argv[0]}: {e.strerror}") from None
    try:
        yield p
    finally:
        p.terminate()
        try:
            p.wait(timeout=10)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
        if p.stdout:
            p.stdout.close()


def output(argv, timeout=120, env=None):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, env=env,
                              check=False)
    except subprocess.TimeoutExpired:
        raise PeerFailure(f"{' '.join(argv)}: still running after {timeout} s") from None
    except OSError as e:
        raise PeerFailure(f"{argv[0]}: {e.strerror}") from None
    if done.returncode:
        raise PeerFailure(f"{' '.join(argv)}: exit code {done.returncode}: "
                          f"{(done.stderr or done.stdout).strip()}")
    return done.stdout


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def await_listener(port, process):
    """Until something listens there; looks in /proc, because a connection would use it up."""
    wanted = f":{port:04X} "
    for _ in range(500):
        for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
            with open(table, encoding="ascii") as f:
                if any(wanted in line[:24 if table[-1] != "6" else 48] and " 0A " in line
                       for line in f):
                    return
        if process.poll() is not None:
            break
        time.sleep(0.01)
    raise PeerFailure(f"{process.args[0]} does not listen")


class Memcpy:
    """One core's memcpy over shared memory larger than the last-level cache."""

    title = "memcpy of one core"

    def __init__(self, build, span):
        self.program, self.span = os.path.join(build, "bench/bench_memcpy"), span

    def bandwidth(self, size):
        return json.loads(output([self.program, str(size), str(self.span), "1"]))["gbytes_s"]


class CacheLine:
    """Two pinned threads that pass one cache line there and back."""

    title = "cache line between two cores"

    def __init__(self, build):
        self.program = os.path.join(build, "bench/bench_cacheline")

    def round_trip(self, seconds=1):
        return json.loads(output([self.program, str(seconds)]))["round_trip_us"]


class FabricPair:
    """A minimal pair of programs on libfabric's tcp provider (fabric_pair.c)."""

    title = "libfabric tcp"
    latencies = ("write", "read")

    def __init__(self, build):
        self.program = os.path.join(build, "bench/bench_fabric_pair")

    def run(self, op, size, depth):
        return json.loads(output([self.program, op, str(size), str(depth), "1"]))

    def latency(self, op, size):
        return self.run(op + "_lat", size, 1)["lat_us"]

    def rate(self, op, size):
        return self.run(op, size, RATE_DEPTH)["mops"]

    def bandwidth(self, op, size):
        return self.run(op, size, BANDWIDTH_DEPTH)["gbytes_s"]


class TlsPair:
    """SSL_write to SSL_read (tls_pair.c)."""

    title = "OpenSSL, one stream"

    def __init__(self, build):
        self.program = os.path.join(build, "bench/bench_tls_pair")

    def bandwidth(self, size):
        return float(output([self.program, str(size), "1"]))


class Iperf3:
    """One TCP stream of iperf3 with cubic, its block as large as the message."""

    title = "iperf3, one stream"

    def bandwidth(self, op, size):
        port = free_port()
        with started(["iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", str(port)],
                     stdout=subprocess.DEVNULL) as server:
            await_listener(port, server)
            argv = ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-J", "-C", "cubic", "-t", "1",
                    "-l", str(size)]
            result = json.loads(output(argv + (["-R"] if op == "read" else [])))
            return result["end"]["sum_received"]["bits_per_second"] / 8e9


class Ucx:
    """ucx_perftest's ucp_put, ucp_get, tag (messages) and ucp_fadd, over tcp or shared memory."""

    # Two tests for what has a ping-pong of its own.
    tests = {"read": ("ucp_get", "ucp_get"), "write": ("ucp_put_lat", "ucp_put_bw"),
             "send": ("tag_lat", "tag_bw"), "fadd": ("ucp_fadd", "ucp_fadd")}

    def __init__(self, transport):
        self.name = transport
        # Over tcp the target of ucp_get and ucp_fadd looks at its socket once a millisecond when it
        # is idle, so a single one measures that pause and not UCX.
        self.latencies = ("write", "send")
        if transport != "tcp":
            self.latencies += ("read", "fadd")
        self.title = f"ucx_perftest, {'tcp' if transport == 'tcp' else 'shared memory'}"
        self.env = dict(os.environ, UCX_LOG_LEVEL="error", UCX_WARN_UNUSED_ENV_VARS="n")
        if transport == "tcp":
            self.env.update(UCX_TLS="tcp", UCX_NET_DEVICES="lo")
        else:
            self.env.update(UCX_TLS="posix,self")

    def iterations(self, test, size, latency):
        """Enough for about a second."""
        if self.name == "tcp" and test in ("ucp_fadd", "tag_lat"):
            return 30_000
        if latency:
            return 100_000 if self.name == "tcp" else 1_000_000
        guess = {"tcp": (500_000, 1.5e9), "shm": (5_000_000, 12e9)}[self.name]
        return max(500, int(min(guess[0], guess[1] / size)))

    def run(self, test, size, depth, latency):
        port, count = free_port(), self.iterations(test, size, latency)
        with started(["ucx_perftest", "-p", str(port)], env=self.env, stdout=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL) as server:
            await_listener(port, server)
            text = output(["ucx_perftest", "127.0.0.1", "-p", str(port), "-t", test, "-s", str(size),
                           "-O", str(depth), "-n", str(count), "-w", str(count // 10), "-f", "-v"],
                          env=self.env)
        lines = [line.split(",") for line in text.splitlines() if "," in line]
        if len(lines) != 2:
            raise PeerFailure(f"ucx_perftest printed what is not understood: {text.strip()}")
        return dict(zip(lines[0], map(float, lines[1])))

    def latency(self, op, size):
        return self.run(self.tests[op][0], size, 1, True)["50.0_percentile_lat"]

    def rate(self, op, size):
        return self.run(self.tests[op][1], size, RATE_DEPTH, False)["overall_mr"] / 1e6

    def bandwidth(self, op, size):  # ucx_perftest's MB are MiB
        mib = self.run(self.tests[op][1], size, BANDWIDTH_DEPTH, False)["overall_bw"]
        return mib * (1 << 20) / 1e9
