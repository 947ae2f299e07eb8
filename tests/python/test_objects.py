# SPDX-License-Identifier: MIT
"""The blocking calls, and whose memory is whose. $A and $B are runtime directories of two daemons."""
import fcntl
import gc
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import numpy
import rdmad

A, B = os.environ["A"], os.environ["B"]
EVERYTHING = rdmad.Right.READ | rdmad.Right.WRITE | rdmad.Right.ATOMIC | rdmad.Right.DELEGATE


class Pair(unittest.TestCase):
    """An owner at A, a lessee at B."""

    def setUp(self):
        self.owner, self.lessee = rdmad.Session(A, name="owner"), rdmad.Session(B, name="lessee")
        self.theirs, self.mine = self.owner.pool(1 << 20), self.lessee.pool(1 << 20)

    def tearDown(self):
        self.lessee.close()
        self.owner.close()

    def granted(self, memory, **terms):
        terms.setdefault("rights", EVERYTHING)
        lease = self.owner.grant(memory, **terms)
        return lease, self.lessee.attach(lease.uri)


class Transfers(Pair):
    def test_an_array_is_read_without_a_copy(self):
        array = self.theirs.array((100, 10), "f4")
        array[:] = numpy.arange(1000).reshape(100, 10)
        lease, there = self.granted(array)
        self.assertEqual((there.length, there.fabric, there.rights), (4000, "tcp", EVERYTHING))
        got = self.mine.array((100, 10), "f4")
        there.read(0, got)
        numpy.testing.assert_array_equal(got, array)
        array[50:] = -1
        there.read(50 * 40, got[50:])  # a slice names its part
        numpy.testing.assert_array_equal(got, array)
        got[:3] = 7
        there.write(0, got[:3])
        self.assertTrue((array[:3] == 7).all() and array[3, 0] == 30)

    def test_all_kinds(self):
        box = self.theirs.alloc(4096)
        box[:] = bytes(4096)
        lease, there = self.granted(box)
        self.assertEqual(there.fetch_add(8, -1), 0)
        self.assertEqual(there.cas(8, 2**64 - 1, 5), 2**64 - 1)
        self.assertEqual(there.cas(8, 6, 7), 5)
        self.assertEqual(there.read_copy(8, 8), (5).to_bytes(8, sys.byteorder))
        there.write_copy(100, b"copied")
        self.assertEqual(bytes(box[100:106]), b"copied")
        piece = self.mine.alloc(64)
        piece[:] = bytes(range(64))
        there.writev([(200, piece[:10]), (300, piece[10:20])])
        self.assertEqual((bytes(box[200:210]), bytes(box[300:310])), (bytes(range(10)), bytes(range(10, 20))))
        there.readv([(300, piece[:10]), (200, piece[10:20])])
        self.assertEqual(bytes(piece[:20]), bytes(range(10, 20)) + bytes(range(10)))
        there.write_notify(400, piece[:4], 42)
        self.assertEqual(lease.wait_notified(10000), (42, 4))
        there.write_notify(0, None, 43)
        self.assertEqual(lease.wait_notified(10000), (43, 0))
        with self.assertRaises(TimeoutError):
            lease.wait_notified(0)
        audit = lease.audit()
        self.assertEqual(audit.attached, 1)
        self.assertGreaterEqual(audit.ops, 8)

    def test_a_lease_ends_and_says_why(self):
        box = self.theirs.alloc(64)
        lease, there = self.granted(box, max_attaches=2, ttl_ms=60000)
        lease.renew(50000)
        self.assertLessEqual(lease.ttl_ms, 50000)
        narrower = there.delegate(16, 16)
        with self.lessee.attach(narrower) as part:
            self.assertEqual(part.length, 16)
        lease.revoke()
        with self.assertRaises(rdmad.LeaseRevokedError) as caught:
            there.read_copy(0, 8)
        self.assertEqual(caught.exception.outcome, rdmad.Outcome.FAILED_UNTOUCHED)
        self.assertIn(f"lease {lease.id}", str(caught.exception))
        for session, who in ((self.lessee, there), (self.owner, lease)):
            event = session.next_event(10000)
            while event.lease is not who or event.type == rdmad.EventType.LEASE_RENEWED:
                event = session.next_event(10000)
            self.assertEqual((event.type, type(event.error)), (rdmad.EventType.LEASE_ENDED, rdmad.LeaseRevokedError))
        self.assertEqual(there.ended, rdmad.LeaseRevokedError.code)

    def test_many_threads(self):
        """All use one session, pool and lease; then it is closed while they do, and they hear an exception."""
        box = self.theirs.alloc(8 * 4096)
        lease, there = self.granted(box)
        box[:] = b"".join(bytes([i]) * 4096 for i in range(8))
        done, ended, go_on = [], [], threading.Event()

        def work(i):
            try:
                for n in range(100):
                    with self.mine.alloc(4096) as piece:
                        there.read(4096 * i, piece)
                        assert bytes(piece) == bytes([i]) * 4096, "it is another's"
                done.append(i)
                while not go_on.wait(0):
                    there.read_copy(4096 * i, 8)
                    self.mine.alloc(64)
            except rdmad.Error as e:
                ended.append(e)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        while len(done) < 8 and all(t.is_alive() for t in threads):
            time.sleep(0.01)
        self.lessee.close()
        go_on.set()
        for thread in threads:
            thread.join()
        self.assertEqual(len(done), 8, ended)
        for e in ended:
            self.assertIsInstance(e, rdmad.HandleError)

    def test_errors_are_sentences(self):
        with self.assertRaises(rdmad.NoDaemonError) as caught:
            rdmad.Session("/nonexistent")
        self.assertIn("/nonexistent", str(caught.exception))
        with self.assertRaises(rdmad.UriError):
            self.lessee.attach("rdmad://nonsense")
        lease, there = self.granted(self.theirs.alloc(64), rights=rdmad.Right.READ)
        with self.assertRaises(rdmad.RightsError):
            there.write_copy(0, b"x")
        with self.assertRaises(rdmad.RangeError):
            there.read(0, bytearray(8))  # in no pool
        with self.assertRaises(BufferError):
            there.read(0, b"constant")
        with self.assertRaises(TimeoutError):  # the language's own, too
            self.lessee.next_event(0)


class Memory(Pair):
    def test_a_piece_lives_as_long_as_a_view(self):
        for _ in range(3):
            piece = self.mine.alloc(1 << 19)
            array = numpy.frombuffer(piece, "u1")
            part = array[10:]
            piece.release()
            del piece, array
            part[:] = 9
            with self.assertRaises(rdmad.NomemError):  # it is not handed out twice
                held = [self.mine.alloc(1 << 19), self.mine.alloc(1 << 19)]
            held = None
            with self.assertRaises(rdmad.BusyError) as caught:
                self.mine.close()
            self.assertIn("1 of its pieces are still viewed", str(caught.exception))
            del part
        del held
        self.mine.close()
        with self.assertRaises(rdmad.HandleError):
            self.mine.alloc(1)

    def test_release_gives_back_at_once(self):
        for _ in range(100):
            with self.mine.alloc(1 << 19):
                pass
        piece = self.mine.alloc(1 << 20)
        piece.release()
        self.mine.close()

    def test_a_lease_views_its_memory(self):
        lease = self.owner.grant(self.theirs.alloc(1 << 20))
        with self.assertRaises(rdmad.NomemError):
            self.theirs.alloc(64)
        lease.close()
        self.theirs.alloc(1 << 20)

    def test_arrays_outlive_the_session(self):
        array = self.mine.array(1000, "i8")
        array[:] = 5
        box = self.mine.alloc(64)
        lease = self.lessee.grant(box)
        uri = lease.uri
        self.lessee.close()
        self.assertEqual(array.sum(), 5000)
        with self.assertRaises((rdmad.NoLeaseError, rdmad.LeaseRevokedError)):
            self.owner.attach(uri)
        for use in (lambda: self.lessee.pool(1), lambda: self.mine.alloc(1), lease.revoke, self.lessee.fileno):
            with self.assertRaises(rdmad.HandleError):
                use()
        self.assertFalse(self.lessee._core.closed)
        del array, box
        gc.collect()
        self.assertTrue(self.lessee._core.closed)

    def test_what_ends_with_the_session_is_an_exception(self):
        lease, there = self.granted(self.theirs.alloc(64))
        self.lessee.close()
        with self.assertRaises(rdmad.HandleError) as caught:
            there.read_copy(0, 8)
        self.assertIn("has been closed", str(caught.exception))
        there.close()
        self.lessee.close()

    def test_close_waits_for_calls_of_other_threads(self):
        lease, there = self.granted(self.theirs.alloc(64))
        heard = []

        def wait():
            try:
                lease.wait_notified()
            except rdmad.Error as e:
                heard.append(e)

        thread = threading.Thread(target=wait)
        thread.start()
        while not lease._use._users:
            time.sleep(0.001)
        lease.close()
        thread.join()
        self.assertIsInstance(heard[0], rdmad.HandleError)

    def test_locks(self):
        box = self.mine.alloc(4096)
        lease, there = self.granted(self.theirs.alloc(4096))
        with self.mine.lock_write(box[:10]):
            with self.assertRaises(rdmad.BusyError):
                there.read(0, box)
            with self.assertRaises(rdmad.TimeoutError) as caught:
                self.mine.lock_read(box, 0)
            self.assertIn("lock", str(caught.exception))
        there.read(0, box)
        with self.mine.lock_read(box), self.mine.lock_read(box[5:]):
            there.write(0, box)

    def test_a_memfd_is_imported(self):
        fd = os.memfd_create("theirs", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.truncate(fd, 1 << 16)
        with mmap.mmap(fd, 1 << 16) as before:
            before[:5] = b"there"
            pool = self.owner.import_pool(fd)
            self.assertTrue(fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK)
            lease, there = self.granted(pool.memory())
            self.assertEqual(there.read_copy(0, 5), b"there")
            there.write_copy(0, b"wrote")
            self.assertEqual(before[:5], b"wrote")
        os.close(fd)

    def test_a_session_that_is_forgotten_is_closed_with_a_warning(self):
        with self.assertWarns(ResourceWarning):
            rdmad.Session(A)
            gc.collect()


class Messages(Pair):
    def setUp(self):
        super().setUp()
        self.service = self.owner.listen("python")
        ends = []
        caller = threading.Thread(target=lambda: ends.append(self.lessee.connect(self.service.uri)))
        caller.start()
        self.far = self.service.accept(timeout_ms=10000)
        caller.join()
        self.near = ends[0]

    def test_messages(self):
        out, box = self.mine.alloc(100), self.theirs.alloc(100)
        out[:] = bytes(range(100))
        sender = threading.Thread(target=lambda: (self.near.send(out[:10]), self.near.send(out, imm=77)))
        sender.start()
        self.assertEqual(self.far.recv(box), (10, None, False))
        self.assertEqual(bytes(box[:10]), bytes(range(10)))
        self.assertEqual(self.far.recv(box, 10000), (100, 77, False))
        sender.join()
        with self.assertRaises(TimeoutError):
            self.far.recv(box, 20)
        self.assertEqual(self.far.audit().messages_received, 2)
        self.assertEqual((self.far.kind, self.far.peer_uid), (rdmad.ChannelKind.RELIABLE, os.getuid()))

    def test_a_lease_in_a_message(self):
        box = self.theirs.alloc(64)
        box[:4] = b"gift"
        with self.owner.grant(box) as lease:
            sender = threading.Thread(target=lambda: self.far.send_lease(lease))
            sender.start()
            with self.near.recv_lease(10000) as there:
                self.assertEqual(there.read_copy(0, 4), b"gift")
            sender.join()

    def test_its_end(self):
        box = self.theirs.alloc(8)
        self.near.close()
        with self.assertRaises(rdmad.ClosedError):
            self.far.recv(box)
        event = self.owner.next_event(10000)
        while event.type != rdmad.EventType.CHANNEL_CLOSED:
            event = self.owner.next_event(10000)
        self.assertIs(event.channel, self.far)

    def test_who_is_refused_is_told_why(self):
        failed = []

        def connect():
            try:
                self.lessee.connect(self.service.uri)
            except rdmad.RefusedError as e:
                failed.append(str(e))

        caller = threading.Thread(target=connect)
        caller.start()
        who = self.service.next_incoming(10000)
        self.assertEqual((who.uid, who.kind), (os.getuid(), rdmad.ChannelKind.RELIABLE))
        self.service.reject(who, "closed on Sundays")
        caller.join()
        self.assertIn("closed on Sundays", failed[0])

    def test_memory_is_asked_for_and_handed_over(self):
        budget = self.theirs.alloc(8192)
        with self.owner.listen("budget", budget=budget) as service:
            there = self.lessee.request(service.uri, 4096)
            there.write_copy(0, b"filled")
            there.hand_over()
            event = self.owner.next_event(10000)
            while event.type != rdmad.EventType.HANDED_OVER:
                event = self.owner.next_event(10000)
            memory = event.gift.memory
            self.assertEqual(bytes(memory[:6]), b"filled")
            with self.assertRaises(rdmad.BusyError):
                event.gift.give_back()
            memory.release()
            event.gift.give_back()
            self.lessee.request(service.uri, 8192).close()
            with self.assertRaises(rdmad.BudgetError):
                self.lessee.request(service.uri, 12288)

    def test_names(self):
        with self.owner.grant(self.theirs.alloc(64), name="shelf.1"):
            where = self.service.uri.rsplit("/", 1)[0] + "/"
            names = {n.name: n for n in self.lessee.names(where)}
            self.assertEqual(names["shelf.1"].kind, rdmad.NameKind.LEASE)
            self.assertEqual((names["shelf.1"].length, names["python"].kind), (64, rdmad.NameKind.SERVICE))
            watch = self.owner.watch(prefix="shelf.")
            event = self.owner.next_event(10000)
            while event.type != rdmad.EventType.NAME_THERE:
                event = self.owner.next_event(10000)
            self.assertEqual((event.name.name, event.watch), ("shelf.1", watch))
            self.owner.unwatch(watch)


class Signals(unittest.TestCase):
    def test_what_waits_for_ever_hears_a_signal(self):
        program = "import os, rdmad\ns = rdmad.Session(os.environ['A'])\nprint('waits', flush=True)\ns.next_event()\n"
        waits = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        waits.stdout.readline()
        waits.send_signal(signal.SIGINT)
        self.assertIn(b"KeyboardInterrupt", waits.communicate(timeout=60)[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
