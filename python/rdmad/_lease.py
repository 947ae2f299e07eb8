# SPDX-License-Identifier: MIT
"""Leases: rights to a range of memory, granted or attached to."""
from __future__ import annotations

import typing

from ._library import (NULL, Buffer, Ended, Memory, check, check_transfer, ffi, lib, make,
                       patiently, text, waited)
from ._made import INIT, CONSTANTS, Right, Scope
from ._pool import Core

assert INIT["rdmad_lease_terms"] == {}, "what grant leaves out is 0"


class Notification(typing.NamedTuple):
    """What a lessee has written and told of."""

    imm: int
    nbytes: int


class Audit(typing.NamedTuple):
    """How a lease was used; said_* is what lessees' daemons on other machines say."""

    bytes_read: int
    bytes_written: int
    ops: int
    idle_ms: typing.Optional[int]
    attached: int
    attached_total: int
    said_bytes_read: int
    said_bytes_written: int
    said_ops: int


def terms_of(ttl_ms: int, rights: int, scope: int = Scope.ANY, scope_uid: int = 0,
             scope_peer: typing.Optional[str] = None, max_attaches: int = 0, name: typing.Optional[str] = None,
             flags: int = 0, ends_after: int = 0) -> typing.Tuple[typing.Any, typing.List[typing.Any]]:
    """A struct rdmad_lease_terms, and what has to live as long as it."""
    texts = [ffi.new("char[]", t.encode()) if t is not None else NULL for t in (scope_peer, name)]
    return make("rdmad_lease_terms", ttl_ms=ttl_ms, rights=rights, scope=scope, scope_uid=scope_uid,
                max_attaches=max_attaches, scope_peer=texts[0], name=texts[1], flags=flags,
                ends_after=ends_after), texts


class Lease:
    """A timed right to a range of somebody's memory. Made by Session.grant, attach and request, and by
    Channel.recv_lease.

    It lives until close(), or its session does, however few names it has. Any thread may use it. `with lease:`
    closes it at the end. Offsets and lengths are bytes; memory that transfers name lies in a pool, unless a method
    says otherwise, and is anything with the buffer protocol: a memoryview, a slice of one, a NumPy array.
    """

    def __init__(self, core: Core, pointer: typing.Any, forget: typing.Callable[["Lease"], None],
                 memory: typing.Optional[Memory] = None) -> None:
        self._core, self._forget, self._memory = core, forget, memory
        info = make("rdmad_lease_info")
        lib.rdmad_lease_get_info(pointer, info)
        self._use = Ended(pointer, f"lease {info.id}")
        self._address = int(ffi.cast("uintptr_t", pointer))
        self._uri = text(lib.rdmad_lease_uri(pointer))

    def _info(self) -> typing.Any:
        info = make("rdmad_lease_info")
        with self._use as lease:
            lib.rdmad_lease_get_info(lease, info)
        return info

    @property
    def uri(self) -> str:
        """What others attach to it by."""
        return self._uri

    @property
    def id(self) -> int:
        """The owner's number of it."""
        return self._info().id

    @property
    def length(self) -> int:
        """Bytes."""
        return self._info().length

    @property
    def ttl_ms(self) -> int:
        """Milliseconds left; 0 when it has ended."""
        return self._info().ttl_ms

    @property
    def rights(self) -> Right:
        """What it allows."""
        return Right(self._info().rights)

    @property
    def ended(self) -> int:
        """0 while it is alive, else the RDMAD_E_* that tells why it is not."""
        return self._info().ended

    @property
    def fabric(self) -> str:
        """Of a lessee: "local", "tcp" or "verbs"; of the owner: ""."""
        with self._use as lease:
            info = make("rdmad_lease_info")
            lib.rdmad_lease_get_info(lease, info)
            return text(info.fabric)

    # ---- transfers: of a lessee; each returns when it is over, and an error has its outcome ----

    def read(self, offset: int, into: Buffer) -> None:
        """Fills into with what the lease has at offset."""
        memory = Memory(into, True)
        with self._use as lease:
            check_transfer(lib.rdmad_read(lease, offset, memory.address, memory.length), self._core.session)

    def write(self, offset: int, data: Buffer) -> None:
        """Puts data into the lease at offset: placed when this returns."""
        memory = Memory(data, False)
        with self._use as lease:
            check_transfer(lib.rdmad_write(lease, offset, memory.address, memory.length), self._core.session)

    def read_copy(self, offset: int, length: int) -> bytes:
        """length bytes of the lease at offset, by way of a pool of the library's own."""
        out = bytearray(length)
        memory = Memory(out, True)
        with self._use as lease:
            check_transfer(lib.rdmad_read_copy(lease, offset, memory.address, length), self._core.session)
        return bytes(out)

    def write_copy(self, offset: int, data: Buffer) -> None:
        """As write, of memory that is in no pool, bytes too; in pieces of 64 KiB. If one fails, those before it were
        done."""
        memory = Memory(data, False)
        with self._use as lease:
            check_transfer(lib.rdmad_write_copy(lease, offset, memory.address, memory.length), self._core.session)

    def _segments(self, ranges: typing.Sequence[typing.Tuple[int, Buffer]],
                  writable: bool) -> typing.Tuple[typing.Any, typing.List[typing.Any]]:
        kept = [Memory(memory, writable) for _, memory in ranges]
        segments = ffi.new("struct rdmad_segment[]", len(kept))
        for segment, (offset, _), memory in zip(segments, ranges, kept):
            segment.buffer, segment.length, segment.offset = memory.address, memory.length, offset
        return segments, kept

    def readv(self, ranges: typing.Sequence[typing.Tuple[int, Buffer]]) -> None:
        """Several (offset, into) as one transfer."""
        segments, kept = self._segments(ranges, True)
        with self._use as lease:
            check_transfer(lib.rdmad_readv(lease, segments, len(kept)), self._core.session)

    def writev(self, ranges: typing.Sequence[typing.Tuple[int, Buffer]]) -> None:
        """Several (offset, data) as one transfer."""
        segments, kept = self._segments(ranges, False)
        with self._use as lease:
            check_transfer(lib.rdmad_writev(lease, segments, len(kept)), self._core.session)

    def cas(self, offset: int, expected: int, desired: int) -> int:
        """Sets 8 bytes at offset (aligned to 8, AlignError) to desired if they are expected; returns what was there.
        Needs Right.ATOMIC."""
        old = ffi.new("uint64_t *")
        with self._use as lease:
            check_transfer(lib.rdmad_cas(lease, offset, expected, desired, old), self._core.session)
        return old[0]

    def fetch_add(self, offset: int, add: int) -> int:
        """Adds to 8 bytes at offset, modulo 2**64; returns what was there. Needs Right.ATOMIC."""
        old = ffi.new("uint64_t *")
        with self._use as lease:
            check_transfer(lib.rdmad_fetch_add(lease, offset, add % 2**64, old), self._core.session)
        return old[0]

    def write_notify(self, offset: int, data: typing.Optional[Buffer], imm: int) -> None:
        """As write (of nothing if data is None), and then tells the owner imm, 32 bits. NoWaiterError: the owner has
        not taken many before; then nothing was written."""
        memory = None if data is None else Memory(data, False)
        address, length = (memory.address, memory.length) if memory else (NULL, 0)
        with self._use as lease:
            check_transfer(lib.rdmad_write_notify(lease, offset, address, length, imm), self._core.session)

    # ---- of the owner ----

    def wait_notified(self, timeout_ms: int = -1) -> Notification:
        """Takes the next notification of lessees. timeout_ms: -1 for ever, 0 not at all; TimeoutError."""
        imm, nbytes = ffi.new("uint32_t *"), ffi.new("uint64_t *")

        def once(ms: int) -> bool:
            with self._use as lease:
                return waited(lib.rdmad_wait_notified(lease, ms, imm, nbytes), self._core.session)

        patiently(timeout_ms, once, self._use.what)
        return Notification(imm[0], nbytes[0])

    def renew(self, ttl_ms: int) -> None:
        """It ends ttl_ms from now, sooner or later than before."""
        with self._use as lease:
            check(lib.rdmad_lease_renew(lease, ttl_ms), self._core.session)

    def revoke(self) -> None:
        """Ends it: nobody can read or write the memory any more when this returns."""
        with self._use as lease:
            check(lib.rdmad_lease_revoke(lease), self._core.session)

    def audit(self) -> Audit:
        """How it was used, as the daemon says."""
        it = make("rdmad_lease_audit")
        with self._use as lease:
            check(lib.rdmad_lease_get_audit(lease, it), self._core.session)
        return Audit(it.bytes_read, it.bytes_written, it.ops, None if it.idle_ms == 2**64 - 1 else it.idle_ms,
                     it.attached, it.attached_total, it.said_bytes_read, it.said_bytes_written, it.said_ops)

    # ---- of a lessee ----

    def keep(self, on: bool = True) -> None:
        """The daemon renews it in time, as long as the session lives. PermError: not granted with
        LeaseFlag.RENEWABLE."""
        with self._use as lease:
            check(lib.rdmad_lease_keep(lease, int(on)), self._core.session)

    def delegate(self, offset: int, length: int, ttl_ms: int = 0, rights: int = 0, max_attaches: int = 0,
                 timeout_ms: int = 0) -> str:
        """The URI of a narrower lease of a range of this one, to be given to somebody else; rights 0: its own without
        DELEGATE. DelegateError: it may not be handed on."""
        uri = ffi.new("char[]", CONSTANTS["RDMAD_URI_MAX"] + 1)
        terms, _texts = terms_of(ttl_ms, rights, max_attaches=max_attaches)
        with self._use as lease:
            check(lib.rdmad_lease_delegate(lease, offset, length, terms, timeout_ms, uri), self._core.session)
        return text(uri)

    def hand_over(self) -> None:
        """Of a lease from Session.request: ends it and gives its memory to the service's owner. If it raises, the
        lease is as before."""
        self._core.end(self, lib.rdmad_lease_hand_over)

    def close(self) -> None:
        """Revokes or releases it if that was not done, and forgets it. Memory that was granted may be released then.
        Does nothing the second time."""
        with self._core.ending(self._use) as pointer:
            self._end(pointer)

    def _end(self, pointer: typing.Any) -> None:
        """As its close, in a use of the session or by who has that to itself. None: it has ended."""
        if pointer is not None:
            self._forget(self)
            lib.rdmad_lease_free(pointer)
            self._memory = None

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
