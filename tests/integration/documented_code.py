#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""documented_code.py SOURCE BUILD CC A B: each block of C of the documentation runs, and does what its text says.

Of the pages of tests/pages.py and of the comments of the headers, from which section 3 of the manual is made. A block
is part of a program: SCENES says what stands before and behind it, which program is at the other end, and what one of
the two has to print. Programs at the other end run on the daemon whose runtime directory is A, blocks on that of B.
A block that fits no scene fails, and so does a scene that no block has.
"""
import glob
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(sys.argv[1], "tests"))
from pages import blocks, header_blocks, is_code, pages  # noqa: E402  # pylint: disable=wrong-import-position

SOURCE, BUILD, CC, A, B = sys.argv[1:6]
SECONDS = 60 * int(os.environ.get("RDMAD_TEST_PATIENCE", "1"))

HEAD = """
#include <err.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int called;
static void done(void *arg, const struct rdmad_cqe *cqe) { (void)arg; called = cqe->status ? -1 : 1; }
#define MUST(call) do { if (call) errx(1, #call ": %s", rdmad_last_error(NULL)); } while (0)
int main(int argc, char **argv) {
    const char *uri = argc > 1 ? argv[1] : NULL;
    (void)uri; (void)done; (void)called;
"""
OPEN = """
    rdmad_session *s; rdmad_pool *pool;
    MUST(rdmad_open(NULL, &s) || rdmad_pool_create(s, 1 << 20, 0, &pool));
    char *buf = rdmad_alloc(pool, 4096);
    strcpy(buf, argc > 1 ? "hello" : "(nothing came)");
"""
ATTACHED = OPEN + """
    rdmad_lease *lease;
    rdmad_ring *ring;
    MUST(rdmad_lease_attach(s, uri, 0, &lease) || rdmad_ring_create(s, 8, &ring));
"""
PREPARED = ATTACHED + """
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    MUST(!sqe || rdmad_prep_write(ring, sqe, lease, 0, buf, 64, 7));
"""
GRANTED = OPEN + """
    rdmad_lease *granted;
    MUST(rdmad_lease_grant(s, buf, 4096, NULL, &granted));
    printf("%s\\n", rdmad_lease_uri(granted));
    fflush(stdout);
"""
# A service that answers with the message in capitals: who prints those has received.
CAPITALS = OPEN + """
    rdmad_service *service; rdmad_channel *c;
    struct rdmad_message m = RDMAD_MESSAGE_INIT;
    MUST(rdmad_listen(s, "echo", NULL, &service));
    MUST(rdmad_accept(service, NULL, -1, &c) || rdmad_recv(c, buf, 4096, -1, &m));
    for (size_t i = 0; i < m.length; i++)
        buf[i] = buf[i] >= 'a' && buf[i] <= 'z' ? (char)(buf[i] - 32) : buf[i];
    MUST(rdmad_send(c, buf, m.length));
    rdmad_channel_close(c); /* delivers that first */
    rdmad_close(s);
"""
TOLD = 'printf("%s\\n", buf);'


def fail(*words):
    sys.exit("FAILED: " + " ".join(str(w) for w in words))


def build(where, code):
    program = os.path.join(B, "code" + str(len(glob.glob(os.path.join(B, "code*")))))
    done = subprocess.run([CC, "-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-I",
                           os.path.join(SOURCE, "include"), "-x", "c", "-", "-o", program, "-L", os.path.join(BUILD, "libclient"),
                           "-lrdmad", "-Wl,-rpath," + os.path.join(BUILD, "libclient")],
                          input=HEAD + code + "\nreturn 0; }\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        fail(f"{where}: does not compile: {done.stdout[:800]}")
    return program


class Program:
    """One that runs at a daemon, until it is waited for."""

    def __init__(self, where, directory, *command):
        self.where = where
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=dict(os.environ, RDMAD_RUNTIME_DIR=directory))

    def line(self):
        line = self.process.stdout.readline().strip()
        return line or fail(self.where, self.process.communicate()[1])

    def ends_with(self, text):
        try:
            out, err = self.process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            fail(f"{self.where}: did not end: {self.process.communicate()}")
        if self.process.returncode or (out.strip().split("\n") or [""])[-1] != text:
            fail(f"{self.where}: ended with {self.process.returncode}, said '{out.strip()}' and not '{text}'. {err.strip()}")


def ctl(*words):
    done = subprocess.run([os.path.join(BUILD, "rdmactl", "rdmactl"), "-j", "-d", A, *words], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def service(name):
    """Its URI, once it listens."""
    until = time.monotonic() + SECONDS
    while not any(s["name"] == name for s in ctl("service", "show")["services"]):
        if time.monotonic() > until:
            fail("nobody listens on", name)
        time.sleep(0.02)
    listen = ctl('status')['listen']
    return f"rdmad://{listen['host']}:{listen['port']}/{name}"


def into_mailbox(where, code):
    box = Program("examples/mailbox", A, os.path.join(BUILD, "examples", "mailbox"))
    Program(where, B, build(where, code), box.line()).ends_with("")
    box.ends_with("hello")


def both(where, code):
    """Both ends are one program."""
    program = build(where, code)
    listener = Program(where + ", who listens", A, program)
    Program(where + ", who connects", B, program, service("pingpong")).ends_with("hello")
    listener.ends_with("hello")


def to_capitals(where, code):
    other = Program("the service", A, build("the service", CAPITALS))
    Program(where, B, build(where, code), service("echo")).ends_with("HELLO")
    other.ends_with("")


NOTIFIED = []


def notified(where, code):
    """The block that waits, and the one that notifies, are each other's other end."""
    NOTIFIED.append((where, build(where, code)))


def notifies(where, code):
    NOTIFIED.insert(0, (where, build(where, code)))


# What a block has in it; before it; behind it; and how it runs. The first that fits is taken.
SCENES = [
    (r"rdmad_open\((.|\n)*rdmad_write\(", "", "", into_mailbox),
    (r"rdmad_open\((.|\n)*rdmad_write_notify\(", "", "", notifies),
    (r"rdmad_listen\(s, \"pingpong\"", OPEN + "rdmad_channel *c; rdmad_service *service;", TOLD, both),
    (r"rdmad_ring_reserve\((.|\n)*rdmad_ring_wait\(", ATTACHED, "rdmad_close(s);", into_mailbox),
    (r"rdmad_sqe_set_callback\(", PREPARED, 'if (called != 1) errx(1, "done was not called, or told of %d", called);', into_mailbox),
    (r"rdmad_wait_notified\(", GRANTED, 'printf("%s %u %d\\n", buf, imm, (int)bytes);', notified),
    (r"rdmad_connect\((.|\n)*rdmad_recv\(", OPEN + "rdmad_channel *channel;", TOLD, to_capitals),
]


def main():
    found = [(path, block) for path in pages(SOURCE) for block in blocks(path) if is_code(*block[1:])]
    found += [(path, block) for path in sorted(glob.glob(os.path.join(SOURCE, "include", "rdmad", "*.h")))
              for block in header_blocks(path)]
    used = set()
    for path, (line, _, lines) in found:
        where, whole = f"{os.path.relpath(path, SOURCE)}:{line}", "\n".join(lines)
        scene = next((s for s in SCENES if re.search(s[0], whole)), None)
        if not scene:
            fail(f"{where}: nobody runs this code: give it a scene in tests/integration/documented_code.py")
        used.add(scene)
        # An address that stands for another machine's.
        scene[3](where, scene[1] + "{\n" + re.sub(r'"rdmad://[\d.:]+/\w+"', "uri", whole) + "\n" + scene[2] + "}\n")
    for scene in SCENES:
        if scene not in used:
            fail("no block has", scene[0])
    if len(NOTIFIED) != 2:
        fail(len(NOTIFIED), "blocks are of a notification, and not two: one for each end")
    waiter = Program(NOTIFIED[1][0], A, NOTIFIED[1][1])
    Program(NOTIFIED[0][0], B, NOTIFIED[0][1], waiter.line()).ends_with("")
    waiter.ends_with("hello 0 6")
    print(f"{len(found)} blocks of C were run")


main()
