# SPDX-License-Identifier: MIT
"""What one thread ends while others are in calls with it, or with what belongs to it. $A and $B are runtime directories
of two daemons."""
import asyncio
import gc
import os
import threading
import time
import unittest
import unittest.mock

import rdmad
from rdmad import _channel, _lease, _library, _pool, _ring, _session
from rdmad._library import lib

A, B = os.environ["A"], os.environ["B"]
LONG = 40  # seconds: whoever waits longer has failed


class Library:
    """Of those calls others are called."""

    def __init__(self, beneath, calls):
        self.__dict__.update(calls)
        self.beneath = beneath

    def __getattr__(self, name):
        return getattr(self.beneath, name)


class Held:
    """A call that stands still until it may go on."""

    def __init__(self, call):
        self.call = call
        self.inside, self.go_on, self.over = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, *arguments):
        self.inside.set()
        self.go_on.wait(LONG)
        try:
            return self.call(*arguments)
        finally:
            self.over.set()

    @property
    def under_way(self):
        return self.inside.is_set() and not self.over.is_set()


class Clock:
    """The package's: it tells that somebody waits for other threads, and then has a signal's handler run."""

    def __init__(self):
        self.monotonic, self.waits, self.handler = time.monotonic, threading.Event(), lambda: None

    def sleep(self, seconds):
        self.waits.set()
        self.handler()
        time.sleep(seconds)


class Ends(unittest.TestCase):
    """An owner at A, a lessee at B."""

    def setUp(self):
        self.owner, self.lessee = rdmad.Session(A, name="owner"), rdmad.Session(B, name="lessee")
        self.addCleanup(self.end)
        self.theirs, self.mine = self.owner.pool(1 << 20), self.lessee.pool(1 << 20)
        self.clock, self.held, self.under = Clock(), [], []
        self.instead(_library, "time", self.clock)
        self.library(_pool, rdmad_close=self.close)

    def end(self):
        self.lessee.close()
        self.owner.close()

    def close(self, session):
        """The library's, which would end the program, or have it crash, where a call that we hold is under way."""
        self.under += [held.call for held in self.held if held.under_way]
        self.clock.waits.set()
        for held in self.held:
            if held.under_way:
                held.over.wait(LONG)
        lib.rdmad_close(session)

    def instead(self, of, name, it):
        patch = unittest.mock.patch.object(of, name, it)
        patch.start()
        self.addCleanup(patch.stop)

    def library(self, of, **calls):
        patch = self.calls(of, **calls)
        patch.start()
        self.addCleanup(patch.stop)

    @staticmethod
    def calls(of, **calls):
        return unittest.mock.patch.object(of, "lib", Library(of.lib, calls))

    def hold(self, call):
        self.held.append(Held(call))
        return self.held[-1]

    def let_go(self):
        for held in self.held:
            held.go_on.set()

    def begin(self, call, *arguments):
        """In a thread. What came of it ends up in a list, also an exception."""
        came = []

        def run():
            try:
                came.append(call(*arguments))
            except BaseException as e:
                came.append(e)

        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.let_go)
        return thread, came

    def meet(self, held, call, other):
        """While a call is held in one thread another one calls the other, and waits for the first, or does what it must
        not. What came of both."""
        def run():
            try:
                return other()
            finally:
                self.clock.waits.set()

        first, came = self.begin(call)
        self.wait(held.inside)
        self.clock.waits.clear()
        second, came_too = self.begin(run)
        self.wait(self.clock.waits)
        held.go_on.set()
        first.join()
        second.join()
        return came, came_too

    def wait(self, event):
        self.assertTrue(event.wait(LONG), "it does not happen")


class Interrupts(Ends):
    def test_a_close_that_a_signal_interrupts_changes_nothing(self):
        def interrupt():
            raise KeyboardInterrupt

        for it in (self.mine, self.lessee):
            self.clock.handler = interrupt
            with self.mine._use, self.assertRaises(KeyboardInterrupt):
                it.close()
            self.clock.handler = lambda: None
            self.assertEqual((self.mine._use.ended, self.lessee._use.ended), (False, False), "it can be used no more")
            self.mine.alloc(64)


class Sessions(Ends):
    """A session, and what belongs to it."""

    def setUp(self):
        super().setUp()
        self.service = self.owner.listen("ends", budget=self.theirs.alloc(4096))
        lease = self.owner.grant(self.theirs.alloc(64))
        self.there = self.lessee.attach(lease.uri)
        # What ends something, where, and what makes one that it ends.
        self.ends = {
            "rdmad_lease_free": (_lease, lambda session: session.attach(lease.uri).close),
            "rdmad_lease_hand_over": (_lease, lambda session: session.request(self.service.uri, 4096).hand_over),
            "rdmad_channel_close": (_channel, lambda session: self.channel(session).close),
            "rdmad_channel_abort": (_channel, lambda session: self.channel(session).abort),
            "rdmad_service_close": (_channel, lambda session: session.listen("short").close),
            "rdmad_pool_destroy": (_pool, lambda session: session.pool(4096).close),
        }

    def channel(self, session):
        far, _ = self.begin(self.service.accept)
        near = session.connect(self.service.uri)
        far.join()
        return near

    def test_a_session_does_not_end_under_the_end_of_what_belongs_to_it(self):
        for name, (module, make) in self.ends.items():
            session, held = rdmad.Session(B), self.hold(getattr(lib, name))
            end = make(session)
            with self.subTest(name), self.calls(module, **{name: held}):
                came, closed = self.meet(held, end, session.close)
                self.assertEqual((self.under, came, closed), ([], [None], [None]))
                self.assertTrue(session._core.closed)
            self.under.clear()

    def accepted(self, session):
        service = session.listen("accepts")
        self.begin(self.owner.connect, service.uri)
        return lambda: service.accept(timeout_ms=LONG * 1000)

    def test_a_session_does_not_end_under_what_is_just_made_of_it(self):
        """What is made then ends with it: nobody uses it after the session."""
        uri = self.there.uri
        for name, prepare in {
            "Pool": lambda session: lambda: session.pool(4096),
            "Lease": lambda session: lambda: session.attach(uri),
            "Service": lambda session: lambda: session.listen("short"),
            "Channel": self.accepted,
        }.items():
            session, held = rdmad.Session(B), self.hold(getattr(_session, name))
            make = prepare(session)
            with self.subTest(name), unittest.mock.patch.object(_session, name, held):
                made, closed = self.meet(held, make, session.close)
                self.assertEqual((self.under, closed), ([], [None]))
                self.assertTrue(made[0]._use.ended, "it has not ended with its session")
            self.under.clear()

    def closing(self, session, fails):
        """A session's close, which stands still when it has the session to itself, and then perhaps fails."""
        pool, take = session.pool(4096), _library.Ended.take
        held = self.hold(take)

        def decide(use, *because):
            if use is not pool._use:
                return take(use, *because)
            pointer = held(use)
            if fails:
                use.put_back(pointer)
                raise rdmad.BusyError("it goes on")
            return pointer

        return held, unittest.mock.patch.object(_library.Ended, "take", decide)

    def ended_meanwhile(self, fails):
        """What the library was asked to end when that was asked of us during such a close."""
        asked = []
        for name, (module, make) in self.ends.items():
            session = rdmad.Session(B)
            end = make(session)
            held, closing = self.closing(session, fails)

            def count(*arguments, name=name):
                asked.append(name)
                return getattr(lib, name)(*arguments)

            with self.subTest(name), self.calls(module, **{name: count}), closing:
                closed, came = self.meet(held, session.close, end)
                self.assertEqual((type(closed[0]), came), (rdmad.BusyError if fails else type(None), [None]))
            session.close()
        return asked

    def test_what_ends_while_its_session_does_is_not_ended_twice(self):
        self.assertEqual(self.ended_meanwhile(False), [])

    def test_what_ends_while_its_session_cannot_be_closed_ends(self):
        self.assertEqual(self.ended_meanwhile(True), list(self.ends))

    def test_what_waits_too_long_for_its_sessions_close_is_busy(self):
        self.instead(_library, "PATIENCE", 0.1)
        held, closing = self.closing(self.lessee, False)
        with closing:
            close, _ = self.begin(self.lessee.close)
            self.wait(held.inside)
            with self.assertRaises(rdmad.BusyError) as caught:
                self.there.close()
            held.go_on.set()
            close.join()
        self.assertIn("the session is just being closed by another thread", str(caught.exception))
        self.there.close()

    def test_a_call_that_a_sessions_close_waits_for_does_not_wait_for_it(self):
        self.instead(_library, "PATIENCE", 5)
        with self.lessee._use:
            close, closed = self.begin(self.lessee.close)
            self.wait(self.clock.waits)
            self.there.close()
        close.join()
        self.assertEqual((closed, self.there._use.ended), ([None], True))

    def test_nor_does_a_handler_that_interrupts_the_close(self):
        def handler():
            self.clock.handler = lambda: None
            try:
                self.there.close()
            finally:
                self.mine._use.__exit__()

        self.instead(_library, "PATIENCE", 1)
        self.mine._use.__enter__()
        self.clock.handler = handler
        self.lessee.close()
        self.assertTrue(self.there._use.ended and self.lessee._core.closed)


class Services(Ends):
    def setUp(self):
        super().setUp()
        self.service = self.owner.listen("taken")

    def somebody_else_accepts(self):
        """Whoever connects is another thread's when it comes to the accept."""
        accepts = threading.Event()

        def accept(*arguments):
            accepts.set()
            return lib.rdmad_accept(*arguments)

        def one(*arguments):
            return lib.rdmad_next_incoming(*arguments) if accepts.is_set() else 0

        self.library(_channel, rdmad_next_incoming=one, rdmad_accept=accept)
        return accepts

    def test_an_accept_that_another_is_faster_than_does_not_keep_the_service(self):
        self.instead(_library, "PATIENCE", 5)
        for timeout_ms in (-1, LONG * 1000):
            with self.subTest(timeout_ms), self.owner.listen("short") as service:
                accepts = self.somebody_else_accepts()
                accept, came = self.begin(lambda: service.accept(timeout_ms=timeout_ms))
                self.wait(accepts)
                service.close()
                accept.join()
                self.assertIsInstance(came[0], rdmad.HandleError)

    def test_an_accept_that_does_not_wait_does_not_wait_for_the_next(self):
        times = []

        def accept(service, who, ms, out):
            times.append(ms)
            return lib.rdmad_accept(service, who, ms, out)

        self.library(_channel, rdmad_next_incoming=lambda *_: 0, rdmad_accept=accept)
        with self.assertRaises(TimeoutError):
            self.service.accept(timeout_ms=0)
        self.assertEqual(times, [0])


class Pools(Ends):
    def test_a_piece_that_comes_while_its_pool_is_closed_keeps_it(self):
        """Nobody viewed the pool when its close began to wait for who allocates."""
        held, destroyed = self.hold(lib.rdmad_alloc), []
        self.library(_pool, rdmad_alloc=held, rdmad_pool_destroy=lambda pool: destroyed.append(pool) or 0)
        pieces, refused = self.meet(held, lambda: self.mine.alloc(64), self.mine.close)
        self.assertEqual(destroyed, [], "the pool has gone under its piece")
        self.assertIsInstance(refused[0], rdmad.BusyError)
        self.assertIn("1 of its pieces are still viewed", str(refused[0]))
        pieces[0][:] = self.mine.alloc(64)
        pieces.clear()
        self.mine.close()
        self.assertEqual(len(destroyed), 1)

    def test_a_ring_that_comes_while_its_session_is_closed_keeps_it(self):
        held, loop = self.hold(lib.rdmad_ring_create), asyncio.new_event_loop()
        self.addCleanup(loop.close)
        self.library(_ring, rdmad_ring_create=held)
        rings, refused = self.meet(held, lambda: _ring.Ring(self.lessee, 1, loop, 0), self.lessee.close)
        self.assertIn("an event loop has it", str(refused[0]))
        loop.run_until_complete(rings[0].close())


class Gifts(Ends):
    def setUp(self):
        super().setUp()
        self.service = self.owner.listen("budget", budget=self.theirs.alloc(4096))
        there = self.lessee.request(self.service.uri, 4096)
        there.write_copy(0, b"filled")
        there.hand_over()

    def gift(self):
        while True:
            event = self.owner.next_event(LONG * 1000)
            if event.gift is not None:
                return event.gift

    def test_a_gift_that_comes_while_its_session_is_closed_keeps_it(self):
        held = self.hold(self.owner._told)
        self.instead(self.owner, "_told", held)
        gifts, closed = self.meet(held, self.gift, self.owner.close)
        self.assertEqual((self.under, closed), ([], [None]), "its memory has gone before")
        self.assertEqual(bytes(gifts[0].memory[:6]), b"filled")
        self.assertFalse(self.owner._core.closed)
        gifts.clear()
        gc.collect()
        self.assertTrue(self.owner._core.closed)

    def test_a_gift_keeps_its_pool(self):
        """Also when its service is closed, and when it comes while that is closed."""
        held, destroyed = self.hold(_channel.Gift), []
        self.instead(_channel, "Gift", held)
        gifts, closed = self.meet(held, self.gift, self.service.close)
        self.assertEqual(closed, [None])
        gc.collect()
        self.library(_pool, rdmad_pool_destroy=lambda pool: destroyed.append(pool) or 0)
        with self.assertRaises(rdmad.BusyError) as caught:
            self.theirs.close()
        self.assertIn("are still viewed", str(caught.exception))
        self.assertEqual(bytes(gifts[0].memory[:6]), b"filled")
        gifts.clear()
        self.theirs.close()
        self.assertEqual(len(destroyed), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
