#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""strip.py DEED PORT: listens on any port of loopback, prints it, and passes connections on to PORT, but for what
DEED does to each one's handshake so that TLS, or a part of it, is not spoken. Prints a line when a deed was done.
strip.py data DEED PORT PID HOST: the same on HOST, for all ports of loopback on which process PID listens; PORT, that of
control connections, is left alone. Prints a line when it is ready.
strip.py knock DEED PORT: comes to PORT itself, as a dialler whose handshake lacks something; ends when it is closed.
"""
import selectors
import socket
import ssl
import struct
import sys
import threading

from wiretap import ports_of

TOKEN = 24  # bytes of a data connection's dialler in front of its handshake
CLEAR_HELLO = b"GET / HTTP/1.1\r\nHost: rdmad\r\n\r\n"
HEAD = 5  # of a record
HANDSHAKE, SEALED, ALERT = 22, 23, 21
SUPPORTED_VERSIONS, ALPN = 0x2b, 0x10
PROTOCOL = "rdmad-peer/1"


class Extensions:
    """Those of a ClientHello or a ServerHello, of which a record has one."""

    def __init__(self, record):
        body = record[HEAD + 4:]
        at = 34
        at += 1 + body[at]  # the session
        if record[HEAD] == 1:
            at += 2 + struct.unpack_from("!H", body, at)[0]  # ciphers
            at += 1 + body[at]  # compressions
        else:
            at += 3
        self.type, self.front, self.of = record[HEAD], body[:at], {}
        end = at + 2 + struct.unpack_from("!H", body, at)[0]
        at += 2
        while at < end:
            kind, size = struct.unpack_from("!HH", body, at)
            self.of[kind] = body[at + 4:at + 4 + size]
            at += 4 + size

    def record(self):
        rest = b"".join(struct.pack("!HH", kind, len(data)) + data for kind, data in self.of.items())
        body = self.front + struct.pack("!H", len(rest)) + rest
        message = bytes([self.type]) + len(body).to_bytes(3, "big") + body
        return bytes([HANDSHAKE, 3, 3]) + struct.pack("!H", len(message)) + message


def without(record, kind):
    e = Extensions(record)
    e.of.pop(kind)
    return e.record()


def with_version(record, versions):
    e = Extensions(record)
    e.of[SUPPORTED_VERSIONS] = versions
    return e.record()


class Cut(bytes):
    """The last that passes."""


class Deed:
    """What becomes of the records of one side: near is the dialler's, far the other's. n counts them."""
    answer = b""  # to the dialler, instead of passing anything on

    def near(self, n, record):
        return record

    def far(self, n, record):
        return record


class CutHello(Deed):
    def near(self, n, record):
        return Cut(record[:len(record) // 2])


class AnswerInClear(Deed):
    answer = CLEAR_HELLO


class AskInClear(Deed):
    def near(self, n, record):
        return CLEAR_HELLO


class AnswerAlert(Deed):
    answer = bytes([ALERT, 3, 3, 0, 2, 2, 70])  # protocol version


class NoVersions(Deed):
    """A ClientHello without them is one of TLS 1.2."""

    def near(self, n, record):
        return without(record, SUPPORTED_VERSIONS) if n == 0 else record


class OldVersion(Deed):
    def near(self, n, record):
        return with_version(record, b"\x02\x03\x03") if n == 0 else record


class OldAnswer(Deed):
    def far(self, n, record):
        return without(record, SUPPORTED_VERSIONS) if n == 0 else record


class NoProtocol(Deed):
    def near(self, n, record):
        return without(record, ALPN) if n == 0 else record


class Sealed(Deed):
    """Drops a sealed record: the other end's certificate request is in one of its first, the dialler's own certificate
    in its first."""
    side, which = "far", 0

    def __init__(self):
        self.seen = 0

    def drop(self, record):
        mine = record[0] == SEALED
        self.seen += mine
        return b"" if mine and self.seen == self.which + 1 else record

    def near(self, n, record):
        return self.drop(record) if self.side == "near" else record

    def far(self, n, record):
        return self.drop(record) if self.side == "far" else record


class NoRequest(Sealed):
    which = 1  # behind the encrypted extensions


class NoCertificate(Sealed):
    side = "near"


DEEDS = {"pass": Deed, "cut_hello": CutHello, "answer_in_clear": AnswerInClear, "ask_in_clear": AskInClear,
         "answer_alert": AnswerAlert, "no_versions": NoVersions, "old_version": OldVersion, "old_answer": OldAnswer,
         "no_protocol": NoProtocol, "no_request": NoRequest, "no_certificate": NoCertificate}


class Way:
    """One direction of a connection, cut into records, but for what comes in front of them."""

    def __init__(self, to, deed, front):
        self.to, self.deed, self.front, self.buffer, self.n = to, deed, front, b"", 0

    def take(self, data):
        """False: it is cut."""
        self.to.sendall(data[:self.front])
        self.buffer += data[self.front:]
        self.front -= min(self.front, len(data))
        while len(self.buffer) >= HEAD:
            size = HEAD + struct.unpack_from("!H", self.buffer, 3)[0]
            if len(self.buffer) < size:
                break
            record, self.buffer = self.buffer[:size], self.buffer[size:]
            made = self.deed(self.n, record)
            self.n += 1
            if made != record:
                print("done", flush=True)
            self.to.sendall(made)
            if isinstance(made, Cut):
                return False
        return True


def between(near, port, deed, front):
    with near, socket.create_connection(("127.0.0.1", port)) as far:
        if deed.answer:
            near.recv(65536)
            near.sendall(deed.answer)
            print("done", flush=True)
            while near.recv(65536):
                pass
            return
        ways = {near: Way(far, deed.near, front), far: Way(near, deed.far, 0)}
        selector = selectors.DefaultSelector()
        for s in ways:
            selector.register(s, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                data = key.fileobj.recv(65536)
                if not data or not ways[key.fileobj].take(data):
                    return


def stand_between(name, listener, port, front=0):
    while True:
        near, _ = listener.accept()
        threading.Thread(target=try_between, args=(near, port, DEEDS[name](), front), daemon=True).start()


def try_between(near, port, deed, front):
    try:
        between(near, port, deed, front)
    except ConnectionError:
        pass


def stand_at(name, port):
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    stand_between(name, listener, port)


def stand_everywhere(name, control, pid, host):
    ports = ports_of(pid)
    if len(ports) < 2:
        sys.exit(f"process {pid} listens on {len(ports)} ports")
    for port in ports:
        way = ("pass", 0) if port == control else (name, TOKEN)
        args = (way[0], socket.create_server((host, port)), port, way[1])
        threading.Thread(target=stand_between, args=args).start()
    print("ready", flush=True)


def knock(name, port):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if name == "tls12":
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if name != "nothing_asked":
        context.set_alpn_protocols([PROTOCOL])
    try:
        with socket.create_connection(("127.0.0.1", port)) as s, context.wrap_socket(s) as t:
            t.settimeout(60)
            while t.recv(4096):
                pass
    except (ssl.SSLError, ConnectionError) as e:
        print(e)


if sys.argv[1] == "knock":
    knock(sys.argv[2], int(sys.argv[3]))
elif sys.argv[1] == "data":
    stand_everywhere(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
else:
    stand_at(sys.argv[1], int(sys.argv[2]))
