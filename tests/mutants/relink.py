#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""relink.py BUILD [NUMBER | TEXT]...: some mutants of the list, in seconds, beside a build that is there.

run.py builds a tree of its own for all of them. Here a mutant costs one compiler and one linker: its file is
compiled with the build's own command and stands before the archive of which it is a part, in a unit test's
program, or in a daemon that an integration test then finds at $RDMAD_BUILD. What is left alone is linked to,
not copied. First the file is put there as it is, and the test must pass: so that what fails
afterwards does so for the mutant's sake.

A mutant must be noticed as run.py says: one of its tests fails with a word.
"""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # the sources may be anybody's
import run

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TRIES = 5  # of a test with real daemons: what is a race is won by luck on a busy machine


class Broken(Exception):
    """What is no verdict: it does not apply, compile or link, or fails without a mutant."""


def said_by(command, **how):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          check=False, **how)
    return done.returncode, done.stdout


class Build:
    def __init__(self, path):
        self.path = os.path.abspath(path)
        with open(os.path.join(self.path, "compile_commands.json"), encoding="utf-8") as f:
            self.commands = {os.path.relpath(e["file"], ROOT): shlex.split(e["command"]) for e in json.load(f)}
        said = subprocess.run(["ctest", "--test-dir", self.path, "--show-only=json-v1"], stdout=subprocess.PIPE, check=True)
        self.tests = {t["name"]: t for t in json.loads(said.stdout)["tests"]}

    def compile(self, file, text, work):
        """The object of one file with that text, and the archive in which the build has it."""
        command = list(self.commands[file])
        at = command.index("-o") + 1
        part = re.match(r"(.*)/CMakeFiles/(.*)\.dir/", command[at])
        source, command[at] = os.path.join(work, os.path.basename(file)), os.path.join(work, "mutant.o")
        with open(source, "w", encoding="utf-8") as f:
            f.write(text)
        code, said = said_by([*command[:-1], source, "-Wno-error"], cwd=self.path)
        if code:
            raise Broken("it does not compile: " + said[-600:])
        return command[at], f"{part.group(1)}/lib{part.group(2)}.a"

    def link_command(self, program):
        _, said = said_by(["ninja", "-t", "commands", "-s", program], cwd=self.path)
        return shlex.split(said.strip().removeprefix(": && ").removesuffix(" && :"))

    def link(self, program, made, to):
        """program, with the object before its archive; false when it has no such."""
        mutant, archive = made
        command = self.link_command(program)
        if archive not in command:
            return False
        command[command.index("-o") + 1] = to
        at = command.index(archive)
        code, said = said_by([*command[:at], mutant, *command[at:]], cwd=self.path)
        if code:
            raise Broken(f"{program} does not link: " + said[-600:])
        return True

    def shadow(self, made, work):
        """A build directory that is this one but for its daemon."""
        to = os.path.join(work, "build")
        os.makedirs(os.path.join(to, "daemon"))
        for folder in ("", "daemon"):
            for name in os.listdir(os.path.join(self.path, folder)):
                if os.path.join(folder, name) not in ("daemon", "daemon/rdmad", "mutants"):
                    os.symlink(os.path.join(self.path, folder, name), os.path.join(to, folder, name))
        if not self.link("daemon/rdmad", made, os.path.join(to, "daemon", "rdmad")):
            raise Broken("the daemon does not have its file")
        return to

    def try_test(self, name, case, made, work):
        """What a test says of an object: its code and its words."""
        if name not in self.tests:
            raise Broken(f"there is no test {name}")
        command = list(self.tests[name]["command"])
        properties = {p["name"]: p["value"] for p in self.tests[name]["properties"]}
        environment = dict(os.environ, **dict(e.split("=", 1) for e in properties["ENVIRONMENT"]))
        if "unit" in properties["LABELS"]:
            own = os.path.join(work, os.path.basename(command[1]))
            if not self.link(os.path.relpath(command[1], self.path), made, own):
                raise Broken(f"{name} does not have its file")
            command[1] = own
        else:
            environment["RDMAD_BUILD"] = self.shadow(made, work)
        return said_by(command + ([case] if case else []), cwd=ROOT, env=environment, timeout=properties["TIMEOUT"])


def attempt(build, m, text, test):
    work = os.path.join(build.path, "mutants", str(m.number))
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    name, case = (test.split("/") + [""])[:2]
    try:
        return build.try_test(name, case, build.compile(m.file, text, work), work)
    except subprocess.TimeoutExpired:
        return 1, "***Timeout"
    finally:
        shutil.rmtree(work, ignore_errors=True)


def judge(build, m, passed):
    """What the first of its tests that notices says; passed: what is known to pass without a mutant."""
    lines, at = run.place_of(m, ROOT)
    if at is None:
        raise Broken("its lines are not there exactly once; mend tests/mutants/list")
    mutant = "\n".join(lines[:at] + m.new + lines[at + len(m.old):])
    for test in m.tests:
        if (m.file, test) not in passed:
            code, said = attempt(build, m, "\n".join(lines), test)
            if code:
                raise Broken(f"{test} fails without a mutant, too: " + said[-1500:])
            passed.add((m.file, test))
        for _ in range(1 if test.startswith("unit_") else TRIES):
            code, said = attempt(build, m, mutant, test)
            if code:
                break
        words = run.words_in(said) if code else ""
        if words:
            return f"{test}: {words}"
        if code:
            raise Broken(f"{test} fails without a word: " + said[-1500:])
    raise Broken("SURVIVED: passed by " + " ".join(m.tests))


def main():
    build, bad, passed = Build(sys.argv[1]), 0, set()
    mutants = run.read_list(os.path.join(HERE, "list"))
    todo = run.chosen(mutants, sys.argv[2:])
    for wanted in sys.argv[2:]:
        if not run.chosen(mutants, [wanted]):
            print(f"no mutant is called {wanted}")
            bad += 1
    for m in todo:
        try:
            verdict, said = "noticed", judge(build, m, passed)
        except Broken as why:
            verdict, said, bad = "NOT NOTICED", str(why), bad + 1
        print(f"{m.number:3} {verdict:11} {m.file}: {m.title}\n      {said}", flush=True)
    print(f"{len(todo)} mutants chosen, {bad} complaints")
    return 1 if bad or not todo else 0


if __name__ == "__main__":
    sys.exit(main())
