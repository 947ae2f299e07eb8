# SPDX-License-Identifier: MIT
"""rdmad-python(3) and rdmad-aio(3) have what the package has, no more and no less, and their examples work. $A and $B
are runtime directories of two daemons."""
import enum
import inspect
import os
import re
import subprocess
import sys
import unittest

import rdmad
import rdmad.aio

A, SOURCE, BUILD = os.environ["A"], os.environ["RDMAD_SOURCE"], os.environ["RDMAD_BUILD"]
SIZE = 65536


def page(name):
    with open(f"{BUILD}/docs/man3/{name}.3", encoding="utf-8") as file:
        text = file.read()
    return text[:text.index("\n.SH EXAMPLES")].replace("\\&", "").replace("\\-", "-")


def example(module):
    return subprocess.run([sys.executable, f"{SOURCE}/docs/man/bindings.py", "--example",
                           f"{SOURCE}/python/rdmad/{module}.py"], check=True, capture_output=True, text=True).stdout


class Pages(unittest.TestCase):
    def check(self, text, module, prefix):
        """Each class of module has its section with all its methods in it; what sections there are."""
        sections = dict(re.findall(rf"^\.SH {re.escape(prefix)}(\w+)\n(.*?)(?=^\.SH |\Z)", text, re.M | re.S))
        for name, section in sections.items():
            methods = set(re.findall(r"^\.PP\n(?:await )?\\fB(\w+)\\fR[(:]", section, re.M))
            has = {n for n, it in vars(getattr(module, name)).items() if not n.startswith("_")
                   and (inspect.isfunction(it) or isinstance(it, property))}
            self.assertEqual(methods, has, name)
        return set(sections)

    def test_the_package(self):
        text = page("rdmad-python")
        there = self.check(text, rdmad, "rdmad.")
        enums = dict(re.findall(r"^\\fBrdmad\.(\w+)\\fR\n.*\n\.br\n([A-Z_, ]+)", text[text.index(".SH ENUMS"):], re.M))
        for name, members in enums.items():
            self.assertEqual([m.strip(", ") for m in members.strip().split(", ")],
                             [m.name for m in getattr(rdmad, name)], name)
        self.assertGreater(len(there), 14)
        public = {name for name in rdmad.__all__ if inspect.isclass(getattr(rdmad, name))}
        errors = {name for name in public if issubclass(getattr(rdmad, name), rdmad.Error)} - {"Error"}
        self.assertEqual(there | set(enums), public - errors)
        self.assertEqual({n for n in public if issubclass(getattr(rdmad, n), enum.Enum)}, set(enums))

    def test_the_loop(self):
        self.assertEqual(self.check(page("rdmad-aio"), rdmad.aio, "rdmad.aio."), {"Session", "Lease", "Service", "Channel"})


class Examples(unittest.TestCase):
    def setUp(self):
        self.owner = rdmad.Session(A)
        self.bytes = os.urandom(SIZE)
        memory = self.owner.pool(1 << 20).alloc(SIZE)
        memory[:] = self.bytes
        self.uri = self.owner.grant(memory, rights=rdmad.Right.READ).uri

    def tearDown(self):
        self.owner.close()

    def run_at_b(self, program):
        done = subprocess.run([sys.executable, "-W", "error", "-c", program, self.uri], check=False, capture_output=True,
                              text=True, env={**os.environ, "RDMAD_RUNTIME_DIR": os.environ["B"]})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_the_packages(self):
        said = self.run_at_b("import sys\nuri = sys.argv[1]\n" + example("__init__") + "print(array.tobytes().hex())")
        self.assertEqual(said, self.bytes[:8192].hex())

    def test_the_loops(self):
        code = "".join("    " + line + "\n" for line in example("aio").splitlines())
        said = self.run_at_b("import asyncio, sys\nimport rdmad.aio\nuri = sys.argv[1]\nasync def main():\n" + code +
                             "        print(bytes(piece).hex())\nasyncio.run(main())")
        self.assertEqual(said, self.bytes[:4000].hex() + self.bytes[4000:4096].hex())


if __name__ == "__main__":
    unittest.main()
