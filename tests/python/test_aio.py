# SPDX-License-Identifier: MIT
"""rdmad in asyncio. $A and $B are runtime directories of two daemons, $A_PID the first one's process."""
import asyncio
import functools
import gc
import os
import pathlib
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import rdmad
import rdmad.aio
from rdmad._library import ffi, lib

A, B = os.environ["A"], os.environ["B"]
LONG = 60  # seconds: whoever waits longer has failed
OPS = 1000
SOMETHING = rdmad.Event(rdmad.EventType.LEASE_ENDED, None, "it ended", 1, None, None, None, None, 0, None)


async def begun():
    """What was awaited has been submitted: a turn to prepare it, one to submit it."""
    for _ in range(3):
        await asyncio.sleep(0)


def stop(pid):
    """Returns when each of its threads stands still: the signal is on its way to them for a moment."""
    os.kill(pid, signal.SIGSTOP)
    folder = f"/proc/{pid}/task"
    while any(pathlib.Path(folder, task, "stat").read_text("ascii").rpartition(")")[2].split()[0] != "T"
              for task in os.listdir(folder)):
        time.sleep(0.001)


def started(work, address):
    """A daemon of its own, which serves."""
    daemon = subprocess.Popen([os.environ["rdmad"], "--runtime-dir", work, "--listen", address],
                              stderr=subprocess.DEVNULL)
    while subprocess.run([os.environ["rdmactl"], "-d", work, "status"], capture_output=True).returncode:
        assert daemon.poll() is None, "it has ended"
        time.sleep(0.02)
    return daemon


class Pair(unittest.IsolatedAsyncioTestCase):
    """An owner at A, a lessee at B."""

    async def asyncSetUp(self):
        asyncio.get_running_loop().slow_callback_duration = LONG
        self.owner = await rdmad.aio.Session(runtime_dir=A).open()
        self.lessee = await rdmad.aio.Session(runtime_dir=B).open()
        self.theirs, self.mine = self.owner.pool(1 << 20), self.lessee.pool(1 << 20)

    async def asyncTearDown(self):
        await self.end(self.lessee)
        await self.end(self.owner)

    async def end(self, session):
        await asyncio.wait_for(session.close(), LONG)

    async def granted(self, memory):
        rights = rdmad.Right.READ | rdmad.Right.WRITE | rdmad.Right.ATOMIC
        lease = await self.owner.grant(memory, rights=rights)
        return lease, await self.lessee.attach(lease.uri)

    async def channel(self):
        self.service = await self.owner.listen("aio")
        return await asyncio.gather(self.lessee.connect(self.service.uri), self.service.accept())


class Ops(Pair):
    async def test_a_thousand_in_flight(self):
        box, piece = self.theirs.alloc(OPS * 64), self.mine.alloc(OPS * 64)
        box[:] = os.urandom(OPS * 64)
        lease, there = await self.granted(box)
        most = 0
        for _ in range(3):
            piece[:] = bytes(OPS * 64)
            reads = [asyncio.ensure_future(there.read(i * 64, piece[i * 64:i * 64 + 64])) for i in range(OPS)]
            await asyncio.sleep(0)  # they begin
            most = max(most, self.lessee.in_flight)
            await asyncio.gather(*reads)
            self.assertEqual(piece, box)
        self.assertEqual((most, self.lessee.in_flight), (OPS, 0))
        print(f"{most} ops were in flight at one time", end=" ... ")

    async def test_more_than_there_are_entries(self):
        box = self.theirs.alloc(8)
        box[:] = bytes(8)
        lease, _ = await self.granted(box)
        async with rdmad.aio.Session(entries=3, runtime_dir=B) as few:
            there = await few.attach(lease.uri)
            counts = [asyncio.ensure_future(there.fetch_add(0, 1)) for _ in range(200)]
            await asyncio.sleep(0)
            self.assertEqual(few.in_flight, 3)
            counts[100].cancel()
            counts[2].cancel()
            seen = await asyncio.gather(*counts, return_exceptions=True)
            self.assertIsInstance(seen[100], asyncio.CancelledError)
            old = sorted(s for s in seen if isinstance(s, int))
            self.assertIn(len(old), (198, 199))
            self.assertEqual(len(set(old)), len(old))
            self.assertEqual(await there.cas(0, 0, 0), int.from_bytes(box, "little"))

    async def test_all_kinds(self):
        box, piece = self.theirs.alloc(4096), self.mine.alloc(4096)
        box[:] = bytes(4096)
        piece[:5] = b"hello"
        lease, there = await self.granted(box)
        await there.write(10, piece[:5])
        self.assertEqual(bytes(box[10:15]), b"hello")
        await there.read(0, piece)
        self.assertEqual(piece, box)
        notified = asyncio.ensure_future(lease.wait_notified())
        await there.write_notify(100, piece[10:15], 9)
        self.assertEqual(await notified, (9, 5))
        self.assertEqual((await there.fetch_add(200, 3), await there.cas(200, 3, 4)), (0, 3))

    async def test_errors(self):
        lease, there = await self.granted(self.theirs.alloc(64))
        with self.assertRaises(rdmad.RangeError) as caught:
            await there.read(32, self.mine.alloc(64))
        self.assertEqual(caught.exception.outcome, rdmad.Outcome.FAILED_UNTOUCHED)
        self.assertIn("lease", str(caught.exception))
        with self.assertRaises(rdmad.RangeError):
            await there.read(0, bytearray(8))
        self.assertEqual(self.lessee.in_flight, 0)
        await lease.revoke()
        with self.assertRaises(rdmad.LeaseRevokedError):
            await there.read(0, self.mine.alloc(64))
        event = await asyncio.wait_for(self.lessee.next_event(), LONG)
        self.assertEqual((event.type, event.lease), (rdmad.EventType.LEASE_ENDED, there.blocking))

    async def test_ops_of_what_has_ended_take_no_entries(self):
        lease, _ = await self.granted(self.theirs.alloc(64))
        few = await rdmad.aio.Session(entries=3, runtime_dir=B).open()
        there, ended = await few.attach(lease.uri), await few.attach(lease.uri)
        piece = few.pool(4096).alloc(64)
        await ended.close()
        for _ in range(30):
            with self.assertRaises(rdmad.HandleError) as caught:
                await ended.read(0, piece)
            self.assertIn("lease", str(caught.exception))
        await there.read(0, piece)
        self.assertEqual((few.in_flight, few._ring._cancels_in_flight), (0, 0), "its close would never end")
        await self.end(few)

    async def test_an_op_views_its_memory(self):
        near, far = await self.channel()
        small = self.lessee.pool(4096)
        waits = asyncio.ensure_future(near.recv(small.alloc(4096)))
        await begun()
        with self.assertRaises(rdmad.NomemError):
            small.alloc(64)
        waits.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await waits
        del waits
        gc.collect()
        small.alloc(4096)

    async def test_memory_in_a_cycle_is_collected(self):
        """With what names it in an op that failed, whose traceback is in the cycle."""
        lease, there = await self.granted(self.theirs.alloc(64))
        for _ in range(20):
            piece = self.mine.alloc(1 << 16)
            try:
                await there.read(0, piece)
            except rdmad.RangeError as e:
                cycle = [piece, e]
                cycle.append(cycle)
            del piece, cycle
            gc.collect()
        self.mine.alloc(1 << 20)


class Cancels(Pair):
    async def test_a_canceled_task_returns_when_its_buffer_is_quiet(self):
        """The owner's daemon stands still while a read of it is canceled; then it goes on."""
        box, piece = self.theirs.alloc(1 << 16), self.mine.alloc(1 << 16)
        box[:], piece[:] = b"\xff" * len(box), bytes(len(piece))
        lease, there = await self.granted(box)
        await there.read(0, piece[:1])
        stop(int(os.environ["A_PID"]))
        try:
            read = asyncio.ensure_future(there.read(0, piece))
            await begun()
            self.assertEqual(self.lessee.in_flight, 1)
            read.cancel()
            for _ in range(5):  # once more while it waits for the buffer
                await asyncio.sleep(0)
                read.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await asyncio.wait_for(read, LONG)
            self.assertEqual(self.lessee.in_flight, 0)
            with self.mine.lock_write(piece, 0):  # no op holds it
                left = bytes(piece)
        finally:
            os.kill(int(os.environ["A_PID"]), signal.SIGCONT)
        other = self.mine.alloc(8)
        again = await self.lessee.attach(lease.uri)
        await again.read(0, other)  # what was asked of that daemon before has been answered, too
        self.assertEqual(bytes(piece), left)

    async def test_a_message_for_a_canceled_task_is_not_lost(self):
        near, far = await self.channel()
        box, out = self.theirs.alloc(64), self.mine.alloc(64)
        for i in range(20):
            out[:4] = i.to_bytes(4, "little")
            gone = asyncio.ensure_future(far.recv(box))
            await begun()
            near.blocking.send(out[:4], imm=i)  # it is in that receive, of which this loop has not heard
            gone.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await gone
            box[:4] = bytes(4)
            message = await asyncio.wait_for(far.recv(box), LONG)
            self.assertEqual((message.length, message.imm, bytes(box[:4])), (4, i, i.to_bytes(4, "little")))

    async def test_an_event_is_for_who_still_waits(self):
        """Of two that wait the first is canceled, when it was just woken, or just before the event."""
        for woken in (True, False):
            first, second = (asyncio.ensure_future(self.owner.next_event()) for _ in range(2))
            await begun()
            if woken:
                self.owner._tell(SOMETHING)
                first.cancel()
            else:
                first.cancel()
                self.owner._tell(SOMETHING)
            self.assertIs(await asyncio.wait_for(second, LONG), SOMETHING)
            with self.assertRaises(asyncio.CancelledError):
                await first

    async def test_an_event_for_a_canceled_task_is_not_lost(self):
        only = asyncio.ensure_future(self.owner.next_event())
        await begun()
        self.owner._tell(SOMETHING)
        only.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await only
        self.assertIs(await asyncio.wait_for(self.owner.next_event(), LONG), SOMETHING)

    async def test_time_is_over(self):
        near, far = await self.channel()
        box, out = self.theirs.alloc(64), self.mine.alloc(64)
        for _ in range(10):
            with self.assertRaises(TimeoutError):
                await asyncio.wait_for(far.recv(box), 0.001)
        self.assertEqual(self.owner.in_flight, 0)
        came, _ = await asyncio.gather(far.recv(box), near.send(out))
        self.assertEqual(came.length, 64)


class Loop(Pair):
    async def test_messages(self):
        near, far = await self.channel()
        out, back = self.mine.alloc(64), self.theirs.alloc(64)
        for i in range(50):
            out[0] = i
            message, _ = await asyncio.gather(far.recv(back), near.send(out[:i + 1], imm=i))
            self.assertEqual((message.length, message.imm, back[0]), (i + 1, i, i))
        lease, _ = await self.granted(self.theirs.alloc(128))
        there, _ = await asyncio.gather(near.recv_lease(), far.send_lease(lease))
        self.assertEqual(there.length, 128)
        with self.assertRaises(rdmad.ProtocolError):
            await asyncio.gather(far.recv_lease(), near.send(out))
        waits = asyncio.ensure_future(far.recv(back))
        await near.close()
        with self.assertRaises(rdmad.ClosedError):
            await asyncio.wait_for(waits, LONG)

    async def test_others_run_meanwhile(self):
        """A task that waits for the daemon, or for a message, holds nobody up, and burns nothing."""
        service = await self.owner.listen("nobody")
        waits = [asyncio.ensure_future(service.accept()), asyncio.ensure_future(self.owner.next_event())]
        turns, before = 0, time.process_time()
        began = time.monotonic()
        while time.monotonic() < began + 0.3 or turns < 2:
            self.assertLess(time.monotonic(), began + LONG, "it has no turn")
            turns += 1
            await asyncio.sleep(0.01)
        self.assertLess(time.process_time() - before, 0.25)
        for task in waits:
            task.cancel()
        await asyncio.wait(waits)

    async def test_a_late_wakeup_does_not_keep_the_loop_awake(self):
        """A completion was taken before its wakeup came, and nothing is in flight any more."""
        ring = self.owner._ring
        sqe, cqe = lib.rdmad_ring_reserve(ring._ring), ffi.new("const struct rdmad_cqe **")
        self.assertEqual(lib.rdmad_prep_nop(ring._ring, sqe, 1), 0)
        self.assertEqual(lib.rdmad_ring_arm(ring._ring), 0)
        lib.rdmad_ring_submit(ring._ring)
        session = self.owner.blocking.fileno()
        self.assertTrue(select.select([ring._fd], [], [], LONG)[0])
        self.assertEqual(lib.rdmad_ring_peek(ring._ring, cqe), 0)
        lib.rdmad_ring_seen(ring._ring, cqe[0])
        self.assertEqual(select.select([session], [], [], 0)[0], [session])
        self.owner._readable()
        self.assertEqual(select.select([session], [], [], 0)[0], [])

    async def test_a_session_that_is_kicked(self):
        kicked = await rdmad.aio.Session(runtime_dir=A, resume=False).open()
        service = await kicked.listen("kicked")
        near, far = await asyncio.gather(self.lessee.connect(service.uri), service.accept())
        waits = asyncio.ensure_future(far.recv(kicked.pool(4096).alloc(64)))
        event = asyncio.ensure_future(kicked.next_event())
        await asyncio.sleep(0)
        await asyncio.to_thread(functools.partial(
            subprocess.run, [os.environ["rdmactl"], "-d", A, "session", "kick", str(kicked.info.id)], check=True,
            capture_output=True))
        self.assertEqual((await asyncio.wait_for(event, LONG)).type, rdmad.EventType.SESSION_LOST)
        with self.assertRaises((rdmad.DaemonLostError, rdmad.CanceledError)):
            await asyncio.wait_for(waits, LONG)
        with self.assertRaises(rdmad.DaemonLostError):
            await asyncio.wait_for(kicked.next_event(), LONG)
        await asyncio.wait_for(kicked.close(), LONG)

    async def test_a_session_outlives_its_daemon(self):
        # kept, bound and not listening: nobody else gets the port while the daemon is away
        with tempfile.TemporaryDirectory() as work, socket.socket() as kept:
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            kept.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{kept.getsockname()[1]}"

            daemon = started(work, address)
            async with rdmad.aio.Session(runtime_dir=work) as owner, rdmad.aio.Session(runtime_dir=work) as lessee:
                box, piece = owner.pool(4096).alloc(64), lessee.pool(4096).alloc(64)
                box[:] = b"x" * 64
                lease = await owner.grant(box)
                there = await lessee.attach(lease.uri)
                await there.read(0, piece)
                daemon.kill()
                daemon.wait()
                reads = asyncio.gather(*(there.read(0, piece[i * 8:i * 8 + 8]) for i in range(4)), return_exceptions=True)
                daemon = await asyncio.to_thread(started, work, address)
                await asyncio.wait_for(reads, LONG)
                piece[:] = bytes(64)
                while piece != box:  # the owner may be back later than the lessee
                    try:
                        await asyncio.wait_for(there.read(0, piece), LONG)
                    except rdmad.NoLeaseError:
                        await asyncio.sleep(0.01)
            daemon.terminate()
            daemon.wait()

    async def test_a_daemon_that_hangs(self):
        """What waits for an op finds out, and so does what waits for an event or a connection alone."""
        with tempfile.TemporaryDirectory() as work:
            daemon = await asyncio.to_thread(started, work, "127.0.0.1:0")
            options = {"runtime_dir": work, "call_timeout_ms": 1500}
            async with rdmad.aio.Session(**options) as reads, rdmad.aio.Session(**options) as hears, \
                    rdmad.aio.Session(**options) as listens:
                box, piece = (reads.pool(4096).alloc(64) for _ in range(2))
                there = await reads.attach((await reads.grant(box)).uri)
                await there.read(0, piece)
                service = await listens.listen("hung")
                stop(daemon.pid)
                read = asyncio.ensure_future(there.read(0, piece))
                event, accept = asyncio.ensure_future(hears.next_event()), asyncio.ensure_future(service.accept())
                try:
                    with self.assertRaises(rdmad.DaemonLostError) as caught:
                        await asyncio.wait_for(asyncio.shield(read), LONG)
                    self.assertIn("said nothing for 1500 ms", str(caught.exception))
                    self.assertEqual((await asyncio.wait_for(event, LONG)).type, rdmad.EventType.SESSION_LOST)
                    with self.assertRaises(rdmad.DaemonLostError):
                        await asyncio.wait_for(accept, LONG)
                finally:
                    os.kill(daemon.pid, signal.SIGCONT)
            daemon.terminate()
            self.assertEqual(daemon.wait(), 0)

    async def test_close_cancels_what_is_in_flight(self):
        near, far = await self.channel()
        box = self.theirs.alloc(64 * 30)
        waits = [asyncio.ensure_future(far.recv(box[i * 64:i * 64 + 64])) for i in range(30)]
        await asyncio.sleep(0)
        await asyncio.wait_for(self.owner.close(), LONG)
        for end in await asyncio.gather(*waits, return_exceptions=True):
            self.assertIsInstance(end, rdmad.CanceledError)
        with self.assertRaises(rdmad.HandleError):
            await far.recv(box)

    async def test_two_tasks_close_it_at_once(self):
        near, far = await self.channel()
        for close in (self.owner.close, self.lessee.close):
            end = far if close == self.owner.close else near
            memory = self.theirs if end is far else self.mine
            waits = asyncio.ensure_future(end.recv(memory.alloc(64)))
            await begun()
            closes = [asyncio.ensure_future(close()) for _ in range(4)]
            await asyncio.sleep(0)
            closes[0].cancel()  # the others bring it to its end
            ends = await asyncio.wait_for(asyncio.gather(*closes, return_exceptions=True), LONG)
            self.assertIsInstance(ends[0], asyncio.CancelledError)
            self.assertEqual(ends[1:], [None] * 3)
            with self.assertRaises((rdmad.CanceledError, rdmad.ClosedError)):
                await waits

    async def test_it_is_not_closed_behind_the_loops_back(self):
        lease, there = await self.granted(self.theirs.alloc(64))
        read = asyncio.ensure_future(there.read(0, self.mine.alloc(64)))
        with self.assertRaises(rdmad.BusyError) as caught:
            self.lessee.blocking.close()
        self.assertIn("close its rdmad.aio.Session", str(caught.exception))
        await read
        await self.lessee.close()
        with self.assertRaises(rdmad.HandleError):
            await there.read(0, bytearray(8))
        with self.assertRaises(rdmad.HandleError):
            await self.lessee.attach(lease.uri)

    async def test_a_session_that_is_forgotten(self):
        with self.assertWarns(ResourceWarning):
            s = await rdmad.aio.Session(runtime_dir=A).open()
            there = await s.attach((await self.owner.grant(self.theirs.alloc(64))).uri)
            await there.read(0, s.pool(4096).alloc(64))
            s._ring._unwatch()  # as the loop does when it is readable once more
            del s, there
            gc.collect()

    def test_one_loop_a_thread(self):
        """Two loops in two threads, each with a session of its own."""
        failed = []

        async def many():
            asyncio.get_running_loop().slow_callback_duration = LONG
            async with rdmad.aio.Session(runtime_dir=A) as s:
                piece = s.pool(1 << 16).alloc(64 * 50)
                there = await s.attach((await s.grant(piece)).uri)
                other = s.pool(1 << 16).alloc(64 * 50)
                for _ in range(20):
                    await asyncio.gather(*(there.read(i * 64, other[i * 64:i * 64 + 64]) for i in range(50)))

        def run():
            try:
                asyncio.run(many())
            except BaseException as e:
                failed.append(e)

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
