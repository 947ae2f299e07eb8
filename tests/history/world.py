# SPDX-License-Identifier: MIT
"""world.py: histories that can have been, for the checker's own test: of a store that is right.

Programs do ops at random on a scripted clock. Each op has its effect at some moment between its
begin and its end; of some the outcome stays unknown, and those have theirs at any moment after their
begin, or never. What the ops see is what the store had at that moment.
"""
import heapq
import itertools
import random

from history import (ADD, BLOCK_READ, BLOCK_WRITE, CAS, COUNT, DONE, GET, GRANT, LEASE_END, LEASE_LOOK, LEASE_WRITE,
                     LOOK, NEVER, NOT_DONE, PARTLY, PUT, RECEIVE, SEND, TORN, UNKNOWN, WHOLE, Op)

MS = 1000000


class World:
    """A clock with what is to happen, and the books of the programs."""

    def __init__(self, seed, unknown=0.05, not_done=0.05):
        self.random = random.Random(seed)
        self.now, self.queue, self.order = 0, [], itertools.count()
        self.ops, self.numbers = [], {}
        self.unknown, self.not_done = unknown, not_done

    def at(self, when, call):
        heapq.heappush(self.queue, (when, next(self.order), call))

    def after(self, most, call):
        self.at(self.now + self.random.randint(1, most), call)

    def run(self):
        while self.queue:
            self.now, _, call = heapq.heappop(self.queue)
            call()
        return self.ops

    def begin(self, client, kind, object, arg=0, arg2=0):
        number = self.numbers.get(client, 0)
        self.numbers[client] = number + 1
        op = Op(client, number, kind, UNKNOWN, 0, object, arg, arg2, self.now, 0, 0, 0)
        self.ops.append(op)
        return op

    def end(self, op, outcome, result=0, result2=0):
        op.outcome, op.result, op.result2 = outcome, result, result2
        op.over = self.now if op.known else NEVER

    def draw_outcome(self):
        x = self.random.random()
        return UNKNOWN if x < self.unknown else NOT_DONE if x < self.unknown + self.not_done else DONE

    def do(self, op, effect, then):
        """effect() is the op's result; then() is called when its program goes on."""
        outcome = self.draw_outcome()

        def happen():
            if outcome == DONE:
                result = effect()
                self.after(50, lambda: (self.end(op, DONE, result), then()))
            elif self.random.random() < 0.5 and outcome == UNKNOWN:
                effect()
        if outcome == DONE:
            self.after(100, happen)
            return
        self.after(2000, happen)
        self.after(100, lambda: (self.end(op, outcome), then()))


def program(world, client, count, one):
    """one(client, then) begins an op."""
    def step(left):
        if left:
            world.after(60, lambda: one(client, lambda: step(left - 1)))
    step(count)


def counter(seed, clients=4, count=40, **chances):
    world, value = World(seed, **chances), [0]

    def add(client, then):
        op = world.begin(client, ADD, 0, world.random.randint(1, 2**40))

        def effect():
            value[0] += op.arg
            return value[0] - op.arg
        world.do(op, effect, then)
    for client in range(clients):
        program(world, client, count, add)
    ops = world.run()
    world.now += 1
    final = world.begin(clients, COUNT, 0)
    world.now += 1
    world.end(final, DONE, value[0])
    return ops


def words(seed, write, read, clients=4, count=30, **chances):
    """A register (write is CAS) or a key (write is PUT)."""
    world, word, values = World(seed, **chances), [0], itertools.count(1)
    seen = [0] * clients

    def one(client, then):
        if world.random.random() < 0.4:
            op = world.begin(client, read, 0)

            def effect():
                seen[client] = word[0]
                return word[0]
        else:
            value = 0 if write == PUT and world.random.random() < 0.1 else next(values)
            op = world.begin(client, write, 0, *((seen[client], value) if write == CAS else (value, )))

            def effect():
                was = word[0]
                if write == PUT or was == op.arg:
                    word[0] = value
                seen[client] = word[0]
                return was
        world.do(op, effect, then)
    for client in range(clients):
        program(world, client, count, one)
    return world.run()


def register(seed, **more):
    return words(seed, CAS, LOOK, **more)


def key(seed, **more):
    return words(seed, PUT, GET, **more)


def block(seed, readers=3, count=40):
    """Two halves, which are placed and fetched one after the other, in any order."""
    world, halves, version = World(seed), [0, 0], itertools.count(1)

    def place(half, value):
        halves[half] = value

    def write(client, then):
        op = world.begin(client, BLOCK_WRITE, 0, next(version))
        outcome = world.draw_outcome()
        if outcome == UNKNOWN and world.random.random() < 0.5:
            outcome = PARTLY
        first, start = world.random.randint(0, 1), world.now
        if outcome != NOT_DONE:
            world.at(start + world.random.randint(1, 50), lambda: place(first, op.arg))
        if outcome == DONE or (outcome == UNKNOWN and world.random.random() < 0.5):
            world.at(start + world.random.randint(51, 100), lambda: place(1 - first, op.arg))
        world.at(start + 101, lambda: (world.end(op, outcome), then()))

    def read(client, then):
        op, found, start = world.begin(client, BLOCK_READ, 0), [0, 0], world.now

        def fetch(half):
            found[half] = halves[half]
        first = world.random.randint(0, 1)
        world.at(start + world.random.randint(1, 30), lambda: fetch(first))
        world.at(start + world.random.randint(31, 60), lambda: fetch(1 - first))
        world.at(start + 61, lambda: (
            world.end(op, DONE, *((found[0], WHOLE) if found[0] == found[1] else (0, TORN))), then()))
    program(world, 0, count, write)
    for client in range(1, 1 + readers):
        program(world, client, count, read)
    return world.run()


def channel(seed, count=60):
    """It ends in a loss, of which each end knows what it knows: the last message may have come or not."""
    world, number = World(seed), itertools.count(1)

    def send(_, then):
        n = next(number)
        op, come, lost = world.begin(0, SEND, 7, n), world.begin(1, RECEIVE, 7), n == count
        if not lost:
            world.after(50, lambda: (world.end(come, DONE, n), world.after(20, lambda: (world.end(op, DONE), then()))))
            return
        fate = world.random.choice(((DONE, UNKNOWN), (UNKNOWN, UNKNOWN), (UNKNOWN, DONE), (NOT_DONE, NOT_DONE)))
        world.after(50, lambda: (world.end(op, fate[0]), world.end(come, fate[1], n if fate[1] == DONE else 0)))
    program(world, 0, count, send)
    return world.run()


def lease(seed, count=40):
    """Writers go on when it has ended, and are refused."""
    world, alive, values = World(seed, not_done=0), [True], itertools.count(1)
    owner, word = 9, 0xabc
    grant = world.begin(owner, GRANT, 5, 100)
    world.now += 10
    world.end(grant, DONE)
    end = world.begin(owner, LEASE_END, 5)

    def write(client, then):
        op, may = world.begin(client, LEASE_WRITE, 5, next(values)), alive[0]
        outcome = world.draw_outcome() if may else NOT_DONE
        world.after(40, lambda: (world.end(op, outcome if alive[0] or outcome == NOT_DONE else UNKNOWN), then()))

    def over():
        alive[0] = False
        world.end(end, DONE)
        world.after(200, lambda: world.end(world.begin(owner, LEASE_LOOK, 5, word), DONE, word))
    for client in range(2):
        program(world, client, count, write)
    world.at(1500, over)
    return world.run()


WORLDS = {"counter": counter, "register": register, "key": key, "block": block, "channel": channel, "lease": lease}
