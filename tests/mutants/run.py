#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py [--check] [NUMBER | TEXT]...: takes out one check after the other and asks the tests whether they notice.

tests/mutants/list has the mutants: each replaces some lines of one file, and names the tests that
protect what they promised. A mutant is noticed when one of those tests, in their order, fails with a
word; one that all of them pass has survived, and one that only a time-out or a crash ends is noticed
too late. Either is a failure, as is one that does not apply (its lines have changed: mend the list)
or does not build.

The tree is copied to build-mutants/tree and built there, so nothing here is touched. Arguments choose
mutants by number or by a piece of their file's name or title.

--check builds and runs nothing: it says which mutants do not apply to the tree as it is.
"""
import argparse
import filecmp
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
WORK = os.path.join(ROOT, "build-mutants")
TREE = os.path.join(WORK, "tree")
BUILD = os.path.join(WORK, "build")

# What a test says when it fails by a check of its own: the runner's, Criterion's, a script's; that a case
# ends at all is one where it says within which time. That a test crashed is no check.
CRASH = re.compile(r"Unexpected signal caught|unexpected signal|CRASH!")
WORDS = re.compile(r"^[\d:\s]*(.*(: \[\d+\] |Assertion |Expected |\[----\] .*: |FAILED: |FAIL: |failed: |unexpected|"
                   r"\[FAIL\] .*: Timed out).*)")


class Mutant:
    def __init__(self, number, title):
        self.number, self.title = number, title
        self.file, self.tests, self.old, self.new = "", [], [], []


def read_list(path):
    """Blocks: "# title", the file, "= tests" (TEST or TEST/CASE), "- lines that are there", "+ lines instead"."""
    mutants, m = [], None
    for line in open(path, encoding="utf-8"):
        line = line.rstrip("\n")
        if line.startswith("# "):
            m = Mutant(len(mutants) + 1, line[2:])
            mutants.append(m)
        elif line.startswith("= "):
            m.tests = line[2:].split()
        elif line[:2] in ("- ", "-"):
            m.old.append(line[2:])
        elif line[:2] in ("+ ", "+"):
            m.new.append(line[2:])
        elif line and not line.startswith("//"):
            m.file = line
    return mutants


def place_of(m, root):
    """The file's lines, and where the mutant's stand: once, or it does not apply (None)."""
    path = os.path.join(root, m.file)
    if not os.path.isfile(path):
        return [], None
    lines, old = open(path, encoding="utf-8").read().split("\n"), [o.strip() for o in m.old]
    at = [i for i in range(len(lines) - len(old) + 1)
          if [line.strip() for line in lines[i:i + len(old)]] == old]
    return lines, at[0] if len(at) == 1 and old else None


def apply(m):
    """The file's text before; None when the lines are not there exactly once."""
    lines, at = place_of(m, TREE)
    if at is None:
        return None
    text = "\n".join(lines)
    lines[at:at + len(m.old)] = m.new
    open(os.path.join(TREE, m.file), "w", encoding="utf-8").write("\n".join(lines))
    return text


def run(command, seconds=1800):
    done = subprocess.run(command, cwd=TREE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=seconds, text=True, errors="replace", check=False)
    return done.returncode, done.stdout


def build(targets):
    return run(["cmake", "--build", BUILD, "-j", str(os.cpu_count()), "--target", *targets])


def tests_of(m):
    """Whole tests: relink.py alone asks for one case of them."""
    return [t.split("/")[0] for t in m.tests]


def targets_of(m, targets):
    return ["rdmad", "rdmactl", "librdmad", *[t for t in tests_of(m) if t in targets]]


def copy(source, to):
    """Only what differs: ninja goes by times, and a file that a mutant left behind must be newer."""
    if os.path.exists(to) and filecmp.cmp(source, to, shallow=False):
        return
    os.makedirs(os.path.dirname(to), exist_ok=True)
    shutil.copy(source, to)


def prepare():
    os.makedirs(TREE, exist_ok=True)
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    for name in filter(None, files.stdout.split("\0")):
        copy(os.path.join(ROOT, name), os.path.join(TREE, name))
    configure = ["cmake", "-S", TREE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                 "-DCMAKE_C_FLAGS=-O1", "-DRDMAD_TESTS=ON", "-DRDMAD_WERROR=OFF", "-DRDMAD_BENCH_PEERS=OFF"]
    if shutil.which("ccache"):
        configure.append("-DCMAKE_C_COMPILER_LAUNCHER=ccache")
    code, said = run(configure)
    if code == 0:
        code, said = build(["all"])
    if code:
        sys.exit(said[-3000:] + "\nrun.py: the tree does not build as it is")
    _, names = run(["ninja", "-C", BUILD, "-t", "targets", "all"])
    targets = {line.split(":")[0] for line in names.splitlines() if ": phony" in line}
    _, names = run(["ctest", "--test-dir", BUILD, "-N"])
    return targets, set(re.findall(r"Test +#\d+: (\S+)", names))


def ctest(test):
    return run(["ctest", "--test-dir", BUILD, "-R", "^" + test + "$", "--output-on-failure", "--no-tests=error"])


def words_in(said):
    """The first line of a check that failed, with the explanation that follows it."""
    lines = said.splitlines()
    for line, after in zip(lines, lines[1:] + [""]):
        found = WORDS.match(line)
        if found and not CRASH.search(line):
            return (found.group(1).strip() + " | " + after.strip())[:200]
    return ""


def ask(tests):
    """Whether one of them notices, and what it says."""
    worst = "SURVIVED", "passed by " + " ".join(tests)
    for test in tests:
        code, said = ctest(test)
        words = words_in(said) if code else ""
        if words:
            return "noticed", test + ": " + words
        if code:
            worst = "TIME-OUT ONLY" if "***Timeout" in said else "WITHOUT A WORD", said[-600:]
    return worst


def judge(m, targets, tests):
    """A verdict and what was said."""
    unknown = [t for t in tests_of(m) if t not in tests]
    if unknown or not m.tests:
        return "NO SUCH TEST", " ".join(unknown)
    before = apply(m)
    if before is None:
        return "DOES NOT APPLY", "its lines are not there exactly once; mend tests/mutants/list"
    try:
        code, said = build(targets_of(m, targets))
        if code:
            return "DOES NOT BUILD", said[-600:]
        return ask(tests_of(m))
    finally:
        open(os.path.join(TREE, m.file), "w", encoding="utf-8").write(before)


def chosen(mutants, wanted):
    if not wanted:
        return mutants
    return [m for m in mutants if any(w == str(m.number) or not w.isdigit() and w in m.file + " " + m.title
                                      for w in wanted)]


def names_tests(m):
    return m.tests and all(re.match("(unit|test|lint)_", t) for t in m.tests)


def check(mutants):
    stale = [m for m in mutants if place_of(m, ROOT)[1] is None or not names_tests(m)]
    for m in stale:
        print(f"{m.number:3} {m.file}: {m.title}: its lines are not there exactly once, or it names no test, or "
              "something else as well; mend tests/mutants/list")
    return 1 if stale or not mutants else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say which mutants do not apply")
    parser.add_argument("which", nargs="*", metavar="NUMBER | TEXT")
    options = parser.parse_args()
    todo = chosen(read_list(os.path.join(HERE, "list")), options.which)
    if options.check:
        return check(todo)
    targets, tests = prepare()
    bad = 0
    for m in todo:
        verdict, said = judge(m, targets, tests)
        bad += verdict != "noticed"
        print(f"{m.number:3} {verdict:14} {m.file}: {m.title}\n      {said}", flush=True)
    print(f"{len(todo)} mutants, {len(todo) - bad} noticed with a word, {bad} not")
    return 1 if bad or not todo else 0


if __name__ == "__main__":
    sys.exit(main())
