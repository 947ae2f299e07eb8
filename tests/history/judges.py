# SPDX-License-Identifier: MIT
"""judges.py: for each kind of object, whether what was seen of one of them can have been.

A judge gets the ops of one object and raises Wrong if they cannot be explained.
"""
import bisect

import linear
from history import (ADD, BLOCK_READ, BLOCK_WRITE, CAS, COUNT, FOREIGN, GET, GRANT, LEASE_END,
                     LEASE_LOOK, LEASE_WRITE, LOOK, NEVER, NOT_DONE, PUT, RECEIVE, SEND, TORN, UNSEEN, Wrong)

LATE_NS = 1000 * 1000 * 1000  # ten times what a lease may live longer than its ttl over restarts


def of(ops, kind):
    return [op for op in ops if op.kind == kind]


# ---- counters -------------------------------------------------------------------------------------


def judge_counter(ops):
    """Adds return what was there: each found what those before it have left, in the order of time.

    What they found puts all known ops in an order; a count of n comes before the add that found n. No
    two adds are of the same amount, so that what lies between two of them tells which adds of unknown
    outcome were done there. None of those can have been done twice.
    """
    order = sorted((op for op in ops if op.done), key=lambda op: (op.result, op.kind == ADD, op.begun))
    latest = None
    for op in order:
        if latest and op.over < latest.begun:
            raise Wrong(BACKWARDS[latest.kind, op.kind], op, latest)
        if not latest or op.begun > latest.begun:
            latest = op
    judge_gaps(order, of(ops, ADD))


BACKWARDS = {
    (ADD, ADD): "an add found more than one that was begun after it was over",
    (ADD, COUNT): "the counter said more than was added so far",
    (COUNT, ADD): "an add was lost: it was done, and the counter says less",
    (COUNT, COUNT): "the counter went back",
}


def judge_gaps(order, adds):
    """What nobody says to have added was added by those of unknown outcome, begun before any later op was over."""
    unknown = [op for op in adds if not op.known]
    limit, limits, before, there = NEVER, [], None, 0
    for op in reversed(order):
        limit = min(limit, op.over)
        limits.append(limit)
    for op, last in zip(order, reversed(limits)):
        if op.result < there:
            raise Wrong("an add was lost: the next one did not find it", before, op)
        chosen = subset([u for u in unknown if u.begun <= last], op.result - there)
        if chosen is None:
            again = [o for o in adds if o.arg == op.result - there]
            raise Wrong(f"more was added than the adds: {op.result - there} before the last of these, and no adds of "
                        "unknown outcome come to that" + (", but one of these was done once more" if again else ""),
                        *again, *([before] if before else []), op)
        unknown = [u for u in unknown if u not in chosen]
        there, before = (op.result + op.arg, op) if op.kind == ADD else (op.result, before)


MOST_UNKNOWN = 32


def subset(adds, amount):
    """Those that come to it, None if none do. Of very many the latest, which it is nearly always."""
    if amount == 0:
        return []
    adds = sorted((a for a in adds if a.arg <= amount), key=lambda a: -a.begun)
    for count in sorted({min(len(adds), n) for n in (8, 20, MOST_UNKNOWN)}):
        first = {sum(a.arg for a in some): some for some in subsets(adds[:count // 2])}
        for some in subsets(adds[count // 2:count]):
            rest = amount - sum(a.arg for a in some)
            if rest in first:
                return first[rest] + some
    if len(adds) > MOST_UNKNOWN:
        raise linear.Undecided(f"undecided: {len(adds)} adds are of unknown outcome", *adds[:3])
    return None


def subsets(adds):
    found = [[]]
    for a in adds:
        found += [some + [a] for some in found]
    return found


# ---- registers and keys ---------------------------------------------------------------------------


def step_register(state, op):
    if op.kind == LOOK:
        return state if state == op.result else None
    if op.over == NEVER:
        return op.arg2 if state == op.arg else state
    if state != op.result:
        return None
    return op.arg2 if state == op.arg else state


def step_key(state, op):
    if op.kind == GET:
        return state if state == op.result else None
    return op.arg if op.over == NEVER or op.arg2 == UNSEEN or state == op.result else None


def judge_values(ops, written):
    """Nobody saw what nobody wrote, or what was said not to be written."""
    writers = {}
    for op in ops:
        value = written(op)
        if value is not None:
            writers.setdefault(value, []).append(op)
    for op in ops:
        if not op.done or not op.result:
            continue
        by = writers.get(op.result, [])
        if not by:
            raise Wrong("a value was seen that nobody wrote", op)
        if all(w.outcome == NOT_DONE for w in by):
            raise Wrong("a value was seen whose write was not done", by[0], op)
        if all(w.begun > op.over for w in by):
            raise Wrong("a value was seen before it was written", op, by[0])


def judge_ordered(ops, written, step):
    judge_values(ops, written)
    linear.judge([op for op in ops if op.done or (not op.known and written(op) is not None)], 0, step)


def judge_register(ops):
    judge_ordered(ops, lambda op: op.arg2 if op.kind == CAS else None, step_register)


def judge_key(ops):
    judge_ordered(ops, lambda op: op.arg if op.kind == PUT else None, step_key)


# ---- blocks ---------------------------------------------------------------------------------------


def judge_block(ops):
    """One program writes it, version after version. Reads may be a mix only of what is being written."""
    writes = sorted(of(ops, BLOCK_WRITE), key=lambda op: op.arg)
    for a, b in zip(writes, writes[1:]):
        if a.client != b.client or a.arg == b.arg or (a.known and a.over > b.begun):
            raise Wrong("a block is written by two at a time", a, b)
    done = [op for op in writes if op.done]
    ends = [op.over for op in done]
    seen = []  # (over, greatest version that was read until then, the read)
    for read in sorted((op for op in of(ops, BLOCK_READ) if op.done), key=lambda op: op.over):
        before = bisect.bisect_left(ends, read.begun)
        judge_read(writes, done[before - 1] if before else None, read)
        if read.result2 == TORN:
            continue
        known = bisect.bisect_left(seen, read.begun, key=lambda s: s[0]) - 1
        if known >= 0 and seen[known][1] > read.result:
            raise Wrong("a block went back to an earlier version", seen[known][2], read)
        if not seen or read.result > seen[-1][1]:
            seen.append((read.over, read.result, read))


def judge_read(writes, last, read):
    """last: the last write that was done before the read was begun."""
    least = last.arg if last else 0
    if read.result2 == FOREIGN:
        raise Wrong("a value was seen that nobody wrote there", read)
    if read.result2 == TORN:
        # One that was not done as a whole leaves a mix until the next is.
        if not any(w.begun < read.over and w.arg > least and w.outcome != NOT_DONE for w in writes):
            raise Wrong("a read is a mix, and nobody was writing", *([last] if last else []), read)
        return
    if read.result == 0 and not last:
        return
    write = next((w for w in writes if w.arg == read.result), None)
    if read.result < least:
        raise Wrong("a read shows an old version: a write was lost, or undone by an earlier one",
                    *([write] if write else []), last, read)
    if not write:
        raise Wrong("a value was seen that nobody wrote", read)
    if write.begun > read.over:
        raise Wrong("a value was seen before it was written", read, write)
    if write.outcome == NOT_DONE:
        raise Wrong("a value was seen whose write was not done", write, read)


# ---- channels -------------------------------------------------------------------------------------


def judge_channel(ops):
    """What came was sent, came once and in order; what was done came."""
    sends = {}
    for op in of(ops, SEND):
        if op.arg in sends:
            raise Wrong("a message was sent twice by the record", sends[op.arg], op)
        sends[op.arg] = op
    came, last = {}, None
    for op in sorted((op for op in of(ops, RECEIVE) if op.done), key=lambda op: op.begun):
        judge_message(sends.get(op.result), op)
        if op.result in came:
            raise Wrong("a message came twice", sends[op.result], came[op.result], op)
        if last and op.result < last.result:
            raise Wrong("a message came out of order", last, op)
        came[op.result] = last = op
    missing = [op for n, op in sorted(sends.items()) if op.done and n not in came]
    for op in missing:
        if last and op.arg < last.result:
            raise Wrong("a message was lost: one sent after it came", op, last)
    # The one receive that was posted when the receiver's daemon was lost may have had a message.
    broken = [op for op in of(ops, RECEIVE) if not op.known]
    if len(missing) > (1 if broken or not came else 0):
        raise Wrong("a message was lost: it is done, and was not received", missing[0],
                    *([last] if last else []), *broken[-1:])


def judge_message(send, receive):
    if receive.result2 != 0:
        raise Wrong("a message is a mix", *([send] if send else []), receive)
    if not send:
        raise Wrong("a message came that nobody sent", receive)
    if send.begun > receive.over:
        raise Wrong("a message came before it was sent", receive, send)
    if send.outcome == NOT_DONE:
        raise Wrong("a message came that was not delivered, by its sender's outcome", send, receive)


# ---- leases ---------------------------------------------------------------------------------------


def judge_lease(ops):
    """After its end nothing is written: not by what writers say, and not by what is in the memory."""
    grant = next(iter(of(ops, GRANT)), None)
    end = next((op for op in of(ops, LEASE_END) if op.done), None)
    for op in of(ops, LEASE_LOOK):
        if op.result != op.arg:
            last = [w for w in of(ops, LEASE_WRITE) if w.begun < op.over and w.outcome != NOT_DONE][-2:]
            raise Wrong(f"bytes were written after the lease's end, at offset {op.result2}",
                        *([end] if end else []), *last, op)
    for op in of(ops, LEASE_WRITE):
        if not op.done:
            continue
        if not grant:
            raise Wrong("a write into a lease that nobody granted", op)
        if end and op.begun > end.over:
            raise Wrong("a write was done after the lease's end", end, op)
        if grant.done and op.begun > grant.over + grant.arg * 1000000 + LATE_NS:
            raise Wrong("a write was done after the lease's end by its ttl", grant, op)


JUDGES = {
    "counter": ((ADD, COUNT), judge_counter),
    "register": ((CAS, LOOK), judge_register),
    "key": ((PUT, GET), judge_key),
    "block": ((BLOCK_WRITE, BLOCK_READ), judge_block),
    "channel": ((SEND, RECEIVE), judge_channel),
    "lease": ((GRANT, LEASE_WRITE, LEASE_END, LEASE_LOOK), judge_lease),
}
