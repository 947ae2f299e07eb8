# SPDX-License-Identifier: MIT
"""Receives of threads, blocking: whatever a message takes to come, and whoever interrupts them. $A and $B are runtime
directories of two daemons."""
import os
import select
import signal
import subprocess
import threading
import time
import unittest
import unittest.mock

import rdmad
from rdmad import _library, _receives
from rdmad._library import UNTIL_SIGNALS, ffi, lib

A, B = os.environ["A"], os.environ["B"]
LONG = 40  # seconds: whoever waits longer has failed
LARGE = 4 << 20


class Interrupted(BaseException):
    pass


def allow(bytes_per_second):
    """So much of this user's at both ends; 0: anything."""
    for daemon in (A, B):
        subprocess.run([os.environ["rdmactl"], "-d", daemon, "limit", "set", f"uid:{os.getuid()}",
                        f"bytes_per_second={bytes_per_second}"], check=True, capture_output=True)


class Channels(unittest.TestCase):
    """From near, at B, to far, at A."""

    def setUp(self):
        self.owner, self.lessee = rdmad.Session(A, name="owner"), rdmad.Session(B, name="lessee")
        self.addCleanup(self.end)
        self.theirs, self.mine = self.owner.pool(2 * LARGE), self.lessee.pool(2 * LARGE)
        self.service = self.owner.listen("receives")
        self.near, self.far = self.channel()

    def channel(self, kind=rdmad.ChannelKind.RELIABLE):
        ends = []
        caller = threading.Thread(target=lambda: ends.append(self.lessee.connect(self.service.uri, kind)))
        caller.start()
        far = self.service.accept(timeout_ms=LONG * 1000)
        caller.join()
        return ends[0], far

    def begin(self, call, *arguments):
        """In a thread, which has ended when the test has; an exception ends up in failed."""
        failed = []

        def run():
            try:
                call(*arguments)
            except BaseException as e:
                failed.append(e)

        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.end)
        return thread, failed

    def end(self):
        self.owner.close()
        self.lessee.close()

    def await_posted(self, session, count=1):
        """So many receives are in flight."""
        until = time.monotonic() + LONG
        while len([it for it in list(session._core.receives._users.values()) if it.token]) != count:
            self.assertLess(time.monotonic(), until, "the receives are not in flight")
            time.sleep(0.001)


class Slow(Channels):
    def setUp(self):
        super().setUp()
        self.addCleanup(allow, 0)
        self.out, self.box = self.mine.alloc(LARGE), self.theirs.alloc(LARGE)
        self.out[:] = os.urandom(LARGE)
        self.box[:] = bytes(LARGE)

    def test_a_message_that_takes_longer_than_a_slice_comes(self):
        allow(LARGE)
        began = time.monotonic()
        sender, failed = self.begin(self.near.send, self.out, 5)
        self.assertEqual(self.far.recv(self.box, LONG * 1000), (LARGE, 5, False))
        self.assertGreater(time.monotonic() - began, 2 * UNTIL_SIGNALS / 1000)
        sender.join()
        self.assertEqual((failed, self.box), ([], self.out))

    def test_the_callers_time_ends_it_and_the_next_receive_has_it_whole(self):
        allow(LARGE // 20)
        sender, failed = self.begin(self.near.send, self.out)
        with self.assertRaises(TimeoutError) as caught:
            self.far.recv(self.box, 2 * UNTIL_SIGNALS)
        self.assertIn("nothing came within 500 ms", str(caught.exception))
        allow(0)
        self.assertEqual(self.far.recv(self.box, LONG * 1000).length, LARGE)
        sender.join()
        self.assertEqual((failed, self.box), ([], self.out))

    def test_a_signal_is_heard_while_a_message_comes(self):
        """Which would take longer than the test may. The next receive has it whole."""
        def interrupt():
            self.await_posted(self.owner)
            time.sleep(2 * UNTIL_SIGNALS / 1000)  # it has begun, probably
            os.kill(os.getpid(), signal.SIGUSR1)

        def handler(*_):
            raise Interrupted

        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, handler))
        allow(LARGE // 200)
        sender, failed = self.begin(self.near.send, self.out)
        self.begin(interrupt)
        with self.assertRaises(Interrupted):
            self.far.recv(self.box)
        with self.theirs.lock_write(self.box, 0):  # nothing fills it any more
            pass
        allow(0)
        self.assertEqual(self.far.recv(self.box, LONG * 1000).length, LARGE)
        sender.join()
        self.assertEqual((failed, self.box), ([], self.out))


class Interrupts(Channels):
    def interrupted(self, then):
        """The first wait of a receive, instead of which then is called and a signal interrupts."""
        real = _receives.Ring.wait

        def wait(ring, it, ms):
            if ms == 0:
                return real(ring, it, ms)
            then()
            raise KeyboardInterrupt

        return unittest.mock.patch.object(_receives.Ring, "wait", wait)

    def test_a_message_that_came_meanwhile_is_not_lost(self):
        out, box = self.mine.alloc(64), self.theirs.alloc(64)
        for i in range(20):
            out[0] = i
            with self.interrupted(lambda: self.near.send(out[:i + 1], imm=i)), self.assertRaises(KeyboardInterrupt):
                self.far.recv(box)
            box[:] = bytes(64)
            self.assertEqual(self.far.recv(box, LONG * 1000), (i + 1, i, False))
            self.assertEqual(box[0], i)
        with self.assertRaises(TimeoutError):
            self.far.recv(box, 0)

    def test_nor_is_one_for_which_there_was_no_room(self):
        out, box = self.mine.alloc(64), self.theirs.alloc(64)
        out[:] = bytes(range(64))
        with self.interrupted(lambda: self.near.send(out, imm=7)), self.assertRaises(KeyboardInterrupt):
            self.far.recv(box)
        box[:] = bytes(64)
        for _ in range(2):
            with self.assertRaises(rdmad.TooSmallError):
                self.far.recv(box[:63], LONG * 1000)
        self.assertEqual(self.far.recv(box, LONG * 1000), (64, 7, False))
        self.assertEqual(box, out)

    def test_nor_is_a_lease(self):
        lease = self.lessee.grant(self.mine.alloc(64))
        with self.interrupted(lambda: self.near.send_lease(lease)), self.assertRaises(KeyboardInterrupt):
            self.far.recv_lease()
        self.assertEqual(self.far.recv_lease(LONG * 1000).uri, lease.uri)

    def library(self, **calls):
        """The library, of which those calls are others."""
        class Library:
            def __getattr__(self, name):
                return calls.get(name) or getattr(lib, name)

        return unittest.mock.patch.object(_receives, "lib", Library())

    def test_what_is_interrupted_twice_is_not_in_flight_nor_lost(self):
        """The second time just when its cancel has come back, and has found a message that came meanwhile, or none. It
        is by whatever a handler raises."""
        times, box, out = [], self.theirs.alloc(64), self.mine.alloc(64)

        def cancel(*arguments):
            if not times:
                before()
            times.append(lib.rdmad_ring_cancel(*arguments))
            if len(times) == 1:
                raise second
            return times[-1]

        for second in (KeyboardInterrupt(), SystemExit(1), Interrupted()):
            for before in (lambda: None, lambda: self.near.send(out)):
                times.clear()
                with self.interrupted(lambda: None), self.library(rdmad_ring_cancel=cancel), \
                        self.assertRaises(type(second)) as caught:
                    self.far.recv(box)
                self.assertIs(caught.exception, second)
                self.assertEqual(len(times), 2)
                self.assertEqual(self.owner._core.receives._users, {})
                with self.theirs.lock_write(box, 0):
                    pass
            self.assertEqual(self.far.recv(box, LONG * 1000).length, 64)
            with self.assertRaises(TimeoutError):
                self.far.recv(box, 0)

    def test_entries_that_signals_lose_come_back(self):
        def reserve(ring):
            self.assertNotEqual(lib.rdmad_ring_reserve(ring), ffi.NULL)
            raise KeyboardInterrupt

        box = self.theirs.alloc(64)
        with self.library(rdmad_ring_reserve=reserve):
            for _ in range(_receives.ENTRIES):
                with self.assertRaises(KeyboardInterrupt):
                    self.far.recv(box)
        sender, failed = self.begin(self.near.send, self.mine.alloc(64))
        self.assertEqual(self.far.recv(box, LONG * 1000).length, 64)
        sender.join()
        self.assertEqual(failed, [])

    def test_a_close_by_another_thread_is_heard(self):
        """Of this end, and of the other one."""
        for mine, error in ((True, rdmad.HandleError), (False, rdmad.ClosedError)):
            near, far = self.channel()
            waits, failed = self.begin(far.recv, self.theirs.alloc(64))
            self.await_posted(self.owner)
            (far if mine else near).close()
            waits.join()
            self.assertIsInstance(failed[0], error)

    def test_so_is_the_sessions(self):
        waits, failed = self.begin(self.far.recv, self.theirs.alloc(64))
        self.await_posted(self.owner)
        self.owner.close()
        waits.join()
        self.assertIsInstance(failed[0], rdmad.HandleError)


class Threads(Channels):
    def echo(self, far, box, count):
        for _ in range(count):
            length = far.recv(box, LONG * 1000).length
            far.send(box[:length])

    def test_each_receives_its_own(self):
        pairs = [self.channel() for _ in range(7)]
        begun = [self.begin(self.echo, far, self.theirs.alloc(64), 100) for _, far in pairs]
        begun += [self.begin(self.talk, i, near, 100) for i, (near, _) in enumerate(pairs)]
        for thread, failed in begun:
            thread.join()
            self.assertEqual(failed, [])
        for session in (self.owner, self.lessee):
            self.assertEqual(session._core.receives._users, {})

    def talk(self, number, near, count):
        out, back = self.mine.alloc(64), self.mine.alloc(64)
        for i in range(count):
            said = bytes([number, i]) * (i % 32 + 1)
            out[:len(said)] = said
            near.send(out[:len(said)])
            self.assertEqual(near.recv(back, LONG * 1000).length, len(said))
            self.assertEqual(bytes(back[:len(said)]), said)

    def receive_five(self, own):
        """In as many threads, of which so many have a ring of their own."""
        box = self.theirs.alloc(64 * 5)
        waits = [self.begin(self.far.recv, box[64 * i:64 * i + 64], LONG * 1000) for i in range(5)]
        self.await_posted(self.owner, own)
        for _ in range(5):
            self.near.send(self.mine.alloc(64))
        for thread, failed in waits:
            thread.join()
            self.assertEqual(failed, [])
        with self.assertRaises(TimeoutError):
            self.far.recv(box[:64], 0)
        self.assertEqual(self.owner._core.receives._users, {})

    def test_more_than_there_are_rings_for(self):
        with unittest.mock.patch.object(_receives, "RINGS", 2):
            self.owner._core.receives = _receives.Receives()
        self.receive_five(2)

    def test_more_than_the_daemon_allows_rings_for(self):
        real = _receives.Ring.make

        def make(ring, session):
            if ring is not self.owner._core.receives._rings[0]:
                raise rdmad.LimitError
            real(ring, session)

        with unittest.mock.patch.object(_receives.Ring, "make", make):
            self.receive_five(1)


class Handlers(Channels):
    """Of signals, which find the main thread in a receive."""

    def setUp(self):
        super().setUp()
        self.near2, self.far2 = self.channel()
        self.box, self.box2, self.out = self.theirs.alloc(64), self.theirs.alloc(64), self.mine.alloc(64)

    def handled(self, handler):
        """A signal comes in the first wait of a receive. What its handler sends first comes to that receive. It fails
        when it takes LONG."""
        real, waits = _receives.Ring.wait, []

        def wait(ring, it, ms):
            if it.memory.address == ffi.from_buffer(self.box) and not waits:
                waits.append(it)
                signal.raise_signal(signal.SIGUSR1)
            return real(ring, it, ms)

        def hangs(*_):
            raise AssertionError("it hangs")

        def run(*_):
            self.near.send(self.out, 1)
            handler()
            done.append(True)

        done = []
        for number, what in ((signal.SIGUSR1, run), (signal.SIGALRM, hangs)):
            self.addCleanup(signal.signal, number, signal.signal(number, what))
        self.addCleanup(signal.alarm, 0)
        signal.alarm(LONG)
        with unittest.mock.patch.object(_receives.Ring, "wait", wait):
            self.assertEqual(self.far.recv(self.box), (64, 1, False))
        self.assertEqual(done, [True])

    def test_receives(self):
        sender, failed = self.begin(self.near2.send, self.out, 2)
        self.handled(lambda: self.assertEqual(self.far2.recv(self.box2), (64, 2, False)))
        sender.join()
        self.assertEqual(failed, [])

    def test_receives_for_nothing(self):
        def handler():
            with self.assertRaises(TimeoutError):
                self.far2.recv(self.box2, 2 * UNTIL_SIGNALS)

        self.handled(handler)

    def test_looks_for_events(self):
        def handler():
            while True:
                try:
                    self.owner.next_event(0)
                except TimeoutError:
                    return

        self.handled(handler)

    def test_waits_for_threads_that_receive(self):
        waits, failed = self.begin(self.far2.recv, self.box2)
        self.await_posted(self.owner)

        def handler():
            self.near2.send(self.out)
            waits.join()

        self.handled(handler)
        self.assertEqual(failed, [])


class Others(Channels):
    def test_weaker_kinds(self):
        for kind in (rdmad.ChannelKind.UNACKED, rdmad.ChannelKind.DATAGRAM):
            near, far = self.channel(kind)
            out, box = self.mine.alloc(64), self.theirs.alloc(64)
            waits, failed = self.begin(far.recv, box)
            self.await_posted(self.owner)
            near.send(out)
            waits.join()
            self.assertEqual(failed, [])

    def test_what_is_no_lease(self):
        self.begin(self.near.send, self.mine.alloc(64))
        with self.assertRaises(rdmad.ProtocolError) as caught:
            self.far.recv_lease(LONG * 1000)
        self.assertIn("a message of 64 bytes", str(caught.exception))

    def test_errors_are_sentences(self):
        box = self.theirs.alloc(64)
        with self.assertRaises(rdmad.RangeError):
            self.far.recv(bytearray(8), 0)
        with self.theirs.lock_read(box), self.assertRaises(rdmad.BusyError):
            self.far.recv(box, 0)
        sender, failed = self.begin(self.near.send, self.mine.alloc(128))
        with self.assertRaises(rdmad.TooSmallError) as caught:
            self.far.recv(box, LONG * 1000)
        self.assertIn("on channel", str(caught.exception))
        sender.join()
        self.assertIsInstance(failed[0], rdmad.TooSmallError)

    def test_a_late_wakeup_does_not_keep_the_sessions_descriptor_readable(self):
        """A completion was taken before its wakeup came, and nothing is in flight any more."""
        with self.assertRaises(TimeoutError):
            self.far.recv(self.theirs.alloc(64), 0)
        ring, cqe = self.owner._core.receives._rings[0]._out[0], ffi.new("const struct rdmad_cqe **")
        self.assertEqual(lib.rdmad_prep_nop(ring, lib.rdmad_ring_reserve(ring), 0), 0)
        self.assertEqual(lib.rdmad_ring_arm(ring), 0)
        lib.rdmad_ring_submit(ring)
        self.assertTrue(select.select([lib.rdmad_ring_fd(ring)], [], [], LONG)[0])
        self.assertEqual(lib.rdmad_ring_peek(ring, cqe), 0)
        lib.rdmad_ring_seen(ring, cqe[0])
        while True:
            try:
                self.owner.next_event(0)
            except TimeoutError:
                break
        self.assertEqual(select.select([self.owner.fileno()], [], [], 0)[0], [])

    def test_a_lease_comes_after_a_close_that_failed(self):
        """Its pools had been ended, also the one that leases come into."""
        lease, (near2, far2) = self.lessee.grant(self.mine.alloc(64)), self.channel()
        sender, failed = self.begin(near2.send_lease, lease)
        self.assertEqual(far2.recv_lease(LONG * 1000).uri, lease.uri)
        sender.join()
        with far2._use, unittest.mock.patch.object(_library, "PATIENCE", 0.1), self.assertRaises(rdmad.BusyError):
            self.owner.close()
        sender, failed = self.begin(near2.send_lease, lease)
        self.assertEqual(far2.recv_lease(LONG * 1000).uri, lease.uri)
        sender.join()
        self.assertEqual(failed, [])
        self.theirs.alloc(64)


if __name__ == "__main__":
    unittest.main(verbosity=2)
