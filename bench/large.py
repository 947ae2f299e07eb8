# SPDX-License-Identifier: MIT
"""Whole GiB at once, as programs and people move them: a NumPy array that one process shares and others read, and
rdmactl fetch beside cp."""
import os
import subprocess
import time

import peers
import rdmad

BYTES = 1 << 30
PYTHON = "/usr/bin/python3"  # which has the packages
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def has_python(build):
    """Whether the package was built, and NumPy is there."""
    return os.path.exists(os.path.join(build, "python/rdmad/_declared.py")) and subprocess.run(
        [PYTHON, "-c", "import cffi, numpy"], capture_output=True, check=False).returncode == 0


def first_line(program, what):
    line = program.stdout.readline().strip()
    if not line:
        raise rdmad.Failure(f"{what} printed nothing and ended")
    return line


class Array:
    """A NumPy array of 1 GiB in a pool of the process that shares it."""

    def __init__(self, daemons):
        self.daemons, self.uri, self.sum = daemons, None, None
        self.env = {**os.environ, "PYTHONPATH": os.path.join(daemons.build, "python"),
                    "LD_LIBRARY_PATH": os.path.join(daemons.build, "libclient"), "PYTHONDONTWRITEBYTECODE": "1"}

    def start(self, where, argv, **kwargs):
        return self.daemons.start(argv, env={**self.env, "RDMAD_RUNTIME_DIR": where}, stdout=subprocess.PIPE,
                                  text=True, **kwargs)

    def share(self):
        if not self.uri:
            owner = self.start(self.daemons.owner, [PYTHON, os.path.join(ROOT, "examples/python/array.py"), "share",
                                                    str(BYTES // 8)])
            self.uri, self.sum = first_line(owner, "array.py").split()
        return self.uri


class Reader:
    """A process that reads all of the array by one call, again and again, into memory of its own pool. In C it is
    tests/integration/array_reader.c, in Python array_reader.py of tests/python."""

    def __init__(self, array, name):
        build = array.daemons.build
        self.array, self.name, self.program = array, name, None
        self.argv = {"C": [os.path.join(build, "bench/bench_array_reader")],
                     "Python": [PYTHON, os.path.join(ROOT, "tests/python/array_reader.py")]}[name]

    def read_once(self):
        print(file=self.program.stdin, flush=True)
        return int(first_line(self.program, f"the reader in {self.name}"))

    def bandwidth(self):
        if not self.program:
            self.program = self.array.start(self.array.daemons.lessee, [*self.argv, self.array.share()],
                                            stdin=subprocess.PIPE)
            self.read_once()  # which makes pages
        return BYTES / self.read_once()


class Files:
    """1 GiB of random bytes in the page cache, into a new file beside it: from a share's pool by rdmactl fetch, which
    compares checksums, and by cp."""

    name = "files"

    def __init__(self, daemons):
        self.daemons, self.uri = daemons, None

    @property
    def file(self):
        return os.path.join(self.daemons.work, "file")

    @property
    def copy(self):
        return os.path.join(self.daemons.work, "copy")

    def share(self):
        with open(self.file, "wb") as f:
            for _ in range(BYTES >> 20):
                f.write(os.urandom(1 << 20))
        owner = self.daemons.start([self.daemons.rdmactl, "-d", self.daemons.owner, "share", self.file, "--ttl", "3600s"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.uri = first_line(owner, "rdmactl share")
        self.fetch()
        self.cp()  # the first of each finds nothing warm

    def timed(self, argv):
        begun = time.monotonic()
        peers.output(argv)
        spent = time.monotonic() - begun
        size = os.path.getsize(self.copy)
        os.unlink(self.copy)
        if size != BYTES:
            raise rdmad.Failure(f"{argv[0]} made a file of {size} bytes")
        return BYTES / spent / 1e9

    def fetch(self):
        if not self.uri:
            self.share()
        return self.timed([self.daemons.rdmactl, "-d", self.daemons.lessee, "fetch", self.uri, "-o", self.copy])

    def cp(self):
        return self.timed(["cp", "--reflink=never", self.file, self.copy])
