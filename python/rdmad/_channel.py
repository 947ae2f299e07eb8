# SPDX-License-Identifier: MIT
"""Services and channels: messages, straight into memory of the receiver."""
from __future__ import annotations

import collections
import typing
import weakref

from ._lease import Lease
from ._library import NULL, Buffer, Ended, Memory, check, check_transfer, ffi, lib, make, patiently, text, waited
from ._made import (CONSTANTS, BusyError, ChannelKind, HandleError, ProtocolError, TimeoutError, TooSmallError,
                    UnreachableError)
from ._pool import Core, Pool
from ._receives import Receive

Forget = typing.Callable[[typing.Any], None]


class Message(typing.NamedTuple):
    """What came: bytes, the sender's 32 bits if it sent some, whether it is a lease's URI."""

    length: int
    imm: typing.Optional[int]
    lease: bool = False


class Incoming(typing.NamedTuple):
    """Who connects; as true as the connecting daemon says, but for a node's name that is proven."""

    id: int
    uid: int
    kind: ChannelKind
    node: str
    address: str
    proven: bool


class ChannelAudit(typing.NamedTuple):
    """What went through this end; lost: of the other end's messages, on a channel that may lose some."""

    messages_sent: int
    bytes_sent: int
    messages_received: int
    bytes_received: int
    lost: int


def message_of(cqe_or_message: typing.Any, length: int) -> Message:
    imm = cqe_or_message.imm if cqe_or_message.flags & CONSTANTS["RDMAD_CQE_IMM"] else None
    return Message(length, imm, bool(cqe_or_message.flags & CONSTANTS["RDMAD_CQE_LEASE"]))


def late_into(late: typing.Deque[typing.Tuple[bytes, Message]], memory: Memory) -> typing.Optional[Message]:
    """The first of the messages that came for calls which had ended, received now. None: there is none. One that is
    too long stays the first: its sender was told that it was received."""
    try:
        while True:
            first = late[0]
            data, message = first
            if len(data) > memory.length:
                raise TooSmallError(f"a message of {len(data)} bytes for a receive of {memory.length}")
            taken = late.popleft()
            if taken is first:
                break
            late.appendleft(taken)  # another thread has taken the one that was looked at
    except IndexError:
        return None
    ffi.memmove(memory.address, data, len(data))
    return message


def lease_uri(piece: memoryview, message: Message) -> str:
    """What send_lease has sent. ProtocolError: it was something else."""
    if not message.lease:
        raise ProtocolError(f"a lease was to come, and a message of {message.length} bytes has")
    return bytes(piece[:message.length]).rstrip(b"\0").decode("utf-8", "replace")


class Channel:
    """One end of a channel. Made by Session.connect and Service.accept. Any thread may use it.

    Lives until close() or abort(), or its session does. `with channel:` closes it at the end. Memory that send and
    recv name lies in a pool.
    """

    def __init__(self, core: Core, pointer: typing.Any, small_pool: typing.Callable[[], Pool],
                 attach: typing.Callable[[str], Lease], forget: Forget) -> None:
        self._core, self._small_pool, self._attach, self._forget = core, small_pool, attach, forget
        # Messages that were received for calls that were interrupted.
        self._late: typing.Deque[typing.Tuple[bytes, Message]] = collections.deque()
        self._address = int(ffi.cast("uintptr_t", pointer))
        self._use = Ended(pointer, "the channel")
        info = self._info()
        self._use.what = f"the channel to {text(info.peer_node)}"

    def _info(self) -> typing.Any:
        info = make("rdmad_channel_info")
        with self._use as channel:
            lib.rdmad_channel_get_info(channel, info)
        return info

    @property
    def kind(self) -> ChannelKind:
        """What it is, not what was asked for."""
        return ChannelKind(self._info().kind)

    @property
    def max_message(self) -> int:
        """Bytes; a longer one is refused with RangeError."""
        return self._info().max_message

    @property
    def peer_uid(self) -> int:
        """Of the other end's program, as its daemon says."""
        return self._info().peer_uid

    def _text(self, name: str) -> str:
        """A text of the info: it lives as long as the channel, so it is copied while that is in use."""
        with self._use as channel:
            info = make("rdmad_channel_info")
            lib.rdmad_channel_get_info(channel, info)
            return text(getattr(info, name))

    @property
    def peer_node(self) -> str:
        """The other end's machine, as its daemon is called."""
        return self._text("peer_node")

    @property
    def fabric(self) -> str:
        """ "local", "tcp" or "verbs"."""
        return self._text("fabric")

    @property
    def closed(self) -> int:
        """0, or the RDMAD_E_* that tells how it ended."""
        return self._info().closed

    def send(self, data: Buffer, imm: typing.Optional[int] = None) -> None:
        """Sends data; returns when it is in a receive of the other end (of the weaker kinds: when it has left), at
        the latest after the daemon's default time. TooSmallError: that receive is smaller; the channel goes on."""
        memory = Memory(data, False)
        with self._use as channel:
            if imm is None:
                code = lib.rdmad_send(channel, memory.address, memory.length)
            else:
                code = lib.rdmad_send_imm(channel, memory.address, memory.length, imm)
            check_transfer(code, self._core.session)

    def recv(self, into: Buffer, timeout_ms: int = -1) -> Message:
        """The next message, into the memory given. timeout_ms: -1 for ever, 0 not at all; TimeoutError. A message that
        had begun to come then goes to the next receive whole. One that had come when the call was interrupted
        (KeyboardInterrupt) is what the next one returns. ClosedError: the other end has closed. The daemon watches the
        time, and takes the receive back when the call is interrupted: while it is away both wait for the next one."""
        it = Receive(Memory(into, True), timeout_ms)
        try:
            late = late_into(self._late, it.memory)
            if late is not None:
                return late
            result = self._core.receives.do(it, self._core.use, self._use, lib.rdmad_prep_recv)
            return message_of(result, result.value)
        except BaseException:
            if it.result is not None and it.result.status == 0:
                self._late.append((bytes(ffi.buffer(it.memory.address, it.result.value)),
                                   message_of(it.result, it.result.value)))
            raise

    def send_lease(self, lease: typing.Union[Lease, str]) -> None:
        """Sends a lease's URI, for the other end to attach to."""
        uri = lease if isinstance(lease, str) else lease.uri
        with self._use as channel:
            check_transfer(lib.rdmad_send_lease(channel, uri.encode()), self._core.session)

    def recv_lease(self, timeout_ms: int = -1) -> Lease:
        """Receives one and attaches. ProtocolError: the next message is none; it is lost."""
        with self._small_pool().alloc(CONSTANTS["RDMAD_URI_MAX"] + 1) as piece:
            uri = lease_uri(piece, self.recv(piece, timeout_ms))
        try:
            return self._attach(uri)
        except TimeoutError as e:  # which would say that nothing came
            raise UnreachableError(f"a lease came, and is lost unless it is sent again: {e}") from e

    def audit(self) -> ChannelAudit:
        """What went through this end, as the daemon says."""
        it = make("rdmad_channel_audit")
        with self._use as channel:
            check(lib.rdmad_channel_get_audit(channel, it), self._core.session)
        return ChannelAudit(it.messages_sent, it.bytes_sent, it.messages_received, it.bytes_received, it.lost)

    def close(self) -> None:
        """Delivers what was sent before and tells the other end, whose receives for nothing end with ClosedError.
        Does nothing the second time."""
        with self._core.ending(self._use) as pointer:
            if pointer is not None:
                self._forget(self)
                check(lib.rdmad_channel_close(pointer), self._core.session)

    def abort(self) -> None:
        """At once: whatever is under way, here and there, ends with CanceledError."""
        with self._core.ending(self._use) as pointer:
            self._end(pointer)

    def _end(self, pointer: typing.Any) -> None:
        """As abort, in a use of the session or by who has that to itself. None: it has ended."""
        if pointer is not None:
            self._forget(self)
            lib.rdmad_channel_abort(pointer)

    def __enter__(self) -> "Channel":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close() if kind is None else self.abort()


class Gift:
    """Memory of a service's budget that a requester has filled and handed over."""

    def __init__(self, core: Core, service: "Service", address: typing.Any, length: int) -> None:
        self._core, self._service, self._address, self.length = core, service, address, length

        def free(budget: typing.Any = service._budget) -> None:
            """Until then all of the budget is viewed, so its pool stays, however soon the service is closed."""

        self._root = core.view(ffi.cast("char *", address), length, free, "what was handed over")

    @property
    def memory(self) -> memoryview:
        """It. Views of it keep its pool and the session alive."""
        if self._root is None:
            raise BusyError("this memory was given back to the service's budget")
        return memoryview(self._root)

    def give_back(self) -> None:
        """To the service's budget. BusyError while it is viewed. Does nothing the second time."""
        if self._root is None:
            return
        seen, self._root = weakref.ref(self._root), None
        self._root = seen()
        if self._root is not None:
            raise BusyError("memory that was handed over is still viewed; release its views and arrays first")
        with self._service._use as service:
            check(lib.rdmad_service_free(service, self._address), self._core.session)


class Service:
    """A service under a name, which others connect to. Made by Session.listen. Any thread may use it.

    `with service:` closes it at the end.
    """

    def __init__(self, core: Core, pointer: typing.Any, forget: Forget, channel_came: typing.Callable,
                 budget: typing.Any) -> None:
        self._core, self._forget, self._channel_came, self._budget = core, forget, channel_came, budget
        self._address = int(ffi.cast("uintptr_t", pointer))
        self._uri = text(lib.rdmad_service_uri(pointer))
        self._use = Ended(pointer, f"the service {self._uri}")

    @property
    def uri(self) -> str:
        """ "rdmad://HOST:PORT/NAME"."""
        return self._uri

    def _accept(self, who: typing.Any, timeout_ms: int) -> typing.Optional[Channel]:
        """None: nobody came."""
        out = ffi.new("rdmad_channel **")
        with self._core.use, self._use as service:
            code = lib.rdmad_accept(service, who, timeout_ms, out)
            if who == NULL and not waited(code, self._core.session):
                return None
            check(code, self._core.session)
            return self._channel_came(out[0])

    def _waits(self, timeout_ms: int) -> bool:
        """Whether somebody does."""
        with self._use as service:
            return waited(lib.rdmad_next_incoming(service, timeout_ms, make("rdmad_incoming")), self._core.session)

    def accept(self, who: typing.Optional[Incoming] = None, timeout_ms: int = -1) -> Channel:
        """A channel to who connects, or to the first that does. timeout_ms: -1 for ever, 0 not at all; TimeoutError.
        Making a channel to the first that does may take the daemon's default time all the same. HandleError: that one
        does not wait any more."""
        came: typing.List[typing.Optional[Channel]] = [None]

        def once(ms: int) -> bool:
            if self._waits(ms):
                # Another thread may take that one, and the next is waited for here. Making the channel may take
                # longer than signals may wait: it has the daemon's default time.
                came[0] = self._accept(NULL, 0)
            return came[0] is not None

        if who is None:
            patiently(timeout_ms, once, self._use.what)
        else:
            came[0] = self._accept(make("rdmad_incoming", id=who.id), timeout_ms)
        assert came[0] is not None
        return came[0]

    def next_incoming(self, timeout_ms: int = -1) -> Incoming:
        """The first that waits, for accept or reject."""
        it = make("rdmad_incoming")

        def once(ms: int) -> bool:
            with self._use as service:
                return waited(lib.rdmad_next_incoming(service, ms, it), self._core.session)

        patiently(timeout_ms, once, self._use.what)
        return Incoming(it.id, it.uid, ChannelKind(it.kind), text(it.node), text(it.address),
                        bool(it.flags & CONSTANTS["RDMAD_PEER_PROVEN"]))

    def _gift(self, address: typing.Any, length: int) -> typing.Optional[Gift]:
        """None: the service is just being closed, and its memory may go."""
        try:
            with self._use:
                return Gift(self._core, self, address, length)
        except HandleError:
            return None

    def reject(self, who: Incoming, why: str = "") -> None:
        """Its connect ends with RefusedError and that text."""
        with self._use as service:
            check(lib.rdmad_reject(service, make("rdmad_incoming", id=who.id), why.encode() if why else NULL),
                  self._core.session)

    def close(self) -> None:
        """Who waits is refused, channels that were accepted go on, requested leases end."""
        with self._core.ending(self._use) as pointer:
            self._end(pointer)

    def _end(self, pointer: typing.Any) -> None:
        """As its close, in a use of the session or by who has that to itself. None: it has ended."""
        if pointer is not None:
            self._forget(self)
            lib.rdmad_service_close(pointer)
            self._budget = None

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
