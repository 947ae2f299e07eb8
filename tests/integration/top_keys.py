#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""top_keys.py RDMACTL DIRECTORY FABRIC: rdmactl top on a terminal of four rows: what each key shows, that nothing is
wider or longer than the terminal, and that the terminal is as it was afterwards, whatever ended it."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

RDMACTL, DIRECTORY, FABRIC = sys.argv[1:4]
PATIENCE = 20 * int(os.environ.get("RDMAD_TEST_PATIENCE", "1"))
ROWS, COLUMNS = 4, 70


class Top:
    def __init__(self, *options):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.slave, self.before, self.said = slave, termios.tcgetattr(slave), ""
        self.process = subprocess.Popen([RDMACTL, "-d", DIRECTORY, "top", "-i", "200ms", *options], stdin=slave, stdout=slave,
                                        stderr=slave, start_new_session=True)

    def read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            self.said += os.read(self.master, 65536).decode(errors="replace")

    def page(self):
        """The last that was drawn whole: what stands between the last two times that the page was cleared."""
        pages = self.said.split("\x1b[H\x1b[J")
        return pages[-2] if len(pages) > 2 else ""

    def key(self, key, *wanted):
        """Pressed, it makes a page that has all of these."""
        self.said = ""
        os.write(self.master, key.encode())
        last = time.monotonic() + PATIENCE
        while not all(re.search(text, self.page(), re.M) for text in wanted):
            if time.monotonic() > last or self.process.poll() is not None:
                sys.exit(f"FAILED: key {key!r} does not show {wanted}, but: {self.said[-2000:]!r}")
            self.read(0.2)
        lines = self.page().replace("\r", "").split("\n")
        if len(lines) > ROWS or max(len(line) for line in lines) > COLUMNS:
            sys.exit(f"FAILED: key {key!r}: more than the terminal has room for: {self.page()!r}")

    def cut(self):
        """Which of all the columns are left out on the page, where it must say so; those that are there are whole."""
        page = self.page().replace("\r", "").split("\n")
        all_there = subprocess.run([RDMACTL, "-d", DIRECTORY, "top", "-b", "-n", "1", "-i", "200ms"], check=True,
                                   capture_output=True, text=True).stdout.split("\n")[0].split()
        there = page[1].split()
        if there != all_there[:len(there)]:
            sys.exit(f"FAILED: other columns than {all_there}: {page[1]!r}")
        words = f", {len(all_there) - len(there)} columns)"
        if len(there) == len(all_there) or words not in page[0] or not re.search(r" \(no room for \d+ rows?, ", page[0]):
            sys.exit(f"FAILED: it does not say what it leaves out ({words}): {page[0]!r}")

    def ended(self, code):
        last = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < last:
            self.read(0.1)
        self.read(0.2)
        if self.process.poll() != code:
            sys.exit(f"FAILED: it ended with {self.process.poll()}, not {code}: {self.said[-2000:]!r}")
        if not re.search(r"\x1b\[\?25h\x1b\[\?1049l", self.said):
            sys.exit(f"FAILED: the page that was there does not come back: {self.said[-300:]!r}")
        if termios.tcgetattr(self.slave) != self.before:
            sys.exit("FAILED: the terminal has other modes than before")
        return self.said.split("\x1b[?1049l")[-1]


def main():
    top = Top()
    top.key("s", r"^sessions by bytes ", r"^ *ID  NAME ", rf"^ *\d+ .* {os.getuid()} ")
    top.cut()
    top.key("u", r"^users by bytes ", r"^ *UID  SESSIONS", rf"^ *{os.getuid()} +\d+ ")
    top.key("l", r"^links by bytes ", r"^ *PEER  NODE ", rf"^ *\d+ .* {FABRIC} +up +[1-9]\d* ")
    for key, name in (("o", "ops"), ("p", "p99"), ("m", "memory"), ("w", "queue"), ("b", "bytes")):
        top.key(key, f"^links by {name} ")
    top.key("e", r"^peers by bytes ", r"^ *PEER +LINKS ", r"^ *[^ ]+ +[1-9]\d* +[1-9]\d* ")
    top.key("w", "^peers by queue ")
    top.key("l", "^links by queue ", r"^ *PEER  NODE ")
    top.key("b", "^links by bytes ")
    top.key("\x1b[A", "^links by bytes ")  # an arrow is no key of these
    top.key("s", r"^sessions by bytes ", r"^ *ID  NAME ")
    letters = termios.tcgetattr(top.slave)[6]
    for name in ("VSUSP", "VQUIT"):  # either would leave the terminal as top has it
        if letters[getattr(termios, name)] != b"\0":
            sys.exit(f"FAILED: {name} has a key while top has the terminal: {letters[getattr(termios, name)]!r}")
    top.key("\x1c", "^sessions by bytes ")  # Ctrl-\
    os.write(top.master, b"q")
    top.ended(0)

    top = Top("-j")  # a document is not for a page that goes
    last = time.monotonic() + PATIENCE
    while top.process.poll() is None and time.monotonic() < last:
        top.read(0.2)
    top.read(0.2)
    if "\x1b" in top.said or '"sessions"' not in top.said:
        sys.exit(f"FAILED: a document on a terminal: {top.said[:500]!r}")

    top = Top()
    top.key("u", r"^users by bytes ")
    top.process.send_signal(signal.SIGTERM)
    top.ended(0)

    top = Top()
    top.key("u", r"^users by bytes ")
    os.write(top.master, b"\x03")  # Ctrl-C, if the terminal is this one's; else its signal
    top.process.send_signal(signal.SIGINT)
    top.ended(0)

    top = Top()
    top.key("u", r"^users by bytes ")
    print("last", flush=True)  # the daemon ends
    said = top.ended(1)
    if "rdmad" not in said:
        sys.exit(f"FAILED: it does not say why it ended: {said!r}")


main()
