# SPDX-License-Identifier: MIT
"""Whether a machine's two processors share a cache now. A virtual machine's host moves them, every few seconds on some:
then a cache line takes five times as long from one to the other, and all that two threads pass to each other with it.
So what is measured begins and ends with them near each other, as long as that comes to be soon."""
import os
import time

LOOK = 0.05      # seconds
FIRST = 2        # seconds in which it is found out what near is
FAR = 3          # times the shortest round trip that was seen
PAUSE = 0.2      # seconds between two looks
PATIENCE = 120   # seconds that a run waits in all
TRIES = 3        # of a measurement


class Processors:
    def __init__(self, round_trip, now=time.monotonic, sleep=time.sleep):
        self.round_trip, self.now, self.sleep = round_trip, now, sleep
        self.shortest = self.longest = None
        self.waited = 0
        self.kept = []  # of each measurement the longer of the two round trips around it

    def look(self):
        took = self.round_trip(LOOK)
        self.shortest = min(took, self.shortest or took)
        self.longest = max(took, self.longest or took)
        return took

    def is_far(self, took):
        return took > FAR * self.shortest

    def first_look(self):
        until = self.now() + FIRST
        while self.now() < until and not (self.shortest and self.is_far(self.longest)):
            self.look()
            self.sleep(PAUSE)

    def wait(self):
        if self.shortest is None:
            self.first_look()
        took = self.look()
        while self.is_far(took) and self.waited < PATIENCE:
            self.waited += PAUSE + LOOK
            self.sleep(PAUSE)
            took = self.look()
        return took

    def steadily(self, measure):
        for _ in range(TRIES):
            before = self.wait()
            value = measure()
            took = max(before, self.look())
            if not self.is_far(took) or self.waited >= PATIENCE:
                break
        self.kept.append(took)
        return value

    def apart(self):
        """How many measurements began or ended with them far from each other, as is known by now."""
        return sum(map(self.is_far, self.kept))

    def notes(self):
        if not self.kept or not self.is_far(self.longest):
            return []
        return [f"the two processors did not always share a cache: a line took {self.shortest:.2f} to {self.longest:.2f} us "
                f"there and back. {self.apart()} of {len(self.kept)} measurements began or ended with them apart"]


def of(line, loaded):
    """None where there are not two processors, or where other programs keep them busy."""
    there = os.access(line.program, os.X_OK) and len(os.sched_getaffinity(0)) == 2
    return Processors(line.round_trip) if there and not loaded else None
