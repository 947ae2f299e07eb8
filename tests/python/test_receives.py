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
from rdmad import _receives
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
        self.addCleanup(self.owner.close)
        self.addCleanup(self.lessee.close)
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
        return thread, failed

    def await_posted(self, session, count=1):
        """So many receives are in flight."""
        until = time.monotonic() + LONG
        while sum(len(ring._posted) for ring in session._core.receives._rings) != count:
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
        allow(LARGE // 2)
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
        """A call of SharedRing.wait, instead of which then is called and a signal interrupts."""
        def wait(ring, it):
            then()
            raise KeyboardInterrupt

        return unittest.mock.patch.object(_receives.SharedRing, "wait", wait)

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

    def test_nor_is_a_lease(self):
        lease = self.lessee.grant(self.mine.alloc(64))
        with self.interrupted(lambda: self.near.send_lease(lease)), self.assertRaises(KeyboardInterrupt):
            self.far.recv_lease()
        self.assertEqual(self.far.recv_lease(LONG * 1000).uri, lease.uri)

    def test_what_is_interrupted_twice_is_not_in_flight_nor_lost(self):
        """The second time just when its cancel has come back, and has found a message that came meanwhile, or none."""
        cancel, times = lib.rdmad_ring_cancel, []
        box, out = self.theirs.alloc(64), self.mine.alloc(64)

        class Library:
            def __init__(self, before):
                self.before = before

            def __getattr__(self, name):
                return getattr(lib, name)

            def rdmad_ring_cancel(self, *arguments):
                if not times:
                    self.before()
                times.append(cancel(*arguments))
                if len(times) == 1:
                    raise KeyboardInterrupt
                return times[-1]

        for before in (lambda: None, lambda: self.near.send(out)):
            times.clear()
            with self.interrupted(lambda: None), unittest.mock.patch.object(_receives, "lib", Library(before)), \
                    self.assertRaises(KeyboardInterrupt):
                self.far.recv(box)
            self.assertEqual(len(times), 2)
            self.await_posted(self.owner, 0)
            with self.theirs.lock_write(box, 0):
                pass
        self.assertEqual(self.far.recv(box, LONG * 1000).length, 64)
        with self.assertRaises(TimeoutError):
            self.far.recv(box, 0)

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

    def test_many_share_a_ring_and_each_has_its_own(self):
        with unittest.mock.patch.object(_receives, "RECEIVES", 3):
            pairs = [self.channel() for _ in range(7)]
            begun = [self.begin(self.echo, far, self.theirs.alloc(64), 100) for _, far in pairs]
            begun += [self.begin(self.talk, i, near, 100) for i, (near, _) in enumerate(pairs)]
            for thread, failed in begun:
                thread.join()
                self.assertEqual(failed, [])
        self.assertGreaterEqual(len(self.owner._core.receives._rings), 1)
        self.assertEqual(sum(ring.users for ring in self.owner._core.receives._rings), 0)

    def talk(self, number, near, count):
        out, back = self.mine.alloc(64), self.mine.alloc(64)
        for i in range(count):
            said = bytes([number, i]) * (i % 32 + 1)
            out[:len(said)] = said
            near.send(out[:len(said)])
            self.assertEqual(near.recv(back, LONG * 1000).length, len(said))
            self.assertEqual(bytes(back[:len(said)]), said)

    def test_one_goes_on_when_who_led_has_gone(self):
        """The first takes completions for all; its own comes first, then theirs."""
        pairs = [self.channel() for _ in range(5)]
        waits = []
        for i, (_, far) in enumerate(pairs):
            waits.append(self.begin(far.recv, self.theirs.alloc(64), LONG * 1000))
            self.await_posted(self.owner, i + 1)
        out = self.mine.alloc(64)
        for (near, _), (thread, failed) in zip(pairs, waits):
            near.send(out)
            thread.join()
            self.assertEqual(failed, [])

    def test_more_than_one_ring_has(self):
        with unittest.mock.patch.object(_receives, "RECEIVES", 2):
            box = self.theirs.alloc(64 * 5)
            waits = [self.begin(self.far.recv, box[64 * i:64 * i + 64], LONG * 1000) for i in range(5)]
            self.await_posted(self.owner, 5)
            self.assertEqual(len(self.owner._core.receives._rings), 3)
            for _ in range(5):
                self.near.send(self.mine.alloc(64))
            for thread, failed in waits:
                thread.join()
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
        there, cqe = self.owner._core.receives._rings[0], ffi.new("const struct rdmad_cqe **")
        self.assertEqual(lib.rdmad_prep_nop(there._ring, lib.rdmad_ring_reserve(there._ring), 0), 0)
        self.assertEqual(lib.rdmad_ring_arm(there._ring), 0)
        lib.rdmad_ring_submit(there._ring)
        self.assertTrue(select.select([there._fd], [], [], LONG)[0])
        self.assertEqual(lib.rdmad_ring_peek(there._ring, cqe), 0)
        lib.rdmad_ring_seen(there._ring, cqe[0])
        while True:
            try:
                self.owner.next_event(0)
            except TimeoutError:
                break
        self.assertEqual(select.select([self.owner.fileno()], [], [], 0)[0], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
