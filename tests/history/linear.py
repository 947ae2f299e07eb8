# SPDX-License-Identifier: MIT
"""linear.py: whether there is an order of ops on one object that explains what each of them saw.

Wing and Gong's search as Lowe made it quick ("Testing for linearizability", 2017): it goes through
the history in time and keeps every configuration that is possible so far: what is in the object, and
which of the ops under way have happened already. An op has to have happened when it is over; what
happens before it is tried only then. An op of unknown outcome never has to, so of two configurations
that differ in such ops alone the one with fewer can do whatever the other can, and is kept.

The search is bounded. Where it comes to no end the answer is not "possible" but Undecided.
"""
from history import NEVER, Wrong

MOST = 20000  # configurations that one op's search may come to


class Undecided(Wrong):
    """Too much is possible to be tried."""


def events(ops):
    """(when, 0 begun or 1 over, op): what is begun at the moment when another is over overlaps it."""
    return sorted([(op.begun, 0, i) for i, op in enumerate(ops)] +
                  [(op.over, 1, i) for i, op in enumerate(ops) if op.over != NEVER])


def smallest(configurations, unknown):
    """Without those that another one makes superfluous."""
    groups = {}
    for state, happened in configurations:
        groups.setdefault((state, happened - unknown), []).append(happened)
    kept = set()
    for (state, _), sets in groups.items():
        sets.sort(key=len)
        least = []
        for s in sets:
            if not any(t <= s for t in least):
                least.append(s)
        kept.update((state, s) for s in least)
    return kept


def with_op(configurations, wanted, ops, under_way, step):
    """All that is possible when the wanted op has happened, and as little else as needed."""
    found, seen, todo = set(), set(configurations), list(configurations)
    while todo:
        state, happened = todo.pop()
        if wanted in happened:
            found.add((state, happened - {wanted}))
            continue
        for i in under_way:
            if i in happened:
                continue
            after = step(state, ops[i])
            if after is None or (after == state and i != wanted and ops[i].over == NEVER):
                continue
            new = (after, happened | {i})
            if new not in seen:
                seen.add(new)
                todo.append(new)
        if len(seen) > MOST:
            raise Undecided(f"undecided: more than {MOST} ways to explain an op", ops[wanted])
    return found


def explain(ops, wanted, under_way, configurations):
    """The few ops around the one that cannot be."""
    states = {state for state, _ in configurations}
    before = [op for op in ops if op.over < ops[wanted].over and op is not ops[wanted]]
    before.sort(key=lambda op: op.over)
    beside = [ops[i] for i in under_way if i != wanted and ops[i].over != NEVER]
    unknown = [ops[i] for i in under_way if ops[i].over == NEVER][-3:]
    shown = ", ".join(f"{s:#x}" for s in sorted(states)[:3])
    few = sorted(set(before[-4:] + beside + unknown), key=lambda op: op.begun)
    raise Wrong(f"there is no order of the ops that explains the last one: before it only {shown} could be there",
                *few, ops[wanted])


def judge(ops, first, step):
    """step(state, op): the state after it, None if the op cannot have seen what it says."""
    unknown = frozenset(i for i, op in enumerate(ops) if op.over == NEVER)
    configurations, under_way = {(first, frozenset())}, set()
    for _, over, i in events(ops):
        if not over:
            under_way.add(i)
            continue
        after = smallest(with_op(configurations, i, ops, under_way, step), unknown)
        if not after:
            explain(ops, i, under_way, configurations)
        configurations = after
        under_way.discard(i)
