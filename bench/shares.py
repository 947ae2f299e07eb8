# SPDX-License-Identifier: MIT
"""Users beside one another, for bench/compare shares: crowds (crowd.c) under uids of their own, and
what each of them moved, as the lessee's daemon counts it."""
import contextlib
import json
import os
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
SHALLOW = 16                # over a slow device: what 64 sessions have posted ends before its deadline
STORMS = ("compute", "doorbell", "cancel", "attach", "session", "request")
# sessions, rings, depth, bytes
POLITE, HOSTILE = (1, 1, 16, 1 << 20), (64, 16, 64, 1 << 20)
# All at once: rings as deep as there are, of which the first alone has as many ops as a session may have in
# flight, and ops that are as large as 64 sessions can have memory for on a small machine.
WORST = (64, 4, 4096, 16 << 20)
STEADY = (1, 1, 64, 1 << 20)  # so deep that it never runs dry: whose bandwidth is measured


class Users:
    def __init__(self, daemons, fabric, deep=DEEP, span=SPAN):
        self.deep, self.span = deep, span
        if os.geteuid():
            raise rdmad.Failure("shares are measured between two users: run this as root")
        self.daemons, self.name = daemons, fabric
        self.ours = rdmad.Ours(daemons, fabric, 2 << 20)
        self.large = None  # a lease for the largest ops

    def limit(self, uid, **keys):
        rdmad.run([self.daemons.rdmactl, "-d", self.daemons.lessee, "limit", "set", f"uid:{uid}",
                   *(f"{key}={value}" for key, value in keys.items())])

    def let_in(self):
        for where in (self.daemons.work, *self.daemons.dirs):
            os.chmod(where, 0o755)

    def crowd(self, uid, sessions, rings, depth, size, how=0):
        return self.at_work(uid, "bench_crowd", self.ours.uri, sessions, rings, depth, size, self.span, how)

    def hostile_crowd(self):
        """It has 64 GiB in its rings: on a slow machine some of that passes its deadline."""
        return self.crowd(OTHER, *HOSTILE, "flood")

    def storm(self, kind):
        return self.at_work(OTHER, "bench_storm", self.ours.uri, kind)

    @contextlib.contextmanager
    def worst(self):
        """Deep rings full of large ops, cancels and attaches, all of one user. Storms first: a session
        of theirs has to get in before the crowd has taken all that the user may have."""
        self.large = self.large or self.ours.serve(2 * WORST[3])
        with self.storm("cancel"), self.storm("attach"), \
                self.at_work(OTHER, "bench_crowd", self.large, *WORST, self.span, "flood"):
            yield

    @contextlib.contextmanager
    def at_work(self, uid, program, uri, *arguments):
        self.let_in()
        argv = [os.path.join(self.daemons.build, "bench", program), self.daemons.lessee, uri,
                *map(str, arguments)]
        p = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, user=uid, group=uid,
                             extra_groups=[])
        try:
            if p.stdout.readline() != "ready\n":
                raise rdmad.Failure(f"{' '.join(argv)} did not start")
            yield
            if p.poll() is not None:
                raise rdmad.Failure(f"{' '.join(argv)} ended")
        finally:
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
        before, start = self.written(), time.monotonic()
        time.sleep(WINDOW)
        after, span = self.written(), time.monotonic() - start
        return {uid: (after[uid] - before.get(uid, 0)) / span for uid in after}

    def alone(self):
        with self.crowd(VICTIM, *STEADY):
            return self.speeds()[VICTIM] / 1e9

    def beside_hostile(self):
        with self.hostile_crowd(), self.crowd(VICTIM, *STEADY):
            return self.speeds()[VICTIM] / 1e9

    def beside_worst(self):
        with self.worst(), self.crowd(VICTIM, *STEADY):
            return self.speeds()[VICTIM] / 1e9

    def beside_storm(self, kind):
        with self.storm(kind), self.crowd(VICTIM, *STEADY):
            return self.speeds()[VICTIM] / 1e9

    def weights(self, of_heavy, of_light):
        """What a user of weight 300 has for each byte of one of weight 100."""
        self.limit(VICTIM, weight=300)
        try:
            with self.crowd(OTHER, of_light, 1, self.deep, PART), \
                    self.crowd(VICTIM, of_heavy, 1, self.deep, PART):
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
