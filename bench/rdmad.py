# SPDX-License-Identifier: MIT
"""Our side of bench/compare: daemons, and the clients that measure through them."""
import json
import os
import select
import subprocess
import tempfile
import time

import peers
import placed

RATE_DEPTH, BANDWIDTH_DEPTH = peers.RATE_DEPTH, peers.BANDWIDTH_DEPTH
SECONDS = 1
SLICE = 0.3  # seconds, where two ways take turns
PATIENCE = 300  # seconds; many leases take a while in the guest


class Failure(Exception):
    """Something that ends the run, in a sentence."""


def run(argv, timeout=120):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(argv)}: still running after {timeout} s") from None
    except OSError as e:
        raise Failure(f"{argv[0]}: {e.strerror}") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise Failure(f"{' '.join(argv)}: exit code {done.returncode}: {said}")
    return done.stdout


class Daemons:
    """One daemon, or two that reach each other over a fabric, and rdmactl to ask them."""

    def __init__(self, build, stack, configs):
        self.build, self.stack = build, stack
        self.rdmactl = os.path.join(build, "rdmactl/rdmactl")
        self.work = stack.enter_context(tempfile.TemporaryDirectory(prefix="rdmad-bench."))
        self.pids, self.configs = {}, configs
        self.dirs = [self.daemon(name, config) for name, config in zip("ab", configs)]
        self.owner, self.lessee = self.dirs[0], self.dirs[-1]

    def start(self, argv, **kwargs):
        return self.stack.enter_context(peers.started(argv, **kwargs))

    def daemon(self, name, config):
        where = os.path.join(self.work, name)
        os.mkdir(where)
        with open(where + ".json", "w", encoding="utf-8") as f:
            json.dump(config, f)
        log = self.stack.enter_context(open(where + ".log", "w+", encoding="utf-8"))
        p = self.start(
            [os.path.join(self.build, "daemon/rdmad"), "--config", where + ".json",
             "--runtime-dir", where, "--listen", "127.0.0.1:0"], stderr=log)
        for _ in range(400):
            if subprocess.run([self.rdmactl, "-d", where, "-j", "status"], check=False,
                              capture_output=True).returncode == 0:
                self.pids["owner" if name == "a" else "lessee"] = p.pid
                return where
            if p.poll() is not None:
                break
            time.sleep(0.025)
        log.seek(0)
        raise Failure(f"rdmad does not start: {log.read().strip()}")

    def show(self, where, *words):
        return json.loads(run([self.rdmactl, "-d", where, "-j", *words]))


class Ours:
    """`rdmactl bench` between our daemons, or within one; fabric is what the ops must go over."""

    def __init__(self, daemons, fabric, span, poll="busy", iterations=None, watch=None,
                 name="", seconds=SECONDS, encryption=None):
        self.encryption = encryption  # what links must show; None: anything
        self.daemons, self.fabric, self.poll, self.name = daemons, fabric, poll, name
        self.iterations = iterations  # size -> how many; None: for SECONDS
        self.seconds = seconds
        self.watch = watch            # called around each measurement (spent.py)
        self.uri, self.server = self.serve(span)

    def serve(self, span):
        """The URI of memory that somebody grants, and that process."""
        p = self.daemons.start(
            [self.daemons.rdmactl, "-d", self.daemons.owner, "bench", "serve", "--ttl", "3600s",
             "--span", str(span)], stdout=subprocess.PIPE, text=True)
        uri = p.stdout.readline().strip()
        if not uri.startswith("rdmad://"):
            raise Failure("rdmactl bench serve printed no lease URI")
        self.daemons.pids["owner's"] = p.pid
        return uri, p.pid

    def bench(self, op, size, depth, span=None, seconds=None):
        argv = [self.daemons.rdmactl, "-d", self.daemons.lessee, "-j", "bench", op,
                "-q", str(depth), "--poll", self.poll]
        # One at a time and on a busy machine many would take minutes, and a median needs few.
        if self.iterations and depth > 1:
            argv += ["-n", str(self.iterations(size))]
        else:
            argv += ["-D", f"{int(1000 * (seconds or self.seconds))}ms"]
        if op != "nop":
            argv += ["-s", str(size)]
        if span:
            argv += ["--span", str(span)]
        argv.append(self.uri)
        if self.watch:
            result = self.watch.ours((op, size, depth), lambda: json.loads(run(argv)))
        else:
            result = json.loads(run(argv))
        if op != "nop" and result["fabric"] != self.fabric:
            raise Failure(f"the {op} went over {result['fabric']}, not over {self.fabric}")
        self.check_encryption()
        if result["errors"]:
            raise Failure(f"{result['errors']} operations of {' '.join(argv)} failed")
        return result

    def check_encryption(self):
        """The link of the ops stays for half a second."""
        if not self.encryption:
            return
        for link in self.daemons.show(self.daemons.lessee, "link", "show")["links"]:
            if link["encryption"] not in ("", *self.encryption):
                raise Failure(f"a link's encryption is {link['encryption']}, "
                              f"not {' or '.join(self.encryption)}")

    def latency(self, op, size):
        return self.bench(op, size, 1)["lat_us"]["p50"]

    def placed_latency(self, op, size):
        """The same, for a slice, with all that take part placed as placed.py says."""
        pids = self.daemons.pids
        with placed.alike(pids["lessee"], pids["owner"], self.server):
            return self.bench(op, size, 1, seconds=SLICE)["lat_us"]["p50"]

    def one_at_a_time(self, op, size):
        return 1000 * self.bench(op, size, 1)["msg_rate_mops"]

    def rate(self, op, size):
        return self.bench(op, size, RATE_DEPTH)["msg_rate_mops"]

    def bandwidth(self, op, size, span=None):
        return self.bench(op, size, BANDWIDTH_DEPTH, span)["bw_gbytes_s"]


class Pool:
    """rdmad_alloc and rdmad_free (bench/alloc.c)."""

    def __init__(self, daemons):
        self.daemons = daemons

    def allocate_free(self, size):
        return json.loads(run([os.path.join(self.daemons.build, "bench/bench_alloc"),
                               self.daemons.owner, str(size), str(SECONDS)]))["us"]


class Leases:
    """Attach and release while so many leases are alive (bench/leases.c), which daemons of their
    own hold from the first measurement to the end of the run. make() starts those daemons."""

    def __init__(self, make, fabric, live):
        self.make, self.fabric, self.live = make, fabric, live
        self.name = f"{fabric} {live}"
        self.program = None

    def fill(self):
        daemons, pipe = self.make(), subprocess.PIPE
        self.program = daemons.start(
            [os.path.join(daemons.build, "bench/bench_leases"), daemons.owner, daemons.lessee,
             str(self.live)], stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def attach_release(self):
        if not self.program:
            self.fill()
        p = self.program
        try:
            print(SECONDS, file=p.stdin, flush=True)
        except BrokenPipeError:
            pass  # it says why
        ready, _, _ = select.select([p.stdout], [], [], PATIENCE)
        line = p.stdout.readline() if ready else ""
        if not line:
            p.kill()
            raise Failure(f"{' '.join(p.args)}: " + (p.stderr.read().strip() or "no answer"))
        result = json.loads(line)
        if result["fabric"] != self.fabric:
            raise Failure(f"the leases are over {result['fabric']}, not over {self.fabric}")
        return result["us"]
