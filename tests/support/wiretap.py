#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""wiretap.py tap PID HOST FILE: on HOST, passes connections on to all ports of loopback on which process PID
listens, and leaves every byte, both ways, in FILE. Prints a line when it is ready.
wiretap.py meddle PID HOST FILE SEED: as tap, but some of what passes is flipped, dropped, repeated, held up or cut
off; FILE has a line for each: the port and what was done. Each comes once at each port, then each again.
wiretap.py sniff INTERFACE FILE: leaves every frame that comes or goes by INTERFACE in FILE; prints a line, too.
wiretap.py heard FILE PAYLOAD: exit code 0 if any of many pieces of PAYLOAD is in FILE, 3 if none is.
"""
import os
import random
import selectors
import socket
import sys
import time

PIECE = 24  # bytes: never there by chance


def ports_of(pid):
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            name = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if name.startswith("socket:["):
            inodes.add(name[8:-1])
    with open("/proc/net/tcp", encoding="ascii") as f:
        rows = [line.split() for line in f.readlines()[1:]]
    return [int(r[1].split(":")[1], 16) for r in rows if r[3] == "0A" and r[9] in inodes]


class Tap:
    def __init__(self, path):
        self.out = open(path, "wb")
        self.selector, self.other, self.port = selectors.DefaultSelector(), {}, {}

    def listen(self, host, port):
        listener = socket.create_server((host, port))
        self.selector.register(listener, selectors.EVENT_READ, port)

    def accept(self, listener, port):
        near, _ = listener.accept()
        try:
            far = socket.create_connection(("127.0.0.1", port))
        except OSError:  # it has ended
            near.close()
            return
        for a, b in ((near, far), (far, near)):
            self.port[a] = port
            a.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.other[a] = b
            self.selector.register(a, selectors.EVENT_READ)

    def end(self, s):
        for each in (s, self.other[s]):
            if each in self.other:
                self.selector.unregister(each)
                each.close()
        far = self.other.pop(s)
        self.other.pop(far, None)
        self.port.pop(s), self.port.pop(far, None)

    def passes(self, s, data):
        self.out.write(data)
        self.out.flush()
        return data

    def move(self, s):
        try:
            data = s.recv(1 << 16)
            if data:
                self.other[s].sendall(self.passes(s, data))
                return
        except OSError:
            pass
        self.end(s)

    def run(self):
        while True:
            for key, _ in self.selector.select():
                if key.data is not None:
                    self.accept(key.fileobj, key.data)
                elif key.fileobj in self.other:
                    self.move(key.fileobj)


class Meddler(Tap):
    RATE = 0.03  # of what is received at once
    HOLD_UP = 0.2  # seconds, at most

    def __init__(self, path, seed):
        super().__init__(path)
        self.random, self.left = random.Random(seed), {}

    def passes(self, s, data):
        if self.random.random() > self.RATE:
            return data
        what = self.next_deed(self.port[s])
        self.out.write(f"{self.port[s]} {what.__name__}\n".encode())
        self.out.flush()
        at = self.random.randrange(len(data))
        return what(data, at, min(len(data), at + 1 + self.random.randrange(64)))

    def next_deed(self, port):
        """At each port each of them once, in any order, then all again."""
        left = self.left.setdefault(port, [])
        if not left:
            left += [self.flip, self.drop, self.repeat, self.hold_up, self.cut]
            self.random.shuffle(left)
        return left.pop()

    def flip(self, data, at, _):
        return data[:at] + bytes([data[at] ^ 1 << self.random.randrange(8)]) + data[at + 1:]

    def drop(self, data, at, to):
        return data[:at] + data[to:]

    def repeat(self, data, at, to):
        return data[:to] + data[at:]

    def hold_up(self, data, _, __):
        time.sleep(self.random.random() * self.HOLD_UP)
        return data

    def cut(self, data, at, _):
        raise OSError("cut off")


ETH_P_ALL = 3
SO_RCVBUFFORCE = 33


def sniff(interface, path):
    with open(path, "wb", buffering=0) as out, \
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as s:
        s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)  # it may not get the processor for a while
        s.bind((interface, ETH_P_ALL))
        print("ready", flush=True)
        while True:
            out.write(s.recv(1 << 17))


def heard(record, payload):
    with open(record, "rb") as f:
        seen = f.read()
    with open(payload, "rb") as f:
        said = f.read()
    if len(seen) < len(said):
        sys.exit(f"{record} has {len(seen)} bytes, the payload {len(said)}: it did not pass here")
    step = max(1, len(said) // 200)
    return any(said[at:at + PIECE] in seen for at in range(0, len(said) - PIECE, step))


def main():
    if sys.argv[1] == "heard":
        sys.exit(0 if heard(sys.argv[2], sys.argv[3]) else 3)
    if sys.argv[1] == "sniff":
        sniff(sys.argv[2], sys.argv[3])
    tap = Meddler(sys.argv[4], sys.argv[5]) if sys.argv[1] == "meddle" else Tap(sys.argv[4])
    ports = ports_of(int(sys.argv[2]))
    if len(ports) < 2:
        sys.exit(f"process {sys.argv[2]} listens on {len(ports)} ports")
    for port in ports:
        tap.listen(sys.argv[3], port)
    print("ready", flush=True)
    tap.run()


if __name__ == "__main__":
    main()
