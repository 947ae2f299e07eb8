# SPDX-License-Identifier: MIT
"""Receives of threads: each is posted once, and waited for in slices.

The library takes a receive back when its time is over, and a message that had begun to come begins anew with the next
one: who asked for a slice at a time would never have a message that takes longer to come. So a receive is in flight
on a ring until it has completed; its time is the daemon's to watch. Between the slices Python hears of signals, and a
close by another thread is seen; both take the receive back.

A ring is many threads' and is touched under its lock. The first of them leads: it takes completions, for the others,
too, and sleeps on the ring's descriptor without the lock. The others sleep each on a lock of its own.

A signal's exception may come between any two calls of the library. What a receive has come to is written down before
its completion is given back, and to take it back twice does no harm.
"""
from __future__ import annotations

import select
import threading
import typing

from ._library import NULL, UNTIL_SIGNALS, Ended, Memory, Result, check, error, ffi, lib, result_of
from ._made import CONSTANTS, HandleError, TimeoutError

RECEIVES = 64  # of one ring; then there is another one
ENTRIES = 2 * RECEIVES  # some may be lost to signals that came when one was just reserved
SPIN_MS = 1  # that the library waits for a lone receive, with the ring's lock: it spins, so what comes at once is here
AGAIN = CONSTANTS["RDMAD_E_AGAIN"]
TIMEOUT = CONSTANTS["RDMAD_E_TIMEOUT"]

Prepare = typing.Callable[[typing.Any, typing.Any, typing.Any, typing.Any, int, int], int]


class Receive:
    """One of them: into memory, for timeout_ms (less than 0: for ever)."""

    __slots__ = ("memory", "timeout_ms", "result", "_token", "_turn", "_spun", "_canceled")

    def __init__(self, memory: Memory, timeout_ms: int) -> None:
        self.memory, self.timeout_ms = memory, timeout_ms
        self.result: typing.Optional[Result] = None  # what it has come to
        self._token, self._spun = 0, False
        self._canceled: typing.Any = None  # the completion that a cancel has brought
        self._turn = threading.Lock()  # who waits for its turn sleeps on it
        self._turn.acquire()

    def _wake(self) -> None:
        if self._turn.locked():
            self._turn.release()


class SharedRing:
    def __init__(self, session: typing.Any) -> None:
        out = ffi.new("rdmad_ring **")
        check(lib.rdmad_ring_create(session, ENTRIES, out), session)
        self._session, self._ring = session, out[0]
        fd = lib.rdmad_ring_fd(self._ring)
        if fd < 0:
            lib.rdmad_ring_destroy(self._ring)
            check(fd, session)
        self._fd = fd
        self.users = 0  # under the lock of Receives
        self._lock = threading.Lock()
        self._posted: typing.Dict[int, Receive] = {}  # by token, until they have completed
        self._leader: typing.Optional[Receive] = None
        self._token = 0
        self._cqe = ffi.new("const struct rdmad_cqe **")

    def post(self, it: Receive, prepare: Prepare, channel: typing.Any) -> None:
        with self._lock:
            sqe = lib.rdmad_ring_reserve(self._ring)
            assert sqe != NULL, "there are more entries than receives"
            self._token = token = self._token + 1
            self._posted[token], it._token = it, token
            try:
                check(prepare(self._ring, sqe, channel, it.memory.address, it.memory.length, token), self._session)
                if it.timeout_ms >= 0:
                    lib.rdmad_sqe_set_deadline(sqe, it.timeout_ms)
                if it.timeout_ms == 0:
                    sqe.timeout_ns = 1  # 0 is for ever
            except Exception:
                del self._posted[token]
                lib.rdmad_ring_unreserve(self._ring, sqe)
                raise
            lib.rdmad_ring_submit(self._ring)  # if the daemon is lost, it completes with that

    def wait(self, it: Receive) -> None:
        """Until it has completed or a slice is over."""
        with self._lock:
            if it.result is None and self._has_no_leader():
                self._leader = it
            leads = self._leader is it
            if leads:
                check(self._reap(), self._session)
            if leads and it.result is None and len(self._posted) == 1 and not it._spun:
                it._spun = True
                lib.rdmad_ring_wait(self._ring, SPIN_MS, self._cqe)
                check(self._reap(), self._session)
            if it.result is not None:
                return
        if leads:
            sleep = select.poll()
            sleep.register(self._fd, select.POLLIN)
            sleep.poll(UNTIL_SIGNALS)
        else:
            it._turn.acquire(timeout=UNTIL_SIGNALS / 1000)

    def take_back(self, it: Receive) -> None:
        """Returns when nothing fills its memory any more; its result says what it came to, if it was in flight."""
        with self._lock:
            self._reap()
            if it._token in self._posted:
                it._canceled = it._canceled or ffi.new("struct rdmad_cqe *")
                code = lib.rdmad_ring_cancel(self._ring, it._token, it._canceled)
                if code == 0 or it._canceled.user_data == it._token:  # now, or before a signal came
                    self._done(it._token, result_of(self._ring, it._canceled))
                self._posted.pop(it._token, None)
                self._reap()

    def leave(self, it: Receive) -> None:
        """It is not in flight any more. If it has led, another one does now."""
        with self._lock:
            if self._leader is it:
                self._leader = None
            if self._has_no_leader():
                for other in self._posted.values():
                    if other.result is None:
                        other._wake()
                        break

    def drain(self) -> None:
        """Nothing is in flight: a wakeup that came late does not keep the session's descriptor readable."""
        if not self._posted:
            with self._lock:
                if not self._posted:
                    self._reap()

    # ---- with the lock ----

    def _has_no_leader(self) -> bool:
        return self._leader is None or self._leader.result is not None

    def _done(self, token: int, result: Result) -> None:
        it = self._posted.get(token)
        if it is not None:
            it.result = result
            del self._posted[token]
            it._wake()

    def _reap(self) -> int:
        """Takes what has completed, and arms the ring when there is no more and some are in flight. Returns 0, or
        that the daemon is lost."""
        while True:
            while lib.rdmad_ring_peek(self._ring, self._cqe) == 0:
                cqe = self._cqe[0]
                self._done(cqe.user_data, result_of(self._ring, cqe))
                lib.rdmad_ring_seen(self._ring, cqe)
            code = lib.rdmad_ring_arm(self._ring) if self._posted else 0
            if code != AGAIN:
                return code


class Receives:
    """All of a session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rings: typing.List[SharedRing] = []

    def do(self, it: Receive, session: Ended, use: Ended, prepare: Prepare) -> Result:
        """Receives, on the channel that use is of. TimeoutError: nothing came. If it raises, it.result may say that a
        message came nevertheless."""
        with use as channel:
            ring: typing.Optional[SharedRing] = None
            try:
                ring = self._join(session)
                ring.post(it, prepare, channel)
                while it.result is None and not use.ended:
                    ring.wait(it)
            finally:
                if ring is not None:
                    self._over(ring, it)
        result = it.result
        if result is None or (result.status and use.ended):
            raise HandleError(f"{use.what} has been closed")
        if result.status == TIMEOUT and it.timeout_ms >= 0:
            raise TimeoutError(f"{use.what}: nothing came within {it.timeout_ms} ms")
        if result.status:
            raise error(result.status, result.why, result.outcome)
        return result

    def _over(self, ring: SharedRing, it: Receive) -> None:
        """Whatever has happened, and however often the program is interrupted meanwhile, it is not in flight then."""
        interrupted: typing.Optional[BaseException] = None
        while True:
            try:
                if it.result is None:
                    ring.take_back(it)
                ring.leave(it)
                break
            except KeyboardInterrupt as e:
                interrupted = e
        with self._lock:
            ring.users -= 1
        if interrupted is not None:
            raise interrupted

    def _join(self, session: Ended) -> SharedRing:
        """A ring with an entry for one more."""
        with self._lock:
            for ring in self._rings:
                if ring.users < RECEIVES:
                    break
            else:
                with session as pointer:
                    ring = SharedRing(pointer)
                self._rings.append(ring)
            ring.users += 1
            return ring

    def drain(self) -> None:
        for ring in self._rings:
            ring.drain()
