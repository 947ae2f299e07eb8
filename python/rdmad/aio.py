# SPDX-License-Identifier: MIT
"""rdmad in asyncio: transfers and messages are awaited, on a ring whose descriptor wakes the running loop.

    async with rdmad.aio.Session() as s:
        there = await s.attach(uri)
        piece = s.pool(1 << 20).alloc(4096)
        await there.read(0, piece)
        await asyncio.gather(*(there.read(i * 4, piece[i * 4:i * 4 + 4]) for i in range(1000)))

Of a session as many ops are in flight as it has entries (1,024); further ones wait for their turn, in order. What
was awaited in one turn of the loop is submitted together. Between ops there is no order but that one is awaited
before the next is begun.

A task that is canceled (asyncio.wait_for does that when the time is over) goes on when nothing can touch the op's
buffers any more, some milliseconds later at most for a live peer. A message or a notification that came meanwhile is
not lost: the next recv or wait_notified has it.

All that is made here belongs to the loop that runs when the session is opened, and to its thread. What asks the
daemon (pools, attach, grant, connect) does so in a thread of the loop's executor. The objects, units and errors are
those of the package, of which these are views: .blocking is the object with blocking calls.
"""
from __future__ import annotations

import asyncio
import collections
import functools
import typing

from . import _session
from ._channel import Channel as BlockingChannel, Message, Service as BlockingService, late_into, lease_uri, message_of
from ._lease import Lease as BlockingLease, Notification
from ._library import NULL, Buffer, Memory, Result, ffi, lib
from ._made import CONSTANTS, ChannelKind, EventType, HandleError, Right
from ._pool import Pool
from ._ring import Look, Ring

PATIENCE_MS = 30000  # as the library's
MOST_EVENTS = 4096  # that nobody has asked for; then the session's descriptor is not looked at
T = typing.TypeVar("T")


class Lease:
    """A lease whose transfers are awaited. rdmad.Lease says what they do."""

    def __init__(self, session: "Session", blocking: BlockingLease) -> None:
        self._session, self.blocking = session, blocking
        self._late: typing.Deque[Notification] = collections.deque()  # taken for tasks that were canceled

    @property
    def uri(self) -> str:
        return self.blocking.uri

    @property
    def id(self) -> int:
        return self.blocking.id

    @property
    def length(self) -> int:
        return self.blocking.length

    @property
    def ttl_ms(self) -> int:
        return self.blocking.ttl_ms

    @property
    def rights(self) -> Right:
        return self.blocking.rights

    @property
    def fabric(self) -> str:
        return self.blocking.fabric

    @property
    def ended(self) -> int:
        return self.blocking.ended

    async def _do(self, prepare: typing.Callable[..., int], *arguments: typing.Any, kept: object = None,
                  unwanted: typing.Optional[typing.Callable[[Result], None]] = None) -> Result:
        def prep(ring: typing.Any, sqe: typing.Any, token: int) -> int:
            with self.blocking._use as lease:
                return prepare(ring, sqe, lease, *arguments, token)

        return await self._session._ring.do(prep, kept, unwanted)

    async def read(self, offset: int, into: Buffer) -> None:
        memory = Memory(into, True)
        await self._do(lib.rdmad_prep_read, offset, memory.address, memory.length, kept=memory)

    async def write(self, offset: int, data: Buffer) -> None:
        memory = Memory(data, False)
        await self._do(lib.rdmad_prep_write, offset, memory.address, memory.length, kept=memory)

    async def cas(self, offset: int, expected: int, desired: int) -> int:
        return (await self._do(lib.rdmad_prep_cas, offset, expected, desired)).value

    async def fetch_add(self, offset: int, add: int) -> int:
        return (await self._do(lib.rdmad_prep_fetch_add, offset, add % 2**64)).value

    async def write_notify(self, offset: int, data: typing.Optional[Buffer], imm: int) -> None:
        memory = None if data is None else Memory(data, False)
        address, length = (memory.address, memory.length) if memory else (NULL, 0)
        await self._do(lib.rdmad_prep_write_notify, offset, address, length, imm, kept=memory)

    async def wait_notified(self) -> Notification:
        if self._late:
            return self._late.popleft()
        result = await self._do(lib.rdmad_prep_notified,
                                unwanted=lambda r: self._late.append(Notification(r.imm, r.value)))
        return Notification(result.imm, result.value)

    async def renew(self, ttl_ms: int) -> None:
        await self._session._ask(self.blocking.renew, ttl_ms)

    async def revoke(self) -> None:
        await self._session._ask(self.blocking.revoke)

    async def close(self) -> None:
        """As rdmad.Lease.close. Ops in flight end with the lease's end."""
        await self._session._ask(self.blocking.close)

    async def __aenter__(self) -> "Lease":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Channel:
    """A channel whose messages are awaited. rdmad.Channel says what they do."""

    def __init__(self, session: "Session", blocking: BlockingChannel) -> None:
        self._session, self.blocking = session, blocking
        # Messages that were received for tasks that were canceled.
        self._late: typing.Deque[typing.Tuple[bytes, Message]] = collections.deque()

    @property
    def kind(self) -> ChannelKind:
        return self.blocking.kind

    @property
    def max_message(self) -> int:
        return self.blocking.max_message

    @property
    def peer_uid(self) -> int:
        return self.blocking.peer_uid

    @property
    def peer_node(self) -> str:
        return self.blocking.peer_node

    @property
    def fabric(self) -> str:
        return self.blocking.fabric

    @property
    def closed(self) -> int:
        return self.blocking.closed

    async def send(self, data: Buffer, imm: typing.Optional[int] = None) -> None:
        memory = Memory(data, False)

        def prepare(ring: typing.Any, sqe: typing.Any, token: int) -> int:
            with self.blocking._use as channel:
                code = lib.rdmad_prep_send(ring, sqe, channel, memory.address, memory.length, token)
            if code == 0 and imm is not None:
                lib.rdmad_sqe_set_imm(sqe, imm)
            return code

        await self._session._ring.do(prepare, memory)

    async def recv(self, into: Buffer) -> Message:
        memory = Memory(into, True)
        late = late_into(self._late, memory)
        if late is not None:
            return late

        def prepare(ring: typing.Any, sqe: typing.Any, token: int) -> int:
            with self.blocking._use as channel:
                return lib.rdmad_prep_recv(ring, sqe, channel, memory.address, memory.length, token)

        def unwanted(result: Result) -> None:
            self._late.append((bytes(ffi.buffer(memory.address, result.value)), message_of(result, result.value)))

        result = await self._session._ring.do(prepare, memory, unwanted)
        return message_of(result, result.value)

    async def send_lease(self, lease: typing.Union[Lease, BlockingLease, str]) -> None:
        await self._session._ask(self.blocking.send_lease, lease.blocking if isinstance(lease, Lease) else lease)

    async def recv_lease(self) -> Lease:
        """Receives one and attaches. ProtocolError: the next message is none; it is lost."""
        with self._session.blocking._small_pool().alloc(CONSTANTS["RDMAD_URI_MAX"] + 1) as piece:
            uri = lease_uri(piece, await self.recv(piece))
        return await self._session.attach(uri)

    async def close(self) -> None:
        """As rdmad.Channel.close: what was sent is delivered, what waits for messages ends with ClosedError."""
        await self._session._ask(self.blocking.close)

    def abort(self) -> None:
        self.blocking.abort()

    async def __aenter__(self) -> "Channel":
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is None:
            await self.close()
        else:
            self.abort()


class Service:
    """A service whose connections are awaited."""

    def __init__(self, session: "Session", blocking: BlockingService) -> None:
        self._session, self.blocking = session, blocking

    @property
    def uri(self) -> str:
        return self.blocking.uri

    async def accept(self) -> Channel:
        """A channel to the first that connects."""
        while True:
            heard = self._session._incoming()
            try:
                channel = await self._session._ask(self.blocking._accept, NULL, 0)
                if channel is not None:
                    return Channel(self._session, channel)
                if not await self._session._ask(self.blocking._waits, 0):  # else those before took too long
                    await heard
            finally:
                self._session._incoming_over(heard)

    async def close(self) -> None:
        await self._session._ask(self.blocking.close)

    async def __aenter__(self) -> "Service":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Session:
    """A session in the running loop. Its options are those of rdmad.Session, and entries: ops in flight at most.

    `async with Session() as s:` opens and closes it; so do `await Session().open()` and `await s.close()`.
    """

    def __init__(self, entries: int = 1024, **options: typing.Any) -> None:
        most = CONSTANTS["RDMAD_RING_MAX_ENTRIES"] - 16
        if not 1 <= entries <= most:
            raise ValueError(f"entries is {entries}; a ring has 1 to {most}")
        self._entries, self._options = entries, options
        self._asked: typing.Set["asyncio.Future[typing.Any]"] = set()
        self._events: typing.Deque[_session.Event] = collections.deque()
        self._wait_event: typing.Deque["asyncio.Future[None]"] = collections.deque()
        self._wait_incoming: typing.Set["asyncio.Future[None]"] = set()
        self._watching = False

    async def open(self) -> "Session":
        """Connects, and returns itself; `async with` does it."""
        self._loop = asyncio.get_running_loop()
        self.blocking = await self._ask(functools.partial(_session.Session, **self._options))
        try:
            patience = max(self._options.get("call_timeout_ms") or PATIENCE_MS, 0) / 1000
            self._ring = Ring(self.blocking, self._entries, self._loop, patience)
            self._looks = Look(self._loop, patience, self._look)
            self._fd = self.blocking.fileno()
        except BaseException:
            self.blocking.close()
            raise
        return self

    async def _ask(self, call: typing.Callable[..., T], *arguments: typing.Any) -> T:
        """Calls what waits for the daemon in another thread. If the task is canceled, what is made is closed."""
        asked = self._loop.run_in_executor(None, call, *arguments)
        self._asked.add(asked)
        asked.add_done_callback(self._asked.discard)
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            asked.add_done_callback(self._unwanted)
            raise

    @staticmethod
    def _unwanted(asked: "asyncio.Future[typing.Any]") -> None:
        if asked.cancelled() or asked.exception():
            return
        if hasattr(asked.result(), "abort"):
            asked.result().abort()
        elif hasattr(asked.result(), "close"):
            asked.result().close()

    @property
    def info(self) -> _session.Info:
        return self.blocking.info

    @property
    def in_flight(self) -> int:
        """Ops that have not completed."""
        return self._ring.in_flight

    def pool(self, nbytes: int, huge: bool = False) -> Pool:
        """As rdmad.Session.pool; it does not wait for other programs, but makes pages in this thread."""
        return self.blocking.pool(nbytes, huge)

    async def grant(self, memory: Buffer, **terms: typing.Any) -> Lease:
        """As rdmad.Session.grant."""
        return Lease(self, await self._ask(functools.partial(self.blocking.grant, memory, **terms)))

    async def attach(self, uri: str, timeout_ms: int = 0) -> Lease:
        return Lease(self, await self._ask(self.blocking.attach, uri, timeout_ms))

    async def request(self, service_uri: str, nbytes: int, **terms: typing.Any) -> Lease:
        return Lease(self, await self._ask(functools.partial(self.blocking.request, service_uri, nbytes, **terms)))

    async def listen(self, name: str, **terms: typing.Any) -> Service:
        return Service(self, await self._ask(functools.partial(self.blocking.listen, name, **terms)))

    async def connect(self, uri: str, kind: ChannelKind = ChannelKind.RELIABLE, timeout_ms: int = 0) -> Channel:
        return Channel(self, await self._ask(self.blocking.connect, uri, kind, timeout_ms))

    # ---- events: the session's descriptor is looked at while somebody waits for one ----

    async def next_event(self) -> _session.Event:
        """What happened next; its lease, channel and service are the blocking ones. Somebody else's connecting is
        told to Service.accept alone."""
        while not self._events:
            if self._ring.closed:
                raise HandleError("the session has been closed")
            heard: "asyncio.Future[None]" = self._loop.create_future()
            self._wait_event.append(heard)
            try:
                self._watch()
                await heard
            except asyncio.CancelledError:
                if heard.done() and not heard.cancelled() and not heard.exception() and self._events:
                    self._wake_one()  # this one was woken, and leaves the event to another
                raise
            finally:
                if heard in self._wait_event:
                    self._wait_event.remove(heard)
                self._watch()
        return self._events.popleft()

    def _wake_one(self) -> None:
        """The first that waits for an event, and was not canceled meanwhile."""
        while self._wait_event:
            heard = self._wait_event.popleft()
            if not heard.done():
                heard.set_result(None)
                return

    def _incoming(self) -> "asyncio.Future[None]":
        heard: "asyncio.Future[None]" = self._loop.create_future()
        self._wait_incoming.add(heard)
        self._watch()
        return heard

    def _incoming_over(self, heard: "asyncio.Future[None]") -> None:
        self._wait_incoming.discard(heard)
        if heard.done() and not heard.cancelled():
            heard.exception()
        self._watch()

    def _watch(self) -> None:
        wanted = bool(self._wait_event or (self._wait_incoming and len(self._events) < MOST_EVENTS))
        if wanted and not self._watching:
            self._loop.add_reader(self._fd, self._readable)
        elif self._watching and not wanted:
            self._loop.remove_reader(self._fd)
        self._watching = wanted
        if wanted:
            self._looks.begin()

    def _look(self) -> bool:
        if self._watching:
            self._readable()
        return self._watching

    def _readable(self) -> None:
        try:
            while self._wait_event or len(self._events) < MOST_EVENTS:
                event = self.blocking._event(0)
                if event is None:
                    break
                self._tell(event)
        except Exception as lost:  # the session is lost: each hears it
            for heard in [*self._wait_event, *self._wait_incoming]:
                if not heard.done():
                    heard.set_exception(lost)
            self._wait_event.clear()
            self._wait_incoming.clear()
        self._watch()
        self._ring._readable()  # its completions wake this descriptor, too

    def _tell(self, event: _session.Event) -> None:
        if event.type == EventType.INCOMING:
            for heard in self._wait_incoming:
                if not heard.done():
                    heard.set_result(None)
            return
        self._events.append(event)
        self._wake_one()

    async def close(self) -> None:
        """Cancels what is in flight, waits until its buffers are quiet, and closes the session."""
        await self._ring.close()
        while self._asked:
            await asyncio.wait(self._asked)
        for heard in [*self._wait_event, *self._wait_incoming]:
            if not heard.done():
                heard.set_exception(HandleError("the session has been closed"))
        self._wait_event.clear()
        self._wait_incoming.clear()
        self._watch()
        self._looks.end()
        await self._loop.run_in_executor(None, self.blocking.close)

    async def __aenter__(self) -> "Session":
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()
