# SPDX-License-Identifier: MIT
"""docs/PROTOCOL.md is true: a client that knows nothing but that page, and no librdmad, works with programs in C; and
the page has what the headers have. $A and $B are runtime directories of two daemons."""
import array
import ctypes
import fcntl
import mmap
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

A, B = os.environ["A"], os.environ["B"]
SOURCE, BUILD = os.environ["RDMAD_SOURCE"], os.environ["RDMAD_BUILD"]
LONG = 60  # seconds: whoever waits longer has failed
with open(SOURCE + "/docs/PROTOCOL.md", encoding="utf-8") as page:
    PAGE = page.read()


# ---- what the page says ----

def table(title):
    """The rows of the table whose head begins with title."""
    rows = PAGE[PAGE.index(f"| {title} |"):].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


REQUESTS = {name: (int(number), body, reply) for number, name, body, reply, _ in table("number | request")}
EVENTS = {int(number): (name, body) for number, name, body, _ in table("number | event")}
OPS = {name: int(number) for number, name, *_ in table("number | op")}
ERRORS = {int(number): name for number, name in re.findall(r"^    (-?\d+) (\w+): ", PAGE, re.M)}
LAYOUTS = {}
for name, size, members in re.findall(r"^    ([a-z_]+) (\d+)\n((?:        \d+ \S+ \w+\n)+)", PAGE, re.M):
    LAYOUTS[name] = (int(size), [(int(o), t, f) for o, t, f in re.findall(r"(\d+) (\S+) (\w+)\n", members)])
CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i32": "i"}


def pack(layout, /, **values):
    size, members = LAYOUTS[layout]
    out = bytearray(size)
    for offset, kind, field in members:
        if field in values:
            value = values.pop(field)
            if kind in CODES:
                struct.pack_into("=" + CODES[kind], out, offset, value)
            else:
                out[offset:offset + len(value)] = value
    assert not values, f"{layout} has no {values}"
    return bytes(out)


def unpack(layout, data):
    size, members = LAYOUTS[layout]
    assert len(data) == size, f"{layout} has {size} bytes, not {len(data)}"
    out = {}
    for offset, kind, field in members:
        if kind in CODES:
            out[field] = struct.unpack_from("=" + CODES[kind], data, offset)[0]
        elif kind.startswith("text["):
            out[field] = data[offset:offset + int(kind[5:-1])].split(b"\0")[0].decode()
    return out


# ---- the client ----

class Refused(Exception):
    pass


class Words:
    """Words of shared memory, in the orders that the page asks for."""

    ACQUIRE, RELEASE, CONSISTENT = 2, 3, 5  # of libatomic
    atomic = ctypes.CDLL("libatomic.so.1")
    load_4, store_4 = atomic["__atomic_load_4"], atomic["__atomic_store_4"]
    load_4.restype = ctypes.c_uint32

    def __init__(self, layout, base):
        self.at = {f: ctypes.c_void_p(base + offset) for offset, _, f in LAYOUTS[layout][1]}

    def load(self, word, order):
        return Words.load_4(self.at[word], order)

    def store(self, word, value, order):
        Words.store_4(self.at[word], ctypes.c_uint32(value), order)


libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]


def mapped(fd, writable):
    """All of a memfd, with its pages: address and bytes."""
    size = os.fstat(fd).st_size
    at = libc.mmap(None, size, mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0), mmap.MAP_SHARED, fd, 0)
    assert at != ctypes.c_void_p(-1).value, os.strerror(ctypes.get_errno())
    assert libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(size), 23 if writable else 22) == 0
    return at, size


def seal(fd):
    fcntl.fcntl(fd, 1033, 0x10 | 0x1)  # F_ADD_SEALS


class Pool:
    def __init__(self, session, size):
        reply, (self.fd,) = session.request("POOL_CREATE", bytes=size)
        self.number = reply["pool"]
        self.at, self.size = mapped(self.fd, True)
        seal(self.fd)
        session.request("POOL_READY", pool=self.number)
        self.memory = memoryview((ctypes.c_ubyte * self.size).from_address(self.at)).cast("B")


class Ring:
    def __init__(self, session, entries):
        reply, fds = session.request("RING_CREATE", sq_entries=entries)
        ours, theirs, wakeups, self.doorbell = fds
        self.number, self.sq_entries, self.cq_entries = reply["ring"], reply["sq_entries"], reply["cq_entries"]
        client, _ = mapped(ours, True)
        daemon, _ = mapped(theirs, False)
        seal(ours)
        session.request("RING_READY", ring=self.number)
        self.client, self.daemon = Words("ring_client", client), Words("ring_daemon", daemon)
        self.sqes, self.cqes = client + 256, daemon + 256
        self.socket = socket.socket(fileno=wakeups)
        self.tail = self.head = self.slept = self.rang = 0

    def close(self):
        self.socket.close()
        os.close(self.doorbell)

    def submit(self, **sqe):
        assert (self.tail - self.daemon.load("sq_head", Words.ACQUIRE)) % 2**32 < self.sq_entries
        ctypes.memmove(self.sqes + self.tail % self.sq_entries * 64, pack("sqe", **sqe), 64)
        self.tail = (self.tail + 1) % 2**32
        self.client.store("sq_tail", self.tail, Words.CONSISTENT)
        if self.daemon.load("sq_wait", Words.CONSISTENT):
            self.rang += 1
            os.eventfd_write(self.doorbell, 1)

    def complete(self):
        while self.daemon.load("cq_tail", Words.ACQUIRE) == self.head:
            self.client.store("cq_wait", 1, Words.CONSISTENT)
            if self.daemon.load("cq_tail", Words.CONSISTENT) == self.head:
                self.slept += 1
                assert select.select([self.socket], [], [], LONG)[0], "no completion came"
                if not self.socket.recv(64, socket.MSG_DONTWAIT):
                    raise EOFError("the daemon is gone")
            self.client.store("cq_wait", 0, Words.RELEASE)
        cqe = unpack("cqe", ctypes.string_at(self.cqes + self.head % self.cq_entries * 32, 32))
        self.head = (self.head + 1) % 2**32
        self.client.store("cq_head", self.head, Words.RELEASE)
        return cqe

    def do(self, op, **sqe):
        self.submit(opcode=OPS[op], user_data=self.tail + 77, **sqe)
        cqe = self.complete()
        assert cqe["user_data"] == self.tail + 76 and cqe["opcode"] == OPS[op], cqe
        if cqe["status"]:
            raise Refused(ERRORS[cqe["status"]], cqe["outcome"])
        return cqe


class Session:
    def __init__(self, runtime_dir):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(LONG)
        self.socket.connect(runtime_dir + "/rdmad.sock")
        self.seq, self.events = 0, []
        self.hello, _ = self.request("HELLO", name=b"plain-python")

    def close(self):
        self.socket.close()

    def send(self, number, body, **header):
        self.seq += 1
        fields = {"magic": 0x314D4452, "version": 3, "type": number, "length": 24 + len(body), "seq": self.seq}
        self.socket.send(pack("msg_header", **{**fields, **header}) + body)

    def receive(self):
        data, ancillary, _, _ = self.socket.recvmsg(2048, socket.CMSG_SPACE(4 * 4), socket.MSG_CMSG_CLOEXEC)
        if not data:
            raise EOFError("rdmad has closed the socket")
        fds = array.array("i", b"".join(d for level, kind, d in ancillary
                                        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)))
        header = unpack("msg_header", data[:24])
        assert (header["magic"], header["length"]) == (0x314D4452, len(data))
        return header, data[24:], list(fds)

    def event(self):
        while not self.events:
            self.take()
        return self.events.pop(0)

    def take(self):
        header, body, fds = self.receive()
        if header["type"] & 0x4000:
            name, layout = EVENTS[header["type"] & 0xFFF]
            self.events.append((name, unpack(layout, body)))
            return None
        return header, body, fds

    def request(self, name, /, **fields):
        number, body, reply = REQUESTS[name]
        self.send(number, pack(body, **fields))
        answer = None
        while answer is None:
            answer = self.take()
        header, data, fds = answer
        assert header["seq"] == self.seq and header["type"] == number | 0x8000
        if header["status"]:
            raise Refused(ERRORS[header["status"]], unpack("msg_error", data)["text"])
        if reply == "-":
            assert not data
            return {}, fds
        return unpack(reply, data), fds


def started(runtime_dir, *argv):
    """A program in C; its first line."""
    it = subprocess.Popen([BUILD + "/examples/" + argv[0], *argv[1:]], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "RDMAD_RUNTIME_DIR": runtime_dir})
    return it, it.stdout.readline().strip()


def ran(runtime_dir, *argv):
    return subprocess.run([BUILD + "/examples/" + argv[0], *argv[1:]], check=True, capture_output=True, text=True,
                          timeout=LONG, env={**os.environ, "RDMAD_RUNTIME_DIR": runtime_dir}).stdout


class Client(unittest.TestCase):
    def setUp(self):
        self.session = Session(B)
        self.pool, self.ring = Pool(self.session, 1 << 16), Ring(self.session, 8)

    def tearDown(self):
        self.ring.close()
        self.session.close()

    def test_it_writes_into_a_mailbox_in_c(self):
        for runtime_dir in (A, B):
            mailbox, uri = started(runtime_dir, "mailbox")
            attached, _ = self.session.request("LEASE_ATTACH", uri=uri.encode())
            self.assertEqual((attached["length"], attached["rights"]), (4095, 2))
            self.pool.memory[100:106] = b"hello\0"
            done = self.ring.do("WRITE", pool=self.pool.number, pool_offset=100, length=6, lease=attached["handle"])
            self.assertEqual((done["bytes"], done["outcome"]), (6, 0))
            self.assertEqual(mailbox.communicate(timeout=LONG)[0], "hello\n")
            name, ended = self.session.event()
            self.assertEqual((name, ended["handle"], ERRORS[ended["reason"]]),
                             ("LEASE_ENDED", attached["handle"], "LEASE_REVOKED"))
            with self.assertRaises(Refused) as caught:
                self.ring.do("WRITE", pool=self.pool.number, length=6, lease=attached["handle"])
            self.assertEqual(caught.exception.args, ("LEASE_REVOKED", 1))
            self.session.request("LEASE_RELEASE", handle=attached["handle"])

    def test_it_reads_what_a_program_in_c_shares(self):
        want = os.urandom(200001)
        path = B + "/shared"
        with open(path, "wb") as f:
            f.write(want)
        share, uri = started(A, "share", path)
        attached, _ = self.session.request("LEASE_ATTACH", uri=uri.encode())
        got = bytearray()
        while len(got) < len(want):
            part = min(1 << 16, attached["length"] - len(got))
            self.ring.do("READ", pool=self.pool.number, length=part, lease=attached["handle"], lease_offset=len(got))
            got += self.pool.memory[:part]
        self.assertEqual(got, want)
        with self.assertRaises(Refused) as caught:
            self.ring.do("READ", pool=self.pool.number, length=2, lease=attached["handle"], lease_offset=200000)
        self.assertEqual(caught.exception.args, ("RANGE", 1))
        share.terminate()
        share.communicate(timeout=LONG)

    def test_programs_in_c_write_and_read_what_it_grants(self):
        self.pool.memory[:4096] = bytes(4096)
        granted, _ = self.session.request("LEASE_GRANT", pool=self.pool.number, length=4096, ttl_ns=60 * 10**9, rights=3)
        for runtime_dir in (A, B):
            self.pool.memory[:5] = b"empty"
            ran(runtime_dir, "hello", granted["uri"])
            self.assertEqual(bytes(self.pool.memory[:6]), b"hello\0")
            ran(runtime_dir, "fetch", granted["uri"], B + "/fetched")
            with open(B + "/fetched", "rb") as f:
                self.assertEqual(f.read(), bytes(self.pool.memory[:4096]))
        stat, _ = self.session.request("LEASE_STAT", lease=granted["lease"])
        self.assertGreater(stat["attached_total"], 1)
        self.session.request("LEASE_REVOKE", lease=granted["lease"])
        with self.assertRaises(subprocess.CalledProcessError):
            ran(A, "hello", granted["uri"])

    def test_it_talks_to_a_service_in_c(self):
        server, uri = started(A, "rpc", "serve", "plain")
        channel, _ = self.session.request("CHANNEL_CONNECT", uri=uri.encode())
        self.pool.memory[:6] = b"a word"
        self.ring.submit(opcode=OPS["RECV"], pool=self.pool.number, pool_offset=4096, length=4096,
                         lease=channel["channel"], user_data=1)
        self.ring.submit(opcode=OPS["SEND"], pool=self.pool.number, length=6, lease=channel["channel"], user_data=2)
        done = {c["user_data"]: c for c in (self.ring.complete(), self.ring.complete())}
        self.assertEqual((done[1]["status"], done[1]["bytes"], done[2]["status"]), (0, 6, 0))
        self.assertEqual(bytes(self.pool.memory[4096:4102]), b"A WORD")
        self.ring.submit(opcode=OPS["RECV"], pool=self.pool.number, length=8, lease=channel["channel"], user_data=3)
        self.ring.submit(opcode=OPS["CANCEL"], lease=3, user_data=4)
        done = {c["user_data"]: ERRORS[c["status"]] for c in (self.ring.complete(), self.ring.complete())}
        self.assertEqual(done, {3: "CANCELED", 4: "RDMAD_OK"})
        self.session.request("CHANNEL_CLOSE", channel=channel["channel"])
        server.terminate()
        server.communicate(timeout=LONG)

    def test_atomics_and_notifications(self):
        owner = Session(A)
        theirs, its_ring = Pool(owner, 4096), Ring(owner, 2)
        theirs.memory[:8] = (40).to_bytes(8, sys.byteorder)
        granted, _ = owner.request("LEASE_GRANT", pool=theirs.number, length=4096, ttl_ns=60 * 10**9, rights=7)
        handle = self.session.request("LEASE_ATTACH", uri=granted["uri"].encode())[0]["handle"]
        self.assertEqual(self.ring.do("FADD", swap=2, length=8, lease=handle)["value"], 40)
        self.assertEqual(self.ring.do("CAS", compare=42, swap=7, length=8, lease=handle)["value"], 42)
        self.assertEqual(theirs.memory[0], 7)
        self.ring.do("NOTIFY", lease=handle, imm=99)
        self.assertEqual(its_ring.do("NOTIFIED", lease=granted["lease"])["imm"], 99)
        its_ring.close()
        owner.close()

    def test_sleep_and_wake(self):
        """Many turns, in each of which either may sleep, and some in which one has to: a lost wake-up would be seen."""
        session, daemon = Session(A), int(os.environ["A_PID"])
        ring = Ring(session, 2)
        for i in range(2000):
            if i % 200 == 0:
                time.sleep(0.01)  # the daemon sleeps
            if i % 200 == 1:
                os.kill(daemon, signal.SIGSTOP)
                threading.Timer(0.01, os.kill, (daemon, signal.SIGCONT)).start()
            ring.do("NOP")
        print(f"slept {ring.slept} times, rang {ring.rang} times", end=" ... ")
        self.assertGreater(ring.slept, 0)
        self.assertGreater(ring.rang, 0)
        ring.close()
        session.close()

    def test_what_is_wrong_is_answered_in_words(self):
        with self.assertRaises(Refused) as caught:
            self.session.request("LEASE_ATTACH", uri=b"rdmad:///nothing")
        self.assertEqual(caught.exception.args[0], "NO_LEASE")
        self.assertIn("nothing", caught.exception.args[1])
        for wrong, code in (({"length": 25}, "LENGTH"), ({"version": 1}, "VERSION"), ({"reserved": 1}, "RESERVED")):
            self.session.send(REQUESTS["POOL_DESTROY"][0], pack("pool_destroy_req"), **wrong)
            header, body, _ = self.session.receive()
            self.assertEqual(ERRORS[header["status"]], code)
            self.assertTrue(unpack("msg_error", body)["text"])
        self.ring.do("NOP")  # and has changed nothing

    def test_a_pool_that_is_not_sealed_is_not_ready(self):
        reply, (fd,) = self.session.request("POOL_CREATE", bytes=4096)
        with self.assertRaises(Refused) as caught:
            self.session.request("POOL_READY", pool=reply["pool"])
        self.assertTrue(caught.exception.args[1])
        mapped(fd, True)
        seal(fd)
        self.session.request("POOL_READY", pool=reply["pool"])


class Agrees(unittest.TestCase):
    """The page has what the headers have: asked first, for a client by a wrong page waits in vain."""

    def setUp(self):
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        import layouts
        self.layouts = layouts
        self.numbers = layouts.numbers()

    def test_layouts_and_errors(self):
        self.assertEqual(PAGE.split("<!-- made by tests/python/layouts.py -->\n")[1], self.layouts.printed(),
                         "tests/python/layouts.py prints what is to stand at the end of docs/PROTOCOL.md")

    def named(self, prefix):
        return {n.removeprefix(prefix): v for n, v in self.numbers.items()
                if n.startswith(prefix) and not n.endswith("_COUNT")}

    def test_every_message_event_and_op(self):
        messages = self.named("RDMAD_MSG_")
        later = {n for n, v in messages.items() if 30 <= v <= 36 or 38 <= v <= 40}  # for sessions that outlive their daemon
        self.assertEqual({n: r[0] for n, r in REQUESTS.items()}, {n: v for n, v in messages.items() if n not in later})
        self.assertEqual({n: v for v, (n, _) in EVENTS.items()},
                         {n: v & 0xFFF for n, v in self.named("RDMAD_EV_").items() if n != "LEASE_PART"})
        self.assertEqual(OPS, self.named("RDMAD_OP_"))
        bodies = {b for r in REQUESTS.values() for b in r[1:]} | {b for _, b in EVENTS.values()}
        self.assertEqual(bodies - set(LAYOUTS), {"-"})
        parts = {"sqe", "cqe", "msg_header", "ring_client", "ring_daemon", "name_entry", "part", "kept",
                 "kept_range"}
        left = {n for n in LAYOUTS if "resume" not in n and not n.startswith("channel_proof")} - bodies - parts
        self.assertEqual(left, set(), "no message of the page has these")

    def test_numbers_in_the_text(self):
        text = self.layouts.declare.preprocess(
            SOURCE + "/include", "#include <rdmad/wire.h>\n#include <rdmad/ring.h>\n"
            "is RDMAD_WIRE_MAGIC RDMAD_ABI_VERSION RDMAD_MSG_MAX RDMAD_MSG_MAX_FDS RDMAD_MSG_REPLY RDMAD_MSG_EVENT"
            " RDMAD_RING_ENTRIES_OFFSET RDMAD_RING_MAX_ENTRIES RDMAD_BATCH_MAX RDMAD_SQE_FLAGS RDMAD_RIGHTS_ALL\n")
        self.assertEqual(text.split("is ")[-1].split("\n")[0].replace("u", ""),
                         "0x314d4452 3 2048 4 0x8000 0x4000 256 4096 1024 63 (1 | 2 | 4 | 8)")


if __name__ == "__main__":
    unittest.main(verbosity=2, failfast=True)
