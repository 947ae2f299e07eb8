# SPDX-License-Identifier: MIT
"""Where the time of an op goes: the processor time of each of our threads, and of the peer, per op.

The system time of the thread that posts is mostly the device driver's, when the device is software
(rxe does the work of a NIC within the system call that rings its doorbell); the rest is ours.
"""
import os
import resource

LEAST = 0.02  # of the time of an op
TICK_US = 1e6 / os.sysconf("SC_CLK_TCK")


def threads(pid):
    """{name of a thread: (user us, system us, times it slept)}"""
    found = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        where = f"/proc/{pid}/task/{tid}"
        try:
            with open(where + "/stat", encoding="ascii") as f:
                name, _, rest = f.read().partition(" (")[2].rpartition(") ")
            with open(where + "/status", encoding="ascii") as f:
                slept = next(int(line.split()[1]) for line in f
                             if line.startswith("voluntary_ctxt_switches"))
        except OSError:
            continue  # it ended
        fields = rest.split()
        had = found.get(name, (0.0, 0.0, 0))
        found[name] = (had[0] + int(fields[11]) * TICK_US, had[1] + int(fields[12]) * TICK_US,
                       had[2] + slept)
    return found


def children():
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (use.ru_utime * 1e6, use.ru_stime * 1e6, use.ru_nvcsw)


def less(after, before):
    return tuple(a - b for a, b in zip(after, before))


class Watch:
    """Adds up what the rounds used; daemons is an rdmad.Daemons."""

    def __init__(self, daemons):
        self.daemons, self.used = daemons, {}

    def add(self, key, who, operations, use):
        had = self.used.setdefault(key, {}).get(who, (0, (0.0, 0.0, 0)))
        self.used[key][who] = (had[0] + operations, tuple(a + b for a, b in zip(had[1], use)))

    def operations(self):
        """Of the lessee's daemon, so that warming up counts, too."""
        return self.daemons.show(self.daemons.lessee, "status")["traffic"]["ops"]

    def ours(self, key, measure):
        ops = self.operations()
        before = {name: threads(pid) for name, pid in self.daemons.pids.items()}
        client = children()
        result = measure()
        client = less(children(), client)
        after = {name: threads(pid) for name, pid in self.daemons.pids.items()}
        ops = self.operations() - ops
        self.add(key, "client", ops, client)
        for daemon, now in after.items():
            for thread, use in now.items():
                self.add(key, f"{daemon} {thread}", ops,
                         less(use, before[daemon].get(thread, (0.0, 0.0, 0))))
        self.add(key, "an op", 1, (1 / result["msg_rate_mops"], 0, 0))
        return result

    def theirs(self, key, title, operations, measure):
        before = children()
        result = measure()
        self.add(key, title, operations, less(children(), before))
        return result

    def document(self):
        """For each measurement: us from op to op, and what threads used for one, if it shows."""
        rows = []
        for (op, size, depth), used in self.used.items():
            rounds, (total, _, _) = used.pop("an op", (0, (0.0, 0, 0)))
            op_us = total / rounds if rounds else 0.0
            row = {"op": op, "bytes": size, "depth": depth, "op_us": round(op_us, 2),
                   "threads": []}
            for who, (ops, (user, system, slept)) in used.items():
                if ops and user + system >= LEAST * op_us * ops:
                    row["threads"].append({"thread": who, "user_us": round(user / ops, 2),
                                           "system_us": round(system / ops, 2),
                                           "sleeps": round(slept / ops, 3)})
            rows.append(row)
        return rows


def print_table(rows):
    print("\nprocessor time per op, us (user + system) and sleeps per op:")
    for r in rows:
        every = f", one every {r['op_us']:.1f} us" if r["op_us"] else ""
        print(f"{r['op']} {r['bytes']} B, {r['depth']} in flight{every}")
        for t in r["threads"]:
            print(f"    {t['thread']:28} {t['user_us']:8.2f} + {t['system_us']:8.2f}   "
                  f"{t['sleeps']:.3f}")
