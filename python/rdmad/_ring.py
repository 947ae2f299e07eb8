# SPDX-License-Identifier: MIT
"""A ring in a loop of asyncio: what is awaited there is in flight here.

An op is prepared when it is awaited, and all that a turn of the loop has prepared is submitted at its end, once. The
ring is armed while ops are in flight, and its descriptor wakes the loop.

A canceled task. Its op is canceled, and the task goes on (with CancelledError) when the op has completed: then
nothing touches its buffers any more. Entries are kept apart for cancels, so that they work on a full ring.

A daemon that hangs wakes no descriptor. While something is waited for the library is called once in the session's
patience, and asks then.
"""
from __future__ import annotations

import asyncio
import collections
import typing
import weakref

from ._library import NULL, Result, check, error, ffi, lib, result_of, text
from ._made import CONSTANTS, DaemonLostError, HandleError
from ._session import Session

FOR_CANCELS = 16  # entries
A_TURN = 4096  # completions that are taken before the loop's other work has its turn
AGAIN = CONSTANTS["RDMAD_E_AGAIN"]


class Op:
    __slots__ = ("future", "result", "kept")

    def __init__(self, future: "asyncio.Future[None]", kept: object) -> None:
        self.future, self.kept = future, kept
        self.result: typing.Optional[Result] = None


class Look:
    """Calls a method every so many seconds, from begin until it returns false. 0: never."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, look: typing.Callable[[], bool]) -> None:
        self._loop, self._seconds = loop, seconds
        self._look = weakref.WeakMethod(look)  # whose it is may be forgotten
        self._timer: typing.Optional[asyncio.TimerHandle] = None

    def begin(self) -> None:
        if self._timer is None and self._seconds:
            self._timer = self._loop.call_later(self._seconds, self._now)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _now(self) -> None:
        self._timer = None
        look = self._look()
        if look is not None and look():
            self.begin()


class Ring:
    def __init__(self, session: Session, entries: int, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        core = session._core
        self._loop, self._core, self._entries = loop, core, entries
        self._session = session  # which is not closed before us, nor forgotten as long as the loop has us
        out = ffi.new("rdmad_ring **")
        with core.use as pointer:
            check(lib.rdmad_ring_create(pointer, entries + FOR_CANCELS, out), pointer)
            session._rings += 1
        self._ring = out[0]
        self._cqe = ffi.new("const struct rdmad_cqe **")
        self._ops: typing.Dict[int, Op] = {}
        self._token = 0  # of an op; cancels have 0
        self._cancels_in_flight = 0
        self._cancels: typing.Deque[int] = collections.deque()  # to be submitted
        self._turns: typing.Deque["asyncio.Future[None]"] = collections.deque()  # those that wait for an entry
        self._in_flight = 0  # ops, prepared or submitted
        self._flushing = self._watching = self._closing = self._destroyed = False
        self._fd = check(lib.rdmad_ring_fd(self._ring), core.session)
        self._looks = Look(loop, patience, self._look)

    @property
    def closed(self) -> bool:
        return self._destroyed

    @property
    def in_flight(self) -> int:
        return len(self._ops)

    async def do(self, prepare: typing.Callable[[typing.Any, typing.Any, int], int], kept: object,
                 unwanted: typing.Optional[typing.Callable[[Result], None]] = None) -> Result:
        """Carries an op out: prepare(ring, sqe, token), a prep_* of the library. kept lives as long as the op.
        unwanted hears of an op that was done although its task was canceled."""
        await self._turn()
        token = self._prepare(prepare)
        op = self._ops[token] = Op(self._loop.create_future(), kept)
        try:
            await op.future
        except asyncio.CancelledError:
            await self._quiet(token, op)
            if unwanted and op.result is not None and op.result.status == 0:
                unwanted(op.result)
            raise
        result = op.result
        assert result is not None
        if result.status:
            raise error(result.status, result.why, result.outcome)
        return result

    async def _turn(self) -> None:
        """Returns when there is an entry, which is the caller's; those that came before go first."""
        if self._closing:
            raise HandleError("the session has been closed")
        if self._in_flight < self._entries and not self._turns:
            self._in_flight += 1
            return
        mine = self._loop.create_future()
        self._turns.append(mine)
        try:
            await mine  # whoever ends it hands an entry over
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._give_turn()
            raise

    def _give_turn(self) -> None:
        while self._turns:
            next_one = self._turns.popleft()
            if not next_one.done():
                next_one.set_result(None)
                return
        self._in_flight -= 1

    def _prepare(self, prepare: typing.Callable[[typing.Any, typing.Any, int], int]) -> int:
        sqe = NULL if self._closing else lib.rdmad_ring_reserve(self._ring)
        try:
            if sqe == NULL:
                raise HandleError("the session has been closed")
            self._token += 1
            code = prepare(self._ring, sqe, self._token)
            if code:
                raise error(code, text(lib.rdmad_last_error(self._core.session)))
        except BaseException:
            if sqe != NULL:
                lib.rdmad_ring_unreserve(self._ring, sqe)
            self._give_turn()
            raise
        self._flush_soon()
        return self._token

    async def _quiet(self, token: int, op: Op) -> None:
        """Cancels it and returns when it has completed, however often the task is canceled meanwhile."""
        if op.result is None:
            self._cancels.append(token)
            self._flush_soon()
        while op.result is None:
            op.future = self._loop.create_future()
            try:
                await op.future
            except asyncio.CancelledError:
                pass

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Submits what was prepared."""
        self._flushing = False
        if self.closed:
            return
        while self._cancels and self._cancels_in_flight < FOR_CANCELS:
            token = self._cancels.popleft()
            if token not in self._ops:
                continue  # it has completed meanwhile
            sqe = lib.rdmad_ring_reserve(self._ring)
            assert sqe != NULL, "entries are kept apart for cancels"
            check(lib.rdmad_prep_cancel(self._ring, sqe, token, 0), self._core.session)
            self._cancels_in_flight += 1
        lib.rdmad_ring_submit(self._ring)  # if the daemon is lost, they complete with that
        if not self._watching:
            self._watching = True
            self._loop.add_reader(self._fd, self._readable)
        self._looks.begin()
        self._reap()

    def _readable(self) -> None:
        idle = not self._ops and not self._cancels_in_flight
        self._reap()  # also of none: a wakeup that came late would keep the session's descriptor readable
        if idle:
            self._unwatch()  # of a session that is lost it stays readable

    def _look(self) -> bool:
        if not self.closed:
            self._reap()
        return not self.closed and bool(self._ops or self._cancels_in_flight)

    def _unwatch(self) -> None:
        if self._watching:
            self._watching = False
            self._loop.remove_reader(self._fd)

    def _reap(self) -> None:
        """Takes completions, and arms the ring when there are no more."""
        for _ in range(A_TURN):
            if self.closed:
                return
            if lib.rdmad_ring_peek(self._ring, self._cqe) == 0:
                self._take(self._cqe[0])
                continue
            if not self._ops and not self._cancels_in_flight:
                return
            code = lib.rdmad_ring_arm(self._ring)
            if code != AGAIN:
                if code:
                    self._lose(code)
                return
        self._loop.call_soon(self._reap)

    def _take(self, cqe: typing.Any) -> None:
        token = cqe.user_data
        if token == 0:
            self._cancels_in_flight -= 1
            lib.rdmad_ring_seen(self._ring, cqe)
            if self._cancels:
                self._flush_soon()
            return
        result = result_of(self._ring, cqe)
        lib.rdmad_ring_seen(self._ring, cqe)
        self._complete(token, result)

    def _complete(self, token: int, result: Result) -> None:
        op = self._ops.pop(token)
        op.result, op.kept = result, None
        if not op.future.done():
            op.future.set_result(None)
        self._give_turn()

    def _lose(self, code: int) -> None:
        """The daemon is lost, and every completion was taken: there should be no ops left."""
        for token in list(self._ops):
            self._complete(token, Result(code, CONSTANTS["RDMAD_UNKNOWN"], 0, 0, 0, DaemonLostError.general))
        self._cancels_in_flight = 0
        self._cancels.clear()
        self._unwatch()

    async def close(self) -> None:
        """Cancels what is in flight, and returns when all of it has completed."""
        if self.closed:
            return
        self._closing = True
        for waiting in self._turns:
            if not waiting.done():
                waiting.set_exception(HandleError("the session has been closed"))
        self._turns.clear()
        self._cancels.extend(self._ops)
        self._flush_soon()
        while self._cancels_in_flight or self._ops:
            await asyncio.sleep(0.001)
        if self.closed:
            return  # another task has closed it meanwhile
        self._destroyed = True
        self._looks.end()
        self._unwatch()
        lib.rdmad_ring_destroy(self._ring)
        self._session._rings -= 1
