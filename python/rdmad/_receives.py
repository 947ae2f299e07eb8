# SPDX-License-Identifier: MIT
"""Receives of threads: each is posted once, on a ring of its own, and waited for in slices.

The library takes a receive back when its time is over, and a message that had begun to come begins anew with the next
one: who asked for a slice at a time would never have a message that takes longer to come. So a receive is in flight
until it has completed; its time is the daemon's to watch. Between the slices Python hears of signals, and a close by
another thread is seen; both take the receive back, which takes until the next daemon is there when it is away.

A session keeps its rings, and a receive has one to itself. So a signal's handler may receive, or look for events, or
wait for other threads that receive: nothing waits for what the thread that it interrupts has. There are RINGS of
them, or fewer if the daemon allows no more; the receives beyond are the library's own, a slice at a time.

A signal's exception may come between any two calls of the library. What a receive has come to is written down before
its completion is given back, and to take it back twice does no harm.
"""
from __future__ import annotations

import typing

from ._library import (NULL, UNTIL_SIGNALS, Ended, Memory, Result, check, error, ffi, lib, make, patiently, result_of,
                       waited)
from ._made import CONSTANTS, HandleError, LimitError, Outcome, TimeoutError

RINGS = 32  # half of what a session may have by default
ENTRIES = 4  # one, and some that signals lose which come when one was just reserved
TIMEOUT = CONSTANTS["RDMAD_E_TIMEOUT"]

Prepare = typing.Callable[[typing.Any, typing.Any, typing.Any, typing.Any, int, int], int]


class Receive:
    """One of them: into memory, for timeout_ms (less than 0: for ever)."""

    __slots__ = ("memory", "timeout_ms", "result", "ring", "token", "canceled")

    def __init__(self, memory: Memory, timeout_ms: int) -> None:
        self.memory, self.timeout_ms = memory, timeout_ms
        self.result: typing.Optional[Result] = None  # what it has come to
        self.ring: typing.Optional[Ring] = None
        self.token = 0  # its user_data, as soon as it may be in flight
        self.canceled: typing.Any = None  # the completion that a cancel has brought


class Ring:
    """Made when it is first used. What is called is called by its user alone."""

    def __init__(self) -> None:
        self.session = NULL  # for the sentences of errors
        self._out = ffi.new("rdmad_ring **")
        self._cqe = ffi.new("const struct rdmad_cqe **")
        self._token = 0

    def make(self, session: Ended) -> None:
        if self._out[0] == NULL:
            with session as pointer:
                self.session = pointer
                check(lib.rdmad_ring_create(pointer, ENTRIES, self._out), pointer)

    def post(self, it: Receive, prepare: Prepare, channel: typing.Any) -> None:
        ring = self._out[0]
        it.token = self._token = self._token + 1
        sqe = lib.rdmad_ring_reserve(ring)
        while sqe == NULL:
            lib.rdmad_ring_submit(ring)  # entries that signals have lost are refused
            self.wait(it, UNTIL_SIGNALS)
            sqe = lib.rdmad_ring_reserve(ring)
        code = prepare(ring, sqe, channel, it.memory.address, it.memory.length, it.token)
        if code:
            lib.rdmad_ring_unreserve(ring, sqe)
            check(code, self.session)
        if it.timeout_ms >= 0:
            lib.rdmad_sqe_set_deadline(sqe, it.timeout_ms)
        if it.timeout_ms == 0:
            sqe.timeout_ns = 1  # 0 is for ever
        lib.rdmad_ring_submit(ring)  # if the daemon is lost, it completes with that

    def wait(self, it: Receive, ms: int) -> int:
        """Takes a completion, its own or that of an entry that was lost. Returns 0, or why there is none."""
        code = lib.rdmad_ring_wait(self._out[0], ms, self._cqe)
        if code == 0:
            cqe = self._cqe[0]
            if cqe.user_data == it.token:
                it.result = result_of(self._out[0], cqe)
            lib.rdmad_ring_seen(self._out[0], cqe)
        return code

    def take_back(self, it: Receive) -> None:
        """Returns when nothing fills its memory any more; its result says what it came to, if it was in flight."""
        if it.token == 0:
            return
        while it.result is None and self.wait(it, 0) == 0:
            pass
        if it.result is None:
            it.canceled = it.canceled or ffi.new("struct rdmad_cqe *")
            code = lib.rdmad_ring_cancel(self._out[0], it.token, it.canceled)
            if code == 0 or it.canceled.user_data == it.token:  # now, or before a signal came
                it.result = result_of(self._out[0], it.canceled)

    def drain(self) -> None:
        """A wakeup that came late does not keep the session's descriptor readable."""
        if self._out[0] != NULL:
            while lib.rdmad_ring_peek(self._out[0], self._cqe) == 0:
                lib.rdmad_ring_seen(self._out[0], self._cqe[0])
            lib.rdmad_ring_arm(self._out[0])


class Receives:
    """All of a session."""

    def __init__(self) -> None:
        self._rings = [Ring() for _ in range(RINGS)]
        self._users: typing.Dict[Ring, object] = {}

    def do(self, it: Receive, session: Ended, use: Ended, prepare: Prepare) -> Result:
        """Receives, on the channel that use is of. TimeoutError: nothing came. If it raises, it.result may say that a
        message came nevertheless."""
        with use as channel:
            try:
                ring = self._ring(it, session)
                if ring is None:
                    in_slices(it, session, use)
                else:
                    ring.post(it, prepare, channel)
                    while it.result is None and not use.ended:
                        waited(ring.wait(it, UNTIL_SIGNALS), ring.session)
            finally:
                self._over(it)
        result = it.result
        if result is None or (result.status and use.ended):
            raise HandleError(f"{use.what} has been closed")
        if result.status == TIMEOUT and it.timeout_ms >= 0:
            raise TimeoutError(f"{use.what}: nothing came within {it.timeout_ms} ms")
        if result.status:
            raise error(result.status, result.why, result.outcome)
        return result

    def _ring(self, it: Receive, session: Ended) -> typing.Optional[Ring]:
        """Its ring until _over. None: there are no more."""
        for ring in self._rings:
            it.ring = ring  # first, or a signal's exception would leave it with a user that is gone
            if self._users.setdefault(ring, it) is it:
                try:
                    ring.make(session)
                    return ring
                except LimitError:
                    return None
        return None

    def _over(self, it: Receive) -> None:
        """Whatever has happened, and however often the program is interrupted meanwhile, it is not in flight then."""
        ring, first = it.ring, None
        while ring is not None:
            try:
                if it.result is None:
                    ring.take_back(it)
                if self._users.get(ring) is it:
                    del self._users[ring]
                break
            except BaseException as e:
                first = first or e
        if first is not None:
            raise first

    def drain(self) -> None:
        """Of the rings that no receive has: it would miss its completion."""
        for ring in self._rings:
            mine = object()
            try:
                if self._users.setdefault(ring, mine) is mine:
                    ring.drain()
            finally:
                if self._users.get(ring) is mine:
                    del self._users[ring]


def in_slices(it: Receive, session: Ended, use: Ended) -> None:
    message = make("rdmad_message")

    def once(ms: int) -> bool:
        with session as pointer, use as channel:
            if waited(lib.rdmad_recv(channel, it.memory.address, it.memory.length, ms, message), pointer):
                it.result = Result(0, Outcome.DONE, message.length, message.imm, message.flags, "")
        return it.result is not None

    patiently(it.timeout_ms, once, use.what)
