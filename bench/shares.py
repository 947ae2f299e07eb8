# SPDX-License-Identifier: MIT
"""Users beside one another, for bench/compare shares: crowds (crowd.c) under uids of their own, and
what each of them moved, as the lessee's daemon counts it."""
import contextlib
import json
import os
import statistics
import subprocess
import time

import rdmad

VICTIM, OTHER = 4711, 4712  # uids that nobody needs to have
# Of memory that a crowd writes out of, so that caches help nobody. (With 64 MiB one crowd's fits into a large
# cache and two crowds' does not: that halves what both move, and is no neighbour's doing.)
SPAN, SMALL_SPAN = 256 << 20, 64 << 20
PROCESSORS = 8              # for all threads of two daemons and three programs: nobody waits for one
SETTLE, WINDOW = 1, 3       # seconds
RATE = 200_000_000
PART = 128 << 10            # an op that is moved in one piece: what was moved is told op by op
DEEP = 256                  # ops: a crowd of one session that has to wait for a processor runs dry later
SHALLOW = 16                # of each of many, over a slow device: what they have posted ends before its deadline
STORMS = ("compute", "doorbell", "cancel", "attach", "session", "request")
# sessions, rings, depth, bytes
POLITE, HOSTILE = (1, 1, 16, 1 << 20), (64, 16, 64, 1 << 20)
# All at once: rings as deep as there are, of which the first alone has as many ops as a session may have in
# flight, and ops that are as large as 64 sessions can have memory for on a small machine.
WORST = (64, 4, 4096, 16 << 20)
STEADY = (1, 1, 64, 1 << 20)  # so deep that it never runs dry: whose bandwidth is measured
# What is promised of a ratio: that it is at least, and at most.
WEIGHTS_HOLD = (0.95, 1.05)
BANDWIDTH_LEFT, P99_LEFT = (0.45, None), (0.5, None)


def process_times(pids):
    """{pid: seconds of a processor that it had}, of these and of their children."""
    ticks, times = os.sysconf("SC_CLK_TCK"), {}
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{int(name)}/stat", encoding="utf-8", errors="replace") as f:
                fields = f.read().rpartition(")")[2].split()
        except (ValueError, OSError):  # no process, or one that has ended
            continue
        if int(name) in pids or int(fields[1]) in pids:
            times[int(name)] = (int(fields[11]) + int(fields[12])) / ticks
    return times


def is_idle(pid):
    try:
        return os.sched_getscheduler(pid) == os.SCHED_IDLE
    except ProcessLookupError:
        raise rdmad.Failure("a program of the victim's neighbour ended") from None


class Users:
    def __init__(self, daemons, fabric, deep=DEEP, span=SPAN):
        self.deep, self.span = deep, span
        if os.geteuid():
            raise rdmad.Failure("shares are measured between two users: run this as root")
        self.daemons, self.name = daemons, fabric
        self.ours = rdmad.Ours(daemons, fabric, 2 << 20)
        self.large = None  # a lease for the largest ops
        self.programs = []  # pids of the victim's neighbour's
        # What each of its processes had in the last window: whether at the lowest priority, and how
        # much of a processor. Of each neighbour so, and of who only computed in its place.
        self.took, self.hostile, self.computing = [], {}, {}

    def limit(self, uid, **keys):
        rdmad.run([self.daemons.rdmactl, "-d", self.daemons.lessee, "limit", "set", f"uid:{uid}",
                   *(f"{key}={value}" for key, value in keys.items())])

    def let_in(self):
        for where in (self.daemons.work, *self.daemons.dirs):
            os.chmod(where, 0o755)

    def crowd(self, uid, sessions, rings, depth, size, how=0):
        return self.client(uid, "bench_crowd", self.ours.uri, sessions, rings, depth, size, self.span, how)

    def hostile_crowd(self):
        """It has 64 GiB in its rings: on a slow machine some of that passes its deadline."""
        return self.crowd(OTHER, *HOSTILE, "flood")

    def storm(self, kind):
        return self.client(OTHER, "bench_storm", self.ours.uri, kind)

    def client(self, uid, program, uri, *arguments):
        return self.at_work(uid, program, self.daemons.lessee, uri, *arguments)

    @contextlib.contextmanager
    def worst(self):
        """Deep rings full of large ops, cancels and attaches, all of one user. Storms first: a session
        of theirs has to get in before the crowd has taken all that the user may have."""
        self.large = self.large or self.ours.serve(2 * WORST[3])[0]
        with self.storm("cancel"), self.storm("attach"), \
                self.client(OTHER, "bench_crowd", self.large, *WORST, self.span, "flood"):
            yield

    @contextlib.contextmanager
    def at_work(self, uid, program, *arguments):
        self.let_in()
        argv = [os.path.join(self.daemons.build, "bench", program), *map(str, arguments)]
        p = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, user=uid, group=uid,
                             extra_groups=[])
        try:
            if p.stdout.readline() != "ready\n":
                raise rdmad.Failure(f"{' '.join(argv)} did not start")
            self.programs += [p.pid] if uid == OTHER else []
            yield
            if p.poll() is not None:
                raise rdmad.Failure(f"{' '.join(argv)} ended")
        finally:
            self.programs = [pid for pid in self.programs if pid != p.pid]
            p.kill()
            p.wait()

    def written(self):
        """Bytes by uid, of the sessions that are there."""
        sums = {}
        for row in self.daemons.show(self.daemons.lessee, "session", "show")["sessions"]:
            sums[row["uid"]] = sums.get(row["uid"], 0) + row["bytes_written"]
        return sums

    def speeds(self):
        """Bytes a second by uid, while they are at work."""
        time.sleep(SETTLE)
        before, start, had = self.written(), time.monotonic(), process_times(self.programs)
        time.sleep(WINDOW)
        after, span, has = self.written(), time.monotonic() - start, process_times(self.programs)
        self.took = [(is_idle(pid), (has[pid] - had.get(pid, 0)) / span) for pid in has]
        return {uid: (after[uid] - before.get(uid, 0)) / span for uid in after}

    def alone(self):
        with self.crowd(VICTIM, *STEADY):
            return self.speeds()[VICTIM] / 1e9

    def beside(self, neighbour):
        with neighbour, self.crowd(VICTIM, *STEADY):
            return self.speeds()[VICTIM] / 1e9

    def beside_hostile(self):
        bandwidth = self.beside(self.hostile_crowd())
        self.hostile.setdefault("a hostile user", []).append(self.took)
        return bandwidth

    def beside_worst(self):
        bandwidth = self.beside(self.worst())
        self.hostile.setdefault("a hostile user with storms", []).append(self.took)
        return bandwidth

    def beside_computing(self, who):
        """Beside as many processes as this user's were when last measured, each with the priority and
        as much of a processor as it had: what is missing then the machine took, and not rdmad."""
        shares = [f"{'idle:' if idle else ''}{share:.4f}" for idle, share in self.hostile[who][-1]]
        bandwidth = self.beside(self.at_work(OTHER, "bench_computes", *shares))
        self.computing.setdefault(who, []).append(self.took)
        return bandwidth

    def beside_storm(self, kind):
        return self.beside(self.storm(kind))

    def steady(self, uid, sessions):
        return self.crowd(uid, sessions, 1, DEEP if sessions == 1 else self.deep, PART)

    def weights(self, of_heavy, of_light):
        """What a user of weight 300 has for each byte of one of weight 100."""
        self.limit(VICTIM, weight=300)
        try:
            with self.steady(OTHER, of_light), self.steady(VICTIM, of_heavy):
                speeds = self.speeds()
        finally:
            self.limit(VICTIM, weight=100)
        return speeds[VICTIM] / speeds[OTHER]

    def limited(self):
        self.limit(VICTIM, bytes_per_second=RATE)
        try:
            with self.crowd(VICTIM, *POLITE):
                return self.speeds()[VICTIM] / 1e6
        finally:
            self.limit(VICTIM, bytes_per_second=0)

    def p99(self, other, realtime=False):
        """With realtime the reader has a processor whenever it wants one: of what it waits for then, rdmad's
        part is left, and not how the kernel shares processors between it and its neighbour's programs."""
        with other:
            argv = [self.daemons.rdmactl, "-d", self.daemons.lessee, "-j", "bench", "read", "-s",
                    "8", "-q", "1", "-D", "2s", "--poll", "adaptive", self.ours.uri]
            with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  user=VICTIM, group=VICTIM, extra_groups=[]) as reader:
                if realtime:
                    os.sched_setscheduler(reader.pid, os.SCHED_FIFO, os.sched_param(1))
                said, wrong = reader.communicate()
            if reader.returncode:
                raise rdmad.Failure(f"{' '.join(argv)}: {said or wrong}")
            return json.loads(said)["lat_us"]["p99"]

    def p99_beside_hostile(self, realtime=False):
        return self.p99(self.hostile_crowd(), realtime)

    def p99_beside_worst(self, realtime=False):
        return self.p99(self.worst(), realtime)

    def p99_beside_storm(self, kind):
        return self.p99(self.storm(kind))

    def p99_beside_polite(self, realtime=False):
        return self.p99(self.crowd(OTHER, *POLITE), realtime)

    def wanted(self, value):
        """What was promised, beside what is."""
        return value

    def notes(self):
        """What to know when reading the bandwidth that is left beside a hostile user."""
        said = []
        for who, computing in self.computing.items():
            had, computed = (statistics.median(sum(share for _, share in took) for took in rounds)
                             for rounds in (self.hostile[who], computing))
            said.append(f"{self.name}: the {len(computing[-1])} processes of {who} had {had:.2f} processors, "
                        f"those that only computed instead {computed:.2f}")
        return said

    # ---- the rows --------------------------------------------------------------------------------

    def plan_weights(self, plan):
        for heavy, light in ((1, 64), (64, 1)):
            plan.row(f"weights 3:1, {heavy} sessions vs {light}, {self.name}", "x",
                     plan.measure(self.weights, heavy, light), "3", plan.measure(self.wanted, 3),
                     WEIGHTS_HOLD)

    def plan_beside(self, plan, who, bandwidth, p99):
        """What a user keeps beside such a neighbour; bandwidth and p99 are what measures them."""
        plan.row(f"write 1 MiB bandwidth beside {who} vs alone, {self.name}", "GB/s",
                 plan.measure(*bandwidth), "alone", plan.measure(self.alone),
                 BANDWIDTH_LEFT if "user" in who else None)
        if "user" in who:
            plan.row(f"write 1 MiB bandwidth beside {who} vs beside one who only computes, {self.name}",
                     "GB/s", plan.measure(*bandwidth), "beside who only computes",
                     plan.measure(self.beside_computing, who))
        polite = "one" if "user" in who else "user"
        plan.row(f"read 8 B p99 beside {who} vs beside a polite {polite}, {self.name}", "us",
                 plan.measure(*p99), "beside a polite user", plan.measure(self.p99_beside_polite),
                 P99_LEFT if "user" in who and os.cpu_count() >= PROCESSORS else None)
        if "user" in who:
            plan.row(f"realtime read 8 B p99 beside {who} vs beside a polite one, {self.name}", "us",
                     plan.measure(*p99, True), "beside a polite user",
                     plan.measure(self.p99_beside_polite, True), P99_LEFT)
