#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_check.py: the checker of histories accepts what can have been and refuses, with the right word, what
cannot.

Good histories come from a store that is right (world.py), with unknown outcomes; each way to spoil
one has to be refused with its word. Of short histories at random the judges' verdict has to be that
of trying every order there is.
"""
import contextlib
import io
import itertools
import os
import random
import sys
import tempfile

sys.dont_write_bytecode = True  # the sources may be anybody's
import check
import judges
import linear
import world
from history import (ADD, BLOCK_READ, BLOCK_WRITE, CAS, COUNT, DONE, FORM, GET, LEASE_LOOK, LEASE_WRITE, LOOK,
                     NEVER, NOT_DONE, OPEN, PARTLY, PUT, RECEIVE, SEND, TORN, UNKNOWN, FOREIGN, WHOLE, Op, Wrong)

SEEDS = range(25)


def fail(text):
    print("FAILED: " + text)
    sys.exit(1)


def verdict(judge, ops):
    """None, or why not."""
    try:
        judge(ops)
    except Wrong as w:
        if not all(isinstance(op, Op) and op in ops and str(op) for op in w.ops):
            fail(f"{w.why}: shows what is no op of the history")
        return w.why
    return None


# ---- ways to spoil a history ----------------------------------------------------------------------
#
# Each takes the ops of a good one and a source of random numbers, and returns the word to be heard;
# None if this history has nothing to spoil in this way.


def pick(rng, ops, fits):
    found = [op for op in ops if fits(op)]
    return rng.choice(found) if found else None


def done(kind):
    return lambda op: op.kind == kind and op.done


def add_lost_at_the_end(rng, ops):
    last = max(filter(done(ADD), ops), key=lambda op: op.result)
    next(op for op in ops if op.kind == COUNT).result = last.result
    return "an add was lost"


def add_twice(rng, ops):
    return more_after(ops, pick(rng, ops, done(ADD)), lambda op: op.arg)


def more_after(ops, add, amount):
    for other in ops:
        if other.done and other.result > add.result:
            other.result += amount(add)
    return "more was added than the adds"


def unknown_add_twice(rng, ops):
    """Before the add that was done next one of unknown outcome was done, and now once more."""
    order = sorted((op for op in ops if op.done), key=lambda op: op.result)
    for a, b in zip(order, order[1:]):
        u = next((u for u in ops if not u.known and u.arg == b.result - a.result - a.arg), None)
        if u:
            return more_after(ops, a, lambda op: u.arg)
    return None


def add_finds_what_another_found(rng, ops):
    b, a = sorted((pick(rng, ops, done(ADD)), pick(rng, ops, done(ADD))), key=lambda op: op.result)
    if a is b:
        return None
    a.result = b.result
    return "an add "


def add_back_in_time(rng, ops):
    adds = sorted(filter(done(ADD), ops), key=lambda op: op.begun)
    adds[0].result, adds[-1].result = adds[-1].result, adds[0].result
    return "begun after it was over"


def stale(kind, writer):
    """A read of what had been overwritten, for sure, before it was begun."""
    def spoil(rng, ops):
        reads = [op for op in ops if op.kind == kind and op.done and op.result]
        rng.shuffle(reads)
        for read in reads:
            seen = [op.result for op in ops if op.done and op.kind in (kind, writer) and op.over < read.begun and
                    op.result and op.result != read.result]
            writes = [op for op in ops if op.kind == writer and op.done and op.over < read.begun]
            if not seen or len(writes) < 4:
                continue
            read.result = seen[0]
            value = (lambda op: op.arg2) if writer == CAS else (lambda op: op.arg)
            if any(not op.known and value(op) == seen[0] for op in ops):
                continue
            return "no order"
        return None
    return spoil


def never_written(kind):
    def spoil(rng, ops):
        op = pick(rng, ops, done(kind))
        op.result = 0xdead
        return "that nobody wrote"
    return spoil


def swapped_both(rng, ops):
    """Two that swapped the same value, as if the first had been lost."""
    won = [op for op in ops if op.kind == CAS and op.done and op.result == op.arg]
    for a in won:
        b = next((op for op in won if op.arg == a.arg2 and op.begun > a.over), None)
        if b:
            b.arg = b.result = a.arg
            return "no order"
    return None


def put_not_linear(rng, ops):
    """Two puts, one after the other, and both replaced the same value."""
    puts = [op for op in ops if op.kind == PUT and op.done]
    for a in puts:
        b = next((op for op in puts if op.result == a.arg and a.arg and op.begun > a.over), None)
        if b and a.result and not any(op.arg == a.result and not op.known for op in ops):
            b.result = a.result
            return "no order"
    return None


def told_not_done(kind, seen_by):
    def spoil(rng, ops):
        value = {CAS: lambda op: op.arg2}.get(kind, lambda op: op.arg)
        ops[:] = [op for op in ops if op.result2 != TORN]
        for op in ops:
            if op.kind == kind and op.done and value(op) and any(
                    r.done and r.kind in (kind, seen_by) and r.result == value(op) for r in ops):
                op.outcome = NOT_DONE
                return "was not delivered" if kind == SEND else "was not done"
        return None
    return spoil


def early(writer, reader):
    """What was seen is written later."""
    def spoil(rng, ops):
        for op in ops:
            value = op.arg2 if writer == CAS else op.arg
            if op.kind == writer and op.done and value:
                for read in ops:
                    if read.kind == reader and read.done and read.over < op.begun:
                        read.result, read.result2 = value, WHOLE
                        return "before it was written"
        return None
    return spoil


def block_of_two(rng, ops):
    pick(rng, ops, done(BLOCK_WRITE)).client = 8
    return "written by two"


def block_stale(rng, ops):
    read = [op for op in ops if op.kind == BLOCK_READ and op.done and op.result > 9]
    if not read:
        return None
    read[-1].result = 1
    return "old version"


def block_mix(rng, ops):
    """Between two writes that are far enough from one another."""
    writes = [op for op in ops if op.kind == BLOCK_WRITE]
    for a, b in zip(writes, writes[1:]):
        if a.done and b.begun - a.over > 4:
            ops.append(Op(5, 0, BLOCK_READ, DONE, 0, 0, 0, 0, a.over + 1, a.over + 2, 0, TORN))
            return "is a mix"
    return None


def block_foreign(rng, ops):
    pick(rng, ops, done(BLOCK_READ)).result2 = FOREIGN
    return "nobody wrote there"


def block_never(rng, ops):
    pick(rng, ops, lambda op: op.kind == BLOCK_READ and op.result).result = 4711
    return "nobody wrote"


def block_back(rng, ops):
    """A read saw what was being written, and a later one did not, while it was still being written."""
    w = next(op for op in ops if op.kind == BLOCK_WRITE and op.done and op.arg > 1)
    last = next(op for op in ops if op.kind == BLOCK_WRITE and op.arg == w.arg - 1)
    if not last.done:
        return None
    ops[:] = [op for op in ops if op.kind == BLOCK_WRITE and op.arg <= w.arg]
    w.over = w.begun + 1000
    for i, (begun, version) in enumerate(((10, w.arg), (30, last.arg))):
        ops.append(Op(5, i, BLOCK_READ, DONE, 0, 0, 0, 0, w.begun + begun, w.begun + begun + 5, version, 0))
    return "went back"


def message_twice(rng, ops):
    op = pick(rng, ops, lambda op: op.kind == RECEIVE and op.done and op.result > 1)
    again = Op(1, 0, RECEIVE, DONE, 0, op.object, 0, 0, op.over + 1, op.over + 2, op.result, 0)
    ops.append(again)
    return "came twice"


def message_out_of_order(rng, ops):
    some = [op for op in ops if op.kind == RECEIVE and op.done]
    a, b = some[-2], some[-1]
    a.result, b.result = b.result, a.result
    for op in ops: # sent early enough for either
        if op.kind == SEND and op.arg in (a.result, b.result):
            op.begun = 0
    return "out of order"


def message_invented(rng, ops):
    pick(rng, ops, done(RECEIVE)).result = 4711
    return "that nobody sent"


def message_lost(rng, ops):
    ops.remove(pick(rng, ops, lambda op: op.kind == RECEIVE and op.done and op.result < 50))
    return "a message was lost"


def message_lost_at_the_end(rng, ops):
    some = [op for op in ops if op.kind == RECEIVE and op.done and op.result < 60]
    ops[:] = [op for op in ops if op not in some[-2:] and (op.kind == SEND or op.result < 60)]
    return "a message was lost"


def message_torn(rng, ops):
    pick(rng, ops, done(RECEIVE)).result2 = TORN
    return "is a mix"


def message_early(rng, ops):
    op = pick(rng, ops, lambda op: op.kind == RECEIVE and op.done and op.result < 50)
    send = next(s for s in ops if s.kind == SEND and s.arg == op.result)
    send.begun = op.over + 1
    return "before it was sent"


def message_in_the_books_twice(rng, ops):
    pick(rng, ops, lambda op: op.kind == SEND and op.arg > 1).arg = 1
    return "sent twice by the record"


def lease_of_nobody(rng, ops):
    ops[:] = [op for op in ops if op.kind != judges.GRANT]
    return "that nobody granted"


def lease_bytes(rng, ops):
    pick(rng, ops, done(LEASE_LOOK)).result ^= 1
    return "bytes were written after the lease's end"


def lease_write(rng, ops):
    last = max((op for op in ops if op.kind == LEASE_WRITE), key=lambda op: op.begun)
    last.outcome, last.over = DONE, last.begun + 5
    return "a write was done after the lease's end"


def lease_too_long(rng, ops):
    for op in ops:
        if op.kind not in (LEASE_WRITE, ):
            continue
        op.outcome, op.begun, op.over = DONE, 5 * 10**9, 5 * 10**9 + 1
        ops[:] = [o for o in ops if o.kind != judges.LEASE_END]
        return "by its ttl"
    return None


WAYS = {
    "counter": (add_lost_at_the_end, add_twice, add_finds_what_another_found,
                unknown_add_twice, add_back_in_time),
    "register": (stale(LOOK, CAS), never_written(LOOK), never_written(CAS), swapped_both, told_not_done(CAS, LOOK),
                 early(CAS, LOOK)),
    "key": (stale(GET, PUT), never_written(GET), put_not_linear, told_not_done(PUT, GET), early(PUT, GET)),
    "block": (block_stale, block_mix, block_foreign, block_never, block_back, block_of_two, early(BLOCK_WRITE, BLOCK_READ),
              told_not_done(BLOCK_WRITE, BLOCK_READ)),
    "channel": (message_twice, message_out_of_order, message_invented, message_lost, message_lost_at_the_end,
                message_torn, message_early, message_in_the_books_twice, told_not_done(SEND, RECEIVE)),
    "lease": (lease_bytes, lease_write, lease_too_long, lease_of_nobody),
}


def good_ones_are_accepted():
    for name, make in world.WORLDS.items():
        for seed in SEEDS:
            why = verdict(judges.JUDGES[name][1], make(seed))
            if why:
                fail(f"{name}, seed {seed}: what can have been is refused: {why}")


def spoilt_ones_are_refused():
    for name, ways in WAYS.items():
        for number, spoil in enumerate(ways):
            heard = 0
            for seed in SEEDS:
                ops = world.WORLDS[name](seed)
                word = spoil(random.Random(seed), ops)
                if not word:
                    continue
                why = verdict(judges.JUDGES[name][1], ops)
                if not why or word not in why:
                    fail(f"{name}, way {number} ({spoil.__name__}), seed {seed}: \"{why}\" instead of \"{word}\"")
                heard += 1
            if heard < 5:
                fail(f"{name}, way {number} ({spoil.__name__}): only {heard} histories could be spoilt")


# ---- against all orders ---------------------------------------------------------------------------


def some_order_explains(ops, step):
    """By trying every order of every choice of unknown ops."""
    known = [op for op in ops if op.known]
    unknown = [op for op in ops if not op.known]
    for count in range(len(unknown) + 1):
        for chosen in itertools.combinations(unknown, count):
            for order in itertools.permutations(known + list(chosen)):
                if explains(order, step):
                    return True
    return False


def explains(order, step):
    state = 0
    for i, op in enumerate(order):
        if any(later.over < op.begun for later in order[i + 1:]):
            return False
        state = step(state, op)
        if state is None:
            return False
    return True


def short_history(rng, kinds, values):
    """Mostly such that it can just or just not have been."""
    ops = []
    for i in range(rng.randint(2, 6)):
        kind, begun = rng.choice(kinds), rng.randint(0, 20)
        outcome = rng.choice((DONE, DONE, DONE, UNKNOWN))
        if outcome == UNKNOWN and kind in (LOOK, GET, COUNT):
            outcome = DONE
        arg = 1 << i if kind == ADD else rng.randint(0, values)
        ops.append(Op(i, 0, kind, outcome, 0, 0, arg, rng.randint(1, values or 1), begun, begun + rng.randint(0, 12),
                      possible_result(rng, values, ops), 0))
    return ops


def possible_result(rng, values, before):
    """Of registers any value, of counters what some adds come to."""
    if values:
        return rng.randint(0, values)
    return sum(op.arg for op in before if op.kind == ADD and rng.random() < 0.7)


def step_counter(state, op):
    if op.kind == COUNT:
        return state if state == op.result else None
    return state + op.arg if op.over == NEVER or state == op.result else None


def verdicts_are_those_of_all_orders():
    kinds = {"counter": ((ADD, ADD, COUNT), step_counter, judges.judge_counter, 0),
             "register": ((CAS, CAS, LOOK), judges.step_register, None, 2),
             "key": ((PUT, PUT, GET), judges.step_key, None, 2)}
    for name, (some, step, judge, values) in kinds.items():
        rng, tally = random.Random(name), [0, 0]
        for _ in range(1500):
            ops = short_history(rng, some, values)
            possible = some_order_explains(ops, step)
            why = verdict(judge or (lambda o, s=step: linear.judge(o, 0, s)), ops)
            if possible != (why is None):
                fail(f"{name}: {'possible' if possible else 'impossible'} by all orders, but {why}: {ops}")
            tally[possible] += 1
        if min(tally) < 100:
            fail(f"{name}: {tally[1]} of the short histories are possible, {tally[0]} are not: that proves little")


def what_cannot_be_decided_is_no_yes():
    ops = [Op(i, 0, PUT, DONE, 0, 0, i + 1, 0, 0, 100 + i, 0, 0) for i in range(12)]
    for op in ops:
        op.result = 0xbad if op.arg == 12 else 0
    most, linear.MOST = linear.MOST, 5
    why = verdict(lambda o: linear.judge(o, 0, lambda state, op: state | 1 << op.arg), ops)
    linear.MOST = most
    if not why or "undecided" not in why:
        fail(f"too much is possible, and the verdict is {why}")
    adds = [Op(i, 0, ADD, UNKNOWN, 0, 0, 1 << 30 | 1 << i % 30, 0, 0, 0, 0, 0) for i in range(60)]
    why = verdict(judges.judge_counter, adds + [Op(70, 0, COUNT, DONE, 0, 0, 0, 0, 9, 10, 5 << 30, 0)])
    if not why or "undecided" not in why:
        fail(f"too much is possible, and the verdict is {why}")


# ---- files ----------------------------------------------------------------------------------------


def write_book(path, ops):
    with open(path, "wb") as f:
        for op in ops:
            over = 0 if op.over == NEVER else op.over
            f.write(FORM.pack(op.client, op.number, op.kind, op.outcome, op.code, op.object, op.arg, op.arg2, op.begun,
                              over, op.result, op.result2))
        f.write(bytes(4096))


def adds(*outcomes):
    return [Op(3, i, ADD, outcome, 0, 0, 1, 0, 10 * i, 10 * i + 5, i, 0) for i, outcome in enumerate(outcomes)]


def second_number(ops):
    ops[1].number = 0
    return ops


def over_before_begun(ops):
    ops[1].over = 0
    return ops


def said_of(book, *options):
    with tempfile.TemporaryDirectory() as path:
        write_book(os.path.join(path, "003.rec"), book)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = check.main([*options, path])
        return code, said.getvalue()


def books_are_read():
    for book, code, word in ((adds(DONE, DONE, DONE), 0, "add 3 done"),
                             (adds(DONE, DONE, OPEN), 0, "add 2 done, 1 unknown"),
                             (adds(DONE, OPEN, DONE), 1, "has no outcome"),
                             (adds(DONE, PARTLY, DONE), 1, "done in part"),
                             (adds(DONE, 7, DONE), 1, "no client writes"),
                             (second_number(adds(DONE, DONE)), 1, "is another's"),
                             (over_before_begun(adds(DONE, DONE)), 1, "before it was begun"),
                             (adds(DONE, DONE)[:1] * 2, 1, "is another's")):
        heard, said = said_of(book)
        if heard != code or word not in said:
            fail(f"a book: exit code {heard} with \"{said}\", not {code} with \"{word}\"")
    heard, said = said_of(adds(DONE), "--all")
    if heard != 2 or "nothing is proven" not in said:
        fail(f"a history of nothing passes: {heard}: {said}")
    heard, said = said_of(adds(DONE), "--faults")
    if heard != 2 or "fault" not in said:
        fail(f"a history without faults passes: {heard}: {said}")


def main():
    for case in (good_ones_are_accepted, spoilt_ones_are_refused, verdicts_are_those_of_all_orders,
                 what_cannot_be_decided_is_no_yes, books_are_read):
        case()
        print("  " + case.__name__.replace("_", " "))


if __name__ == "__main__":
    main()
