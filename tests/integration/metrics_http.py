#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# metrics_http.py HOST:PORT PATH: GET /metrics at both of one daemon, as a scraper and as somebody who is not one.
import os
import socket
import sys
import time

host, port = sys.argv[1].rsplit(":", 1)
PLACES = 8     # METRICS_CONNS
SECONDS = 5    # METRICS_SECONDS
PATIENCE = int(os.environ.get("RDMAD_TEST_PATIENCE", "1"))


def dial(unix=False):
    s = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
    s.settimeout(20 * SECONDS * PATIENCE)
    s.connect(sys.argv[2] if unix else (host, int(port)))
    return s


def hear(s):
    """All until it ends."""
    data = b""
    try:
        while more := s.recv(65536):
            data += more
    except ConnectionError:
        pass
    return data


def ask(request, unix=False):
    s = dial(unix)
    try:
        s.sendall(request)
    except ConnectionError:
        pass
    return hear(s)


def expect(condition, words):
    if not condition:
        sys.exit("FAILED: " + words)


def whole(answer, words):
    head, _, body = answer.partition(b"\r\n\r\n")
    expect(head.startswith(b"HTTP/1.1 200 "), words + ": " + repr(answer[:200]))
    length = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length")]
    expect(length == [len(body)], words + ": %s bytes said, %d came" % (length, len(body)))
    return head, body


GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"
for unix in False, True:
    where = "unix" if unix else "tcp"
    head, body = whole(ask(GET + b"\r\n", unix), where)
    expect(b"version=0.0.4" in head and not body.endswith(b"# EOF\n"), where + ": not the older format")
    head, body = whole(ask(GET + b"Accept: application/openmetrics-text\r\n\r\n", unix), where)
    expect(b"openmetrics-text; version=1.0.0" in head and body.endswith(b"# EOF\n"), where + ": no OpenMetrics")

for request, code in (b"GET /other HTTP/1.1\r\n\r\n", 404), (b"PUT /metrics HTTP/1.1\r\n\r\n", 405), \
        (b"\0\1\2\r\n\r\n", 400), (b"a" * 5000, 431), (b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 5000, 431):
    answer = ask(request)
    # What was not read when it closed may cost the answer its way.
    expect(answer.startswith(b"HTTP/1.1 %d " % code) or (code == 431 and not answer), "%d: %r" % (code, answer[:80]))
print("  requests are judged")

# A request in pieces is one request.
s = dial()
for byte in GET + b"\r\n":
    s.send(bytes([byte]))
whole(hear(s), "in pieces")

# All answers of a second are one text.
first = [whole(ask(GET + b"\r\n"), "again")[1] for _ in range(20)]
expect(len(set(first)) < len(first), "each of 20 scrapes was made anew")



def beside_a_crowd():
    """Whether the socket answers while all places at the port are taken: of these none has been closed yet."""
    crowd = [dial() for _ in range(PLACES)]
    time.sleep(0.1)
    whole(ask(GET + b"\r\n", unix=True), "the socket, beside a crowd at the port")
    try:
        crowd[0].settimeout(0)
        return crowd[0].recv(1) != b""
    except BlockingIOError:
        return True
    finally:
        for one in crowd:
            one.close()


# On a machine that is busy the crowd's time may be over first; not five times.
expect(any(beside_a_crowd() for _ in range(5)), "the socket answers only when the port has room")
print("  the socket has places of its own")

# Silent ones, and one that dribbles, have their places for a time; who comes meanwhile waits.
began = time.monotonic()
silent = [dial() for _ in range(PLACES - 1)]
dribbler = dial()
last = dial()
last.sendall(GET + b"\r\n")
last.settimeout(1)
try:
    expect(not last.recv(1), "a ninth connection was served beside eight")
    sys.exit("FAILED: a ninth connection was turned away")
except TimeoutError:
    pass
dribbler.settimeout(0.2)
ended = None
while ended is None and time.monotonic() - began < 20 * SECONDS * PATIENCE:
    try:
        dribbler.send(b"G")
        if dribbler.recv(1) == b"":
            ended = time.monotonic() - began
    except TimeoutError:
        pass
    except ConnectionError:
        ended = time.monotonic() - began
expect(ended is not None, "a byte at a time keeps a connection for ever")
expect(ended >= SECONDS - 0.5, "it ended after %.1f s already" % ended)
last.settimeout(20 * SECONDS * PATIENCE)
whole(hear(last), "the ninth, when there was room")
for s in silent:
    expect(hear(s) == b"", "a silent connection was told something")
print("  eight at a time, each for five seconds")

# Who asks and does not read has its place no longer.
lazy = dial()
lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
lazy.sendall(GET + b"\r\n")
time.sleep(0.1)
whole(ask(GET + b"\r\n"), "beside one that does not read")
