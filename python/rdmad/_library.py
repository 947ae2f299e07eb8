# SPDX-License-Identifier: MIT
"""librdmad itself: loaded, and its codes turned into exceptions."""
from __future__ import annotations

import threading
import time
import typing

from ._declared import ffi
from ._made import CONSTANTS, ERRORS, INIT, SONAME, HandleError, BusyError, Outcome, TimeoutError
from ._base import Error

lib = ffi.dlopen(SONAME)
NULL = ffi.NULL
UNTIL_SIGNALS = 250  # ms: how long a call that waits for ever keeps Python from hearing of a signal
EXPLAINED = 512
PATIENCE = 10  # seconds: how long whoever ends an object waits for other threads' calls with it

Buffer = typing.Any  # whatever has the buffer protocol: memoryview, bytearray, numpy.ndarray


def text(chars: typing.Any) -> str:
    return "" if chars == NULL else ffi.string(chars).decode("utf-8", "replace")


def begin(it: typing.Any, size: int, init: typing.Mapping[str, typing.Any]) -> None:
    it.size = size
    for name, value in init.items():
        if isinstance(value, dict):
            begin(getattr(it, name), ffi.sizeof(getattr(it, name)), value)
        else:
            setattr(it, name, value)


def make(struct: str, **fields: typing.Any) -> typing.Any:
    """A struct as its INIT has it, with its size, and with those fields."""
    it = ffi.new(f"struct {struct} *")
    begin(it, ffi.sizeof(f"struct {struct}"), INIT[struct])
    for name, value in fields.items():
        setattr(it, name, value)
    return it


def error(code: int, sentence: str = "", outcome: typing.Optional[int] = None) -> Error:
    kind = ERRORS.get(code)
    if kind is None:  # of a newer library
        it = Error(sentence or text(lib.rdmad_strerror(code)))
        it.code, it.errname = code, text(lib.rdmad_errname(code))
    else:
        it = kind(sentence)
    it.outcome = None if outcome is None else Outcome(outcome)
    return it


def check(code: int, session: typing.Any = NULL) -> int:
    """The code, if it is none of an error; else the exception, with this thread's last sentence."""
    if code < 0:
        raise error(code, text(lib.rdmad_last_error(session)))
    return code


def check_transfer(code: int, session: typing.Any) -> None:
    if code < 0:
        raise error(code, text(lib.rdmad_last_error(session)), lib.rdmad_last_outcome())


def waited(code: int, session: typing.Any) -> bool:
    """Of a call that was given a time to wait: False when that is over, which has no sentence."""
    if code == CONSTANTS["RDMAD_E_TIMEOUT"]:
        return False
    check(code, session)
    return True


def patiently(timeout_ms: int, call: typing.Callable[[int], bool], what: str) -> None:
    """call(timeout_ms) until it is true or the time is over; signals, and a close, are heard meanwhile. A call must
    lose nothing when its time is over: a receive does, of a message that comes for longer (_receives.py)."""
    end = None if timeout_ms < 0 else time.monotonic() + timeout_ms / 1000
    while True:
        left = UNTIL_SIGNALS if end is None else max(0, int((end - time.monotonic()) * 1000 + 0.999))
        if call(min(left, UNTIL_SIGNALS)):
            return
        if end is not None and time.monotonic() >= end:
            raise TimeoutError(f"{what}: nothing came within {timeout_ms} ms")


class Result(typing.NamedTuple):
    """What a completion says. value: of cas and fetch_add, the old value; else bytes."""

    status: int
    outcome: int
    value: int
    imm: int
    flags: int
    why: str


def result_of(ring: typing.Any, cqe: typing.Any) -> Result:
    why = ""
    if cqe.status:
        explained = ffi.new("char[]", EXPLAINED)
        lib.rdmad_ring_explain(ring, cqe, explained, EXPLAINED)
        why = text(explained)
    return Result(cqe.status, cqe.outcome, cqe.value, cqe.imm, cqe.flags, why)


class Memory:
    """Where the bytes of something with the buffer protocol are, and a view of them, which keeps them there.

    Nothing is exported from a memoryview for longer than this takes: Python 3.11 crashes when it collects a cycle
    with a memoryview that something has exported.
    """

    __slots__ = ("address", "length", "_view")

    def __init__(self, memory: Buffer, writable: bool) -> None:
        exported = ffi.from_buffer("char[]", memory, require_writable=writable)
        try:
            self.address, self.length = ffi.cast("char *", exported), len(exported)
        finally:
            ffi.release(exported)
        self._view = memoryview(memory)


class Ended:
    """An object of the library, that is used by any number of threads and ended once.

    The library ends programs that use what has ended; here it is an exception. `with it as pointer:` is a use.
    """

    __slots__ = ("_pointer", "_users", "_alone", "_lock", "what")

    def __init__(self, pointer: typing.Any, what: str) -> None:
        self._pointer, self._users, self._lock, self.what = pointer, 0, threading.RLock(), what
        self._alone = 0  # the thread that has taken it, when nobody else uses it any more

    def __enter__(self) -> typing.Any:
        with self._lock:
            if self._pointer is None:
                raise HandleError(f"{self.what} has been closed")
            self._users += 1
            return self._pointer

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1

    def begin(self, has_ended: typing.Callable[[], bool]) -> bool:
        """A use, until __exit__, by who ends something that belongs to it. False: has_ended says so. Another thread
        that has taken it may put it back: this waits for what becomes of that. BusyError: it has for PATIENCE."""
        end = time.monotonic() + PATIENCE
        while not has_ended():
            with self._lock:
                if self._alone in (0, threading.get_ident()):  # nobody; or a signal's handler interrupts who has it
                    self._users += 1
                    return True
            if time.monotonic() >= end:
                raise BusyError(f"{self.what} is just being closed by another thread")
            time.sleep(0.001)
        return False

    @property
    def ended(self) -> bool:
        return self._pointer is None

    def take(self, because: typing.Callable[[], str] = lambda: "") -> typing.Any:
        """The pointer, for the one who ends it: nobody begins to use it from now on, and nobody does any more.
        None: that was done before. BusyError, and all is as before: the calls of other threads go on for more than
        PATIENCE, or because of what that says, also of what these calls have left behind."""
        why = because()  # without our lock: a finalizer may want that while it has the one that this takes
        with self._lock:
            pointer = self._pointer
            if pointer is None:
                return None
            if why:
                raise self._busy(why)
            self._pointer = None
        try:
            self._await_users()
            why = because()
            if why:
                raise self._busy(why)
        except BaseException:  # a signal's, too
            self.put_back(pointer)
            raise
        return pointer

    def _await_users(self) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            with self._lock:
                if not self._users:
                    self._alone = threading.get_ident()
                    return
            if time.monotonic() >= end:
                raise self._busy(f"{self._users} calls of other threads use it")
            time.sleep(0.001)

    def _busy(self, why: str) -> Error:
        return BusyError(f"{self.what} cannot be closed: {why}")

    def put_back(self, pointer: typing.Any) -> None:
        """It could not be ended."""
        with self._lock:
            self._pointer, self._alone = pointer, 0
