# SPDX-License-Identifier: MIT
"""What one thread ends while others are in calls with it, or with what belongs to it. $A and $B are runtime directories
of two daemons."""
import asyncio
import os
import threading
import time
import unittest
import unittest.mock

import rdmad
from rdmad import _library, _pool, _ring
from rdmad._library import lib

A, B = os.environ["A"], os.environ["B"]
LONG = 40  # seconds: whoever waits longer has failed


class Library:
    """librdmad, of which those calls are others."""

    def __init__(self, **calls):
        self.__dict__.update(calls)

    def __getattr__(self, name):
        return getattr(lib, name)


class Held:
    """A call that stands still until it may go on."""

    def __init__(self, call):
        self.call, self.inside, self.go_on = call, threading.Event(), threading.Event()

    def __call__(self, *arguments):
        self.inside.set()
        self.go_on.wait(LONG)
        return self.call(*arguments)


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
        self.clock = Clock()
        self.instead(_library, "time", self.clock)

    def end(self):
        self.lessee.close()
        self.owner.close()

    def instead(self, of, name, it):
        patch = unittest.mock.patch.object(of, name, it)
        patch.start()
        self.addCleanup(patch.stop)

    def library(self, of, **calls):
        self.instead(of, "lib", Library(**calls))

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
        return thread, came

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


class Pools(Ends):
    def test_a_piece_that_comes_while_its_pool_is_closed_keeps_it(self):
        """Nobody viewed the pool when its close began to wait for who allocates."""
        held, destroyed = Held(lib.rdmad_alloc), []
        self.library(_pool, rdmad_alloc=held, rdmad_pool_destroy=lambda pool: destroyed.append(pool) or 0)
        alloc, pieces = self.begin(self.mine.alloc, 64)
        self.wait(held.inside)
        close, refused = self.begin(self.mine.close)
        self.wait(self.clock.waits)
        held.go_on.set()
        alloc.join()
        close.join()
        self.assertEqual(destroyed, [], "the pool has gone under its piece")
        self.assertIsInstance(refused[0], rdmad.BusyError)
        self.assertIn("1 of its pieces are still viewed", str(refused[0]))
        pieces[0][:] = self.mine.alloc(64)
        pieces.clear()
        self.mine.close()
        self.assertEqual(len(destroyed), 1)

    def test_a_ring_that_comes_while_its_session_is_closed_keeps_it(self):
        held, loop = Held(lib.rdmad_ring_create), asyncio.new_event_loop()
        self.addCleanup(loop.close)
        self.library(_ring, rdmad_ring_create=held)
        make, rings = self.begin(_ring.Ring, self.lessee, 1, loop, 0)
        self.wait(held.inside)
        close, refused = self.begin(self.lessee.close)
        self.wait(self.clock.waits)
        held.go_on.set()
        make.join()
        close.join()
        self.assertIn("an event loop has it", str(refused[0]))
        loop.run_until_complete(rings[0].close())


if __name__ == "__main__":
    unittest.main(verbosity=2)
