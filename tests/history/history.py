# SPDX-License-Identifier: MIT
"""history.py: the records that clients wrote (record.h), as ops, and how an op is told in words.

An op that has no outcome, because its client was killed, is one of unknown outcome. What is unknown
may have been done at any time after it was begun, or never: its end is NEVER.
"""
import os
import struct

FORM = struct.Struct("<IIBBhIQQQQQQ")

(ADD, COUNT, CAS, LOOK, PUT, GET, BLOCK_WRITE, BLOCK_READ, SEND, RECEIVE, GRANT, LEASE_WRITE,
 LEASE_END, LEASE_LOOK, FAULT, RESUMED) = KINDS = range(1, 17)
NAMES = dict(zip(KINDS, (
    "add", "count", "compare-and-swap", "look", "put", "get", "block write", "block read", "send",
    "receive", "grant", "lease write", "lease end", "lease look", "fault", "resumed")))
OPEN, DONE, NOT_DONE, PARTLY, UNKNOWN = range(5)
OUTCOMES = ("open", "done", "not done", "partly done", "unknown")
WHOLE, TORN, FOREIGN = range(3)
UNSEEN = 1
FAULTS = {1: "daemon {} is killed", 2: "daemon {} is stopped and started", 3: "daemon {} hangs",
          4: "client {} is killed", 5: "daemon {} hangs and is killed",
          6: "the path to daemon {} is cut", 7: "the path to daemon {} is late"}
NEVER = float("inf")


class Op:
    """One op of one client."""
    __slots__ = ("client", "number", "kind", "outcome", "code", "object", "arg", "arg2", "begun",
                 "over", "result", "result2")

    def __init__(self, client, number, kind, outcome, code, object, arg, arg2, begun, over, result,
                 result2):
        self.client, self.number, self.kind, self.outcome = client, number, kind, outcome
        self.code, self.object, self.arg, self.arg2 = code, object, arg, arg2
        self.begun, self.over, self.result, self.result2 = begun, over, result, result2
        if not self.known:
            self.over = NEVER

    @property
    def known(self):
        """Whether its client knows what became of it."""
        return self.outcome in (DONE, NOT_DONE)

    @property
    def done(self):
        return self.outcome == DONE

    def __repr__(self):
        return tell(self, 0)


class Wrong(Exception):
    """A history that cannot have been: why, and the few ops that show it."""

    def __init__(self, why, *ops):
        super().__init__(why)
        self.why, self.ops = why, ops


def read_file(path):
    ops = []
    with open(path, "rb") as f:
        while data := f.read(FORM.size * 4096):
            for fields in FORM.iter_unpack(data[:len(data) // FORM.size * FORM.size]):
                if fields[2] == 0:
                    return ops
                ops.append(Op(*fields))
    return ops


def read_dir(path):
    """All clients' ops, each client's checked to be a book that it can have written."""
    ops = []
    for name in sorted(os.listdir(path)):
        if name.endswith(".rec"):
            book = read_file(os.path.join(path, name))
            judge_book(book)
            ops += book
    return ops


def judge_book(book):
    """Each op has its number once, one outcome, and times that fit; only the last may be open."""
    last = max((i for i, op in enumerate(book) if op.kind != RESUMED), default=0)
    for i, op in enumerate(book):
        if op.number != i or op.client != book[0].client:
            raise Wrong(f"record {i} of client {book[0].client} is another's", op)
        if op.kind not in NAMES or op.outcome > UNKNOWN:
            raise Wrong("a record that no client writes", op)
        if op.outcome == OPEN and i != last:
            raise Wrong("an op has no outcome, and its client went on", op)
        if op.known and op.over < op.begun:
            raise Wrong("an op was over before it was begun", op)
        if op.kind in (ADD, CAS, PUT) and op.outcome == PARTLY:
            raise Wrong("an atomic op was done in part", op)


def tell(op, start):
    """An op in words; times from start."""
    found = f", there was {op.result:#x}" if op.done else ""
    what = {
        ADD: lambda: f"adds {op.arg} to counter {op.object}" + (f", there was {op.result}" if op.done else ""),
        COUNT: lambda: f"finds {op.result} in counter {op.object}",
        CAS: lambda: f"swaps register {op.object} from {op.arg:#x} to {op.arg2:#x}" + found,
        LOOK: lambda: f"reads register {op.object}: {op.result:#x}",
        PUT: lambda: f"puts {op.arg:#x} at key {op.object}" + (found if op.arg2 != UNSEEN else ""),
        GET: lambda: f"gets key {op.object}: {op.result:#x}",
        BLOCK_WRITE: lambda: f"writes version {op.arg} of block {op.object}",
        BLOCK_READ: lambda: f"reads block {op.object}: " + (
            f"version {op.result}", "a mix", f"version {op.result} of another block")[op.result2],
        SEND: lambda: f"sends message {op.arg} on channel {op.object:#x}",
        RECEIVE: lambda: f"receives on channel {op.object:#x}" + (f" message {op.result}" if op.done else ""),
        GRANT: lambda: f"grants lease {op.object} for {op.arg} ms",
        LEASE_WRITE: lambda: f"writes {op.arg:#x} into lease {op.object}",
        LEASE_END: lambda: f"hears the end of lease {op.object}",
        LEASE_LOOK: lambda: f"looks at the memory of lease {op.object}: {op.result:#x} is there",
        FAULT: lambda: FAULTS.get(op.object, "fault at {}").format(op.arg) + f" ({op.arg2} ms)",
        RESUMED: lambda: f"its session goes on at daemon {op.object}",
    }.get(op.kind, lambda: f"does what has the number {op.kind}")()
    over = "" if op.over == NEVER else f" to {(op.over - start) / 1e9:.6f}"
    outcome = OUTCOMES[op.outcome] if op.outcome <= UNKNOWN else "?"
    code = f" (error {op.code})" if op.code else ""
    return f"{(op.begun - start) / 1e9:.6f}{over} s: client {op.client} op {op.number} {what}: {outcome}{code}"
