# SPDX-License-Identifier: MIT
"""Pools: memory that transfers reach, as memoryviews."""
from __future__ import annotations

import contextlib
import threading
import typing
import weakref

from ._library import NULL, Buffer, Ended, Memory, check, ffi, lib, text, waited
from ._made import CONSTANTS, HandleError, TimeoutError
from ._receives import Receives

if typing.TYPE_CHECKING:
    import numpy


class Core:
    """The session of the library, which lives as long as somebody views memory of its pools."""

    def __init__(self, pointer: typing.Any) -> None:
        self.use = Ended(pointer, "the session")
        self.session = pointer  # for the sentences of errors
        self.receives = Receives()
        self.lock = threading.RLock()
        self.pieces: typing.Dict[int, str] = {}  # by number: memory that has views
        self.numbers = 0
        self.closing = False  # as soon as nobody views memory of its pools
        self.closed = False

    @contextlib.contextmanager
    def ending(self, use: Ended, because: typing.Callable[[], str] = lambda: "") -> typing.Iterator[typing.Any]:
        """The pointer of what belongs to the session, for the one who ends it. The session is in use meanwhile: nobody
        closes it under that call. None: it has ended before, or with the session."""
        if not self.use.begin(lambda: self.closing):
            yield None
            return
        try:
            yield use.take(because)
        finally:
            self.use.__exit__()

    def end(self, it: typing.Any, how: typing.Callable[[typing.Any], int],
            because: typing.Callable[[], str] = lambda: "") -> None:
        """Ends what belongs to the session by a call that may fail; then it is as before."""
        with self.ending(it._use, because) as pointer:
            if pointer is None:
                return
            code = how(pointer)
            if code:
                it._use.put_back(pointer)
            check(code, self.session)
            it._forget(it)

    def view(self, address: typing.Any, length: int, free: typing.Callable[[], None], what: str) -> typing.Any:
        """Something with the buffer protocol; free is called when neither it nor a view of it is left."""
        with self.lock:
            self.numbers += 1
            number = self.numbers
            self.pieces[number] = what

        def gone(_: object) -> None:
            free()
            with self.lock:
                del self.pieces[number]
            self.close_if_unseen()

        return ffi.buffer(ffi.gc(address, gone), length)

    def views(self, what: str) -> int:
        with self.lock:
            return sum(1 for w in self.pieces.values() if w == what)

    def close_if_unseen(self) -> None:
        with self.lock:
            if not self.closing or self.closed or self.pieces:
                return
            self.closed = True
        lib.rdmad_close(self.session)


class Pool:
    """Sealed memory that is shared with rdmad, of which transfers name pieces. Made by Session.pool and import_pool.

    Any thread may use it. `with pool:` closes it at the end.
    """

    def __init__(self, core: Core, pointer: typing.Any, forget: typing.Callable[["Pool"], None]) -> None:
        self._core, self._forget = core, forget
        self._size = lib.rdmad_pool_size(pointer)
        self._base = ffi.cast("char *", lib.rdmad_pool_base(pointer))
        self._use = Ended(pointer, f"the pool of {self._size} bytes at {hex(int(ffi.cast('uintptr_t', self._base)))}")

    @property
    def size(self) -> int:
        """Bytes."""
        return self._size

    def alloc(self, nbytes: int) -> memoryview:
        """A piece of nbytes, as a memoryview of bytes, aligned to 64; its contents are whatever was there.

        It goes back to the pool when no view of it is left: this one, a slice, a NumPy array over it, a lease that
        it was granted for, a lock, an op. `with pool.alloc(n) as piece:` and release() give up this one view.

        NomemError: the pool has no room for it.
        """
        with self._use as pool:
            address = lib.rdmad_alloc(pool, nbytes)
            if address == NULL:
                check(CONSTANTS["RDMAD_E_NOMEM"], self._core.session)

            def free() -> None:
                lib.rdmad_free(pool, address)

            return memoryview(self._core.view(ffi.cast("char *", address), nbytes, free, self._use.what))

    def memory(self) -> memoryview:
        """All of the pool, for programs that lay it out themselves, as those do that imported it; not to be mixed
        with alloc."""
        with self._use:
            return memoryview(self._core.view(self._base, self._size, lambda: None, self._use.what))

    def array(self, shape: typing.Any, dtype: typing.Any = "u1") -> "numpy.ndarray":
        """A NumPy array in the pool, of whatever was there. Its piece goes back when no view of it is left."""
        import numpy

        kind = numpy.dtype(dtype)
        count = int(numpy.prod(shape, dtype=numpy.int64))
        return numpy.frombuffer(self.alloc(max(1, count * kind.itemsize)), kind, count).reshape(shape)

    def lock_read(self, memory: Buffer, timeout_ms: int = -1) -> "BufferLock":
        """Nobody fills memory while it is locked so, not even this program's ops; others may read it. timeout_ms: -1
        for ever, 0 not at all. TimeoutError names who holds it. `with pool.lock_read(piece):` unlocks it."""
        return BufferLock(self._core, self._use, memory, False, timeout_ms)

    def lock_write(self, memory: Buffer, timeout_ms: int = -1) -> "BufferLock":
        """Nobody else reads or fills memory while it is locked so."""
        return BufferLock(self._core, self._use, memory, True, timeout_ms)

    def _why_not(self) -> str:
        views = self._core.views(self._use.what)
        return f"{views} of its pieces are still viewed; release them, and the arrays over them, first" if views else ""

    def close(self) -> None:
        """Gives the pool back. BusyError, in words, while pieces of it are viewed, an op or a lock holds some of it,
        or a lease on it is alive; then nothing has changed. Does nothing the second time."""
        self._core.end(self, lib.rdmad_pool_destroy, self._why_not)

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self._size


class BufferLock:
    """A lock of memory, from lock_read and lock_write until unlock, which `with` does."""

    def __init__(self, core: Core, pool: Ended, memory: Buffer, writes: bool, timeout_ms: int) -> None:
        it = Memory(memory, writes)
        lock = lib.rdmad_buf_lock_write if writes else lib.rdmad_buf_lock_read
        with pool as pointer:
            code = lock(pointer, it.address, it.length, timeout_ms)
            if not waited(code, core.session):
                raise TimeoutError(text(lib.rdmad_last_error(core.session)))
        self._finalizer = weakref.finalize(self, self._unlock, pool, it, writes)

    @staticmethod
    def _unlock(pool: Ended, memory: Memory, writes: bool) -> None:
        unlock = lib.rdmad_buf_unlock_write if writes else lib.rdmad_buf_unlock_read
        try:
            with pool as pointer:
                unlock(pointer, memory.address, memory.length)
        except HandleError:
            pass  # the session has ended, and its locks with it

    def unlock(self) -> None:
        """Ends it; does nothing the second time."""
        self._finalizer()

    def __enter__(self) -> "BufferLock":
        return self

    def __exit__(self, *_: object) -> None:
        self.unlock()
