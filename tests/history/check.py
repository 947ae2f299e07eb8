#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check.py [--all] [--faults] DIRECTORY: whether the history that clients recorded there can have been.

Prints how many ops of which kind had which outcome, and for each object that cannot be explained a
sentence and the few ops that show it, with the faults around them. Exit code 0: all can have been;
1: something cannot; 2: it could not be judged. --all: each kind of op must have been done at least
once; --faults: sessions must have outlived faults. So a history of nothing does not pass.
"""
import sys
import time

sys.dont_write_bytecode = True  # the sources may be anybody's
from history import (DONE, FAULT, FAULTS, KINDS, NAMES, OUTCOMES, RECEIVE, RESUMED, UNKNOWN, OPEN, Wrong,
                     read_dir, tell)
from judges import JUDGES

MOST_TOLD = 5
AROUND_NS = 500 * 1000 * 1000


def by_object(ops):
    """(kind of object, its number, its ops)."""
    kind_of = {kind: name for name, (kinds, _) in JUDGES.items() for kind in kinds}
    objects = {}
    for op in ops:
        if op.kind in kind_of and not (op.kind == RECEIVE and op.object == 0):
            objects.setdefault((kind_of[op.kind], op.object), []).append(op)
    return objects


def judge(ops):
    """All that is wrong: (object, Wrong)."""
    wrong = []
    for (name, number), some in sorted(by_object(ops).items()):
        try:
            JUDGES[name][1](some)
        except Wrong as w:
            wrong.append((f"{name} {number:#x}" if name == "channel" else f"{name} {number}", w))
    return wrong


def counts(ops):
    table = {}
    for op in ops:
        outcome = UNKNOWN if op.outcome == OPEN else op.outcome
        table.setdefault(op.kind, {}).setdefault(outcome, 0)
        table[op.kind][outcome] += 1
    lines = []
    for kind in KINDS:
        if kind in table and kind not in (FAULT, RESUMED):
            lines.append(f"{NAMES[kind]} " + ", ".join(f"{n} {OUTCOMES[o]}" for o, n in sorted(table[kind].items())))
    faults = {}
    for op in ops:
        if op.kind == FAULT:
            faults[op.object] = faults.get(op.object, 0) + 1
    lines.append("faults: " + (", ".join(f"{n} times {FAULTS[f].format('N')}" for f, n in sorted(faults.items())) or
                               "none") + f"; {sum(op.kind == RESUMED for op in ops)} sessions went on")
    return "; ".join(lines)


def missing(ops, everything, faults):
    """What a history must have to say something, and this one has not."""
    done = {op.kind for op in ops if op.outcome == DONE}
    asked = [k for k in KINDS if (faults if k in (FAULT, RESUMED) else everything)]
    return [NAMES[k] for k in asked if k not in done]


def tell_wrong(ops, name, wrong):
    start = min(op.begun for op in ops)
    print(f"{name}: {wrong.why}")
    for op in wrong.ops:
        print("    " + tell(op, start))
    if wrong.ops:
        first, last = min(op.begun for op in wrong.ops), max(op.begun for op in wrong.ops)
        for op in ops:
            if op.kind in (FAULT, ) and op.begun < last + AROUND_NS and op.over > first - AROUND_NS:
                print("    beside that, " + tell(op, start))


def main(args):
    options = [a for a in args if a.startswith("--")]
    paths = [a for a in args if not a.startswith("--")]
    if len(paths) != 1 or set(options) - {"--all", "--faults"}:
        print(__doc__)
        return 2
    since = time.monotonic()
    try:
        ops = read_dir(paths[0])
    except Wrong as w:
        print(f"{w.why}: {w.ops}")
        return 1
    lacks = missing(ops, "--all" in options, "--faults" in options)
    wrong = judge(ops)
    print(f"  {len(ops)} records: {counts(ops)}")
    if lacks:
        print("nothing is proven: of these there is none that was done: " + ", ".join(lacks))
        return 2
    for name, w in wrong[:MOST_TOLD]:
        tell_wrong(ops, name, w)
    if wrong:
        print(f"this history cannot have been: {len(wrong)} of {len(by_object(ops))} objects")
        return 1
    print(f"  this history can have been: {len(by_object(ops))} objects, judged in {time.monotonic() - since:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
