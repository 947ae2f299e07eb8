#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""replay.py record PORT FILE: listens on any port of loopback, prints it, passes one connection on to PORT and
leaves what the dialler has sent in FILE.
replay.py play PORT FILE COUNT: says it to PORT again, COUNT times, until the other end closes, and prints each address that it was said from.
"""
import selectors
import socket
import sys


def record(port, path):
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    near, _ = listener.accept()
    far = socket.create_connection(("127.0.0.1", port))
    other = {near: far, far: near}
    selector = selectors.DefaultSelector()
    for s in other:
        selector.register(s, selectors.EVENT_READ)
    with open(path, "wb") as out:
        while True:
            for key, _ in selector.select():
                data = key.fileobj.recv(65536)
                if not data:
                    return
                if key.fileobj is near:
                    out.write(data)
                    out.flush()
                other[key.fileobj].sendall(data)


def play(port, path, count):
    with open(path, "rb") as f:
        said = f.read()
    longest = 0
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", port)) as s:
            print("from %s:%d" % s.getsockname())
            s.settimeout(60)
            got = 0
            try:
                s.sendall(said)
                while data := s.recv(65536):
                    got += len(data)
            except ConnectionError:
                pass
            longest = max(longest, got)
    print(f"{count} times {len(said)} bytes; at most {longest} came back, and each was closed")


if __name__ == "__main__":
    if sys.argv[1] == "record":
        record(int(sys.argv[2]), sys.argv[3])
    else:
        play(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
