# SPDX-License-Identifier: MIT
"""The session: a program's connection to rdmad, and what all else is made by."""
from __future__ import annotations

import threading
import typing
import warnings

from ._channel import Channel, Gift, Service
from ._lease import Lease, terms_of
from ._library import NULL, Buffer, Memory, check, error, ffi, lib, make, patiently, text, waited
from ._made import CONSTANTS, ChannelKind, Error, EventType, NameKind, Right, Scope
from ._pool import Core, Pool

NAMES_A_CALL = 64


class Info(typing.NamedTuple):
    """fabric: what links to other daemons use."""

    id: int
    node: str
    fabric: str
    max_pool_bytes: int
    default_timeout_ms: int


class Name(typing.NamedTuple):
    """A lease or a service that is published. rights, length and ttl_ms are of leases."""

    name: str
    kind: NameKind
    rights: Right
    length: int
    ttl_ms: int


class Event(typing.NamedTuple):
    """What happened. error is what reason says, as an exception that nobody raises; text is in words."""

    type: EventType
    error: typing.Optional[Error]
    text: str
    lease_id: int
    lease: typing.Optional[Lease]
    channel: typing.Optional[Channel]
    service: typing.Optional[Service]
    gift: typing.Optional[Gift]
    watch: int
    name: typing.Optional[Name]


def name_of(it: typing.Any) -> Name:
    return Name(text(it.name), NameKind(it.kind), Right(it.rights), it.length, it.ttl_ms)


class Session:
    """A connection to rdmad. `with Session() as s:` closes it at the end.

    runtime_dir     where rdmad is; None: $RDMAD_RUNTIME_DIR, /run/rdmad, or the user's own
    name            shown to operators; None: the program's
    ring_entries    of the blocking calls' ring; 0: 64
    spin_us         spin so long before sleeping; None: as the daemon advises
    call_timeout_ms how long the daemon may be silent when it was asked something; 0: 30 s, -1: for ever. What waits
                    asks as often whether it is there
    resume          the session outlives its daemon

    Times are milliseconds. timeout_ms of what waits: -1 for ever, 0 not at all. timeout_ms of what asks another
    daemon (attach, connect, request, names): 0 as long as the daemon's default.

    Any thread may use a session and all that is made by it, but for rdmad.aio. What is made by it lives until it is
    closed, or the session is. After fork the child opens one of its own.
    """

    def __init__(self, runtime_dir: typing.Optional[str] = None, name: typing.Optional[str] = None,
                 ring_entries: int = 0, spin_us: typing.Optional[int] = None, call_timeout_ms: int = 0,
                 resume: bool = True) -> None:
        texts = [ffi.new("char[]", t.encode()) if t is not None else NULL for t in (runtime_dir, name)]
        options = make("rdmad_options", runtime_dir=texts[0], name=texts[1], ring_entries=ring_entries,
                       call_timeout_ms=call_timeout_ms, resume=int(resume))
        if spin_us is not None:
            options.spin_us = spin_us
        out = ffi.new("rdmad_session **")
        check(lib.rdmad_open(options, out))
        self._core = Core(out[0])
        self._use = self._core.use
        self._made: typing.Dict[int, typing.Any] = {}  # leases, channels, services by the library's address
        self._pools: typing.Set[Pool] = set()
        self._small: typing.Optional[Pool] = None
        self._small_lock = threading.Lock()
        self._rings = 0  # in event loops

    # ---- what is made by it ----

    def _keep(self, it: typing.Any) -> typing.Any:
        self._made[it._address] = it
        return it

    def _forget(self, it: typing.Any) -> None:
        if self._made.get(it._address) is it:
            del self._made[it._address]

    def _lease(self, pointer: typing.Any, memory: typing.Optional[Memory] = None) -> Lease:
        return self._keep(Lease(self._core, pointer, self._forget, memory))

    def _channel(self, pointer: typing.Any) -> Channel:
        return self._keep(Channel(self._core, pointer, self._small_pool, self.attach, self._forget))

    def _small_pool(self) -> Pool:
        """For URIs that come in messages."""
        with self._small_lock:
            if self._small is None:
                self._small = self.pool(1 << 16)
            return self._small

    @property
    def info(self) -> Info:
        """What it is to the daemon, and what that allows it."""
        it = make("rdmad_session_info")
        with self._use as session:
            lib.rdmad_session_get_info(session, it)
            return Info(it.id, text(it.node), text(it.fabric), it.max_pool_bytes, it.default_timeout_ms)

    def pool(self, nbytes: int, huge: bool = False) -> Pool:
        """A pool of at least nbytes, rounded up to pages; of 2 MiB pages if huge. Its pages are made here, and
        count as this process's."""
        out = ffi.new("rdmad_pool **")
        with self._use as session:
            check(lib.rdmad_pool_create(session, nbytes, CONSTANTS["RDMAD_POOL_HUGETLB"] if huge else 0, out), session)
            return self._pool(out[0])

    def import_pool(self, fd: int) -> Pool:
        """A pool of the program's own memfd (made with MFD_ALLOW_SEALING), with what is in it: Pool.memory(). It is
        sealed for good: who has it mapped goes on, new mappings can only be read. fd stays the caller's."""
        out = ffi.new("rdmad_pool **")
        with self._use as session:
            check(lib.rdmad_pool_import(session, fd, out), session)
            return self._pool(out[0])

    def _pool(self, pointer: typing.Any) -> Pool:
        pool = Pool(self._core, pointer, self._pools.discard)
        self._pools.add(pool)
        return pool

    def grant(self, memory: Buffer, ttl_ms: int = 0, rights: int = 0, scope: Scope = Scope.ANY, scope_uid: int = 0,
              scope_peer: typing.Optional[str] = None, max_attaches: int = 0, name: typing.Optional[str] = None,
              flags: int = 0, ends_after: int = 0) -> Lease:
        """Lets others reach memory of a pool. ttl_ms 0: 60 s; rights 0: read and write; name: publishes it. The lease
        views the memory until it is closed. See struct rdmad_lease_terms for the rest."""
        view = Memory(memory, False)
        terms, _texts = terms_of(ttl_ms, rights, scope, scope_uid, scope_peer, max_attaches, name, flags, ends_after)
        out = ffi.new("rdmad_lease **")
        with self._use as session:
            check(lib.rdmad_lease_grant(session, view.address, view.length, terms, out), session)
            return self._lease(out[0], view)

    def attach(self, uri: str, timeout_ms: int = 0) -> Lease:
        """Attaches to a lease by its URI or the URI of its name."""
        out = ffi.new("rdmad_lease **")
        with self._use as session:
            check(lib.rdmad_lease_attach(session, uri.encode(), timeout_ms, out), session)
            return self._lease(out[0])

    def request(self, service_uri: str, nbytes: int, ttl_ms: int = 0, rights: int = 0, timeout_ms: int = 0) -> Lease:
        """A fresh lease of nbytes of a service's budget. BudgetError: not that much is left."""
        terms, _texts = terms_of(ttl_ms, rights)
        out = ffi.new("rdmad_lease **")
        with self._use as session:
            check(lib.rdmad_lease_request(session, service_uri.encode(), nbytes, terms, timeout_ms, out), session)
            return self._lease(out[0])

    def listen(self, name: str, backlog: int = 0, scope: Scope = Scope.ANY, scope_uid: int = 0,
               scope_peer: typing.Optional[str] = None, budget: typing.Optional[Buffer] = None, max_rights: int = 0,
               max_request: int = 0, max_ttl_ms: int = 0) -> Service:
        """A service under name. budget: memory of a pool, a multiple of 4096 bytes, that Session.request is served
        from. ExistsError: the name is taken."""
        view = None if budget is None else Memory(budget, True)
        peer = NULL if scope_peer is None else ffi.new("char[]", scope_peer.encode())
        terms = make("rdmad_service_terms", backlog=backlog, scope=scope, scope_uid=scope_uid, scope_peer=peer,
                     budget=view.address if view else NULL,
                     budget_bytes=view.length if view else 0, max_rights=max_rights,
                     max_request=max_request, max_ttl_ms=max_ttl_ms)
        out = ffi.new("rdmad_service **")
        with self._use as session:
            check(lib.rdmad_listen(session, name.encode(), terms, out), session)
            return self._keep(Service(self._core, out[0], self._forget, self._channel, view))

    def connect(self, uri: str, kind: ChannelKind = ChannelKind.RELIABLE, timeout_ms: int = 0) -> Channel:
        """A channel to a service. RefusedError: the service does not want it, and may say why."""
        out = ffi.new("rdmad_channel **")
        with self._use as session:
            check(lib.rdmad_connect(session, uri.encode(), kind, timeout_ms, out), session)
            return self._channel(out[0])

    # ---- names ----

    def names(self, where: typing.Optional[str] = None, prefix: str = "", timeout_ms: int = 0) -> typing.Iterator[Name]:
        """The names of the daemon at where ("rdmad://HOST:PORT/"; None: this one) that begin with prefix, in order."""
        after, count = "", ffi.new("size_t *")
        found = ffi.new("struct rdmad_name[]", NAMES_A_CALL)
        found[0].size = ffi.sizeof("struct rdmad_name")
        while True:
            with self._use as session:
                check(lib.rdmad_names_list(session, where.encode() if where else NULL, prefix.encode(),
                                           after.encode() if after else NULL, timeout_ms, found, NAMES_A_CALL, count),
                      session)
            names = [name_of(found[i]) for i in range(count[0])]
            yield from names
            if len(names) < NAMES_A_CALL:
                return
            after = names[-1].name

    def watch(self, where: typing.Optional[str] = None, prefix: str = "", timeout_ms: int = 0) -> int:
        """From now on names that come and go are events, first those that are there. Returns its number."""
        out = ffi.new("uint64_t *")
        with self._use as session:
            check(lib.rdmad_names_watch(session, where.encode() if where else NULL, prefix.encode(), timeout_ms, out),
                  session)
        return out[0]

    def unwatch(self, watch: int) -> None:
        """No more events of a watch, by its number."""
        with self._use as session:
            check(lib.rdmad_names_unwatch(session, watch), session)

    # ---- events ----

    def fileno(self) -> int:
        """For an event loop: readable when next_event(0) may have something."""
        with self._use as session:
            return check(lib.rdmad_session_fd(session), session)

    def _event(self, timeout_ms: int) -> typing.Optional[Event]:
        """None: nothing happened."""
        it = make("rdmad_event")
        with self._use as session:
            if not waited(lib.rdmad_next_event(session, timeout_ms, it), session):
                self._core.receives.drain()
                return None
            return self._told(it)

    def _told(self, it: typing.Any) -> Event:
        """The event in words of ours, while the session is in use: memory of its pools may come with it."""
        lease, channel, service = (self._made.get(int(ffi.cast("uintptr_t", p)))
                                   for p in (it.lease, it.channel, it.service))
        gift = None
        if it.type == EventType.HANDED_OVER and service is not None:
            gift = service._gift(it.memory, it.length)
        name = name_of(it.name) if it.type in (EventType.NAME_THERE, EventType.NAME_GONE) else None
        kind = EventType(it.type) if it.type in EventType._value2member_map_ else it.type
        words = text(it.text)
        return Event(kind, error(it.reason, words) if it.reason else None, words, it.lease_id, lease, channel, service,
                     gift, it.watch, name)

    def next_event(self, timeout_ms: int = -1) -> Event:
        """What happened next to the session, a lease, a channel, a service or a watch. timeout_ms: -1 for ever, 0 not
        at all; TimeoutError. DaemonLostError: the session is lost, and its event was taken."""
        came: typing.List[Event] = []

        def once(ms: int) -> bool:
            event = self._event(ms)
            if event is not None:
                came.append(event)
            return event is not None

        patiently(timeout_ms, once, "the session")
        return came[0]

    # ---- its end ----

    def _why_not(self) -> str:
        return "an event loop has it: close its rdmad.aio.Session" if self._rings else ""

    def close(self) -> None:
        """Ends all that was made by it: leases cannot be reached, channels are closed, transfers fail. Memory that is
        still viewed, and an array's is, stays as it is, and the connection with it, until the last view is gone.
        Does nothing the second time. BusyError: calls of other threads go on with it; its pools are as before."""
        core = self._core
        if core.closing:
            return
        pointer = self._use.take(self._why_not)
        if pointer is None:
            return
        taken = [(self._use, pointer)]
        try:
            for pool in list(self._pools):
                taken.append((pool._use, pool._use.take()))
            for it in list(self._made.values()):
                if not core.pieces:
                    taken.append((it._use, it._use.take()))  # it ends with the session
                else:
                    it._end(it._use.take())
        except BaseException:  # a signal's, too
            for use, of_it in taken:
                use.put_back(of_it)
            raise
        core.closing = True
        core.close_if_unseen()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is not None and not core.closing:
            warnings.warn("a session of rdmad was not closed", ResourceWarning, source=self)
            self._rings = 0  # they are forgotten, too
            self.close()
