#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tidy.py ROOT BUILD DIRECTORY...: clang-tidy has nothing to say of what BUILD compiles of ROOT/DIRECTORY.

What is compiled for several programs in the same way but for -o and -fPIC is looked at once. One clang-tidy
looks at several files, as it takes a fifth of a second to begin; where it finds something, at each by itself.

A file that was clean is not looked at again until it, something that it includes, the command that
compiles it, .clang-tidy or clang-tidy itself has changed: BUILD/tidy has a stamp for each, of all of
these. What a file includes is what ninja wrote down when it was compiled; a file that was not is
always looked at.
"""
import concurrent.futures
import glob
import hashlib
import json
import os
import subprocess
import sys

TOGETHER = 8


def said_by(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)
    return done.returncode, done.stdout


def includes(build):
    """Object -> what it was compiled of, by ninja's log."""
    of, now = {}, None
    for line in said_by("ninja", "-C", build, "-t", "deps")[1].splitlines():
        if line.startswith("    ") and now is not None:
            now.append(os.path.join(build, line.strip()))
        elif ": #deps" in line:
            now = [] if "(VALID)" in line else None
            if now is not None:
                of[line.split(": #deps")[0]] = now
    return of


class Stamps:
    def __init__(self, root, build):
        self.directory = os.path.join(build, "tidy")
        os.makedirs(self.directory, exist_ok=True)
        self.hashes = {}
        self.common = said_by("clang-tidy", "--version")[1]
        for path in sorted(glob.glob(root + "/**/.clang-tidy", recursive=True) + [root + "/.clang-tidy"]):
            self.common += self.hash_of(path)

    def hash_of(self, path):
        if path not in self.hashes:
            try:
                with open(path, "rb") as f:
                    self.hashes[path] = hashlib.sha256(f.read()).hexdigest()
            except OSError:
                self.hashes[path] = "none"
        return self.hashes[path]

    def of(self, file, compiled):
        """compiled: each command that compiles it, and what that included; "" when one is not known."""
        parts = [self.common, self.hash_of(file)]
        for command, included in compiled:
            if not included:
                return ""
            parts += [command] + [path + self.hash_of(path) for path in included]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def path(self, file):
        return os.path.join(self.directory, hashlib.sha256(file.encode()).hexdigest()[:32])

    def has(self, file, stamp):
        try:
            with open(self.path(file), encoding="utf-8") as f:
                return stamp != "" and f.read() == stamp
        except OSError:
            return False

    def keep(self, file, stamp):
        with open(self.path(file), "w", encoding="utf-8") as f:
            f.write(stamp)


def object_of(entry):
    words = entry["command"].split()
    return words[words.index("-o") + 1]


def as_seen(entry):
    """What of a command clang-tidy's answer depends on."""
    words = entry["command"].split()
    at = words.index("-o")
    return entry["file"], tuple(w for w in words[:at] + words[at + 2:] if w not in ("-fPIC", "-fPIE"))


def write_commands(entries, directory):
    """A compile_commands.json for clang-tidy, which looks at a file once for each command there."""
    once = {as_seen(e): e for e in reversed(entries)}
    with open(os.path.join(directory, "compile_commands.json"), "w", encoding="utf-8") as f:
        json.dump(list(once.values()), f)


def main():
    root, build = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    wanted = tuple(os.path.join(root, d) + "/" for d in sys.argv[3:])
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        entries = [e for e in json.load(f) if e["file"].startswith(wanted)]
    included, stamps, compiled = includes(build), Stamps(root, build), {}
    for entry in entries:
        how = entry["command"], included.get(object_of(entry))
        compiled.setdefault(entry["file"], []).append(how)
    write_commands(entries, stamps.directory)
    todo = [(file, stamps.of(file, how)) for file, how in compiled.items()]
    todo = [job for job in todo if not stamps.has(*job)]

    def look(jobs):
        """What was said of those that are not clean."""
        files = [file for file, _ in jobs]
        code, said = said_by("nice", "-n", "19", "clang-tidy", "-p", stamps.directory, "--quiet", *files)
        if code and len(jobs) > 1:
            return [said for job in jobs for said in look([job])]
        if code:
            return [said]
        for file, stamp in jobs:
            if stamp:
                stamps.keep(file, stamp)
        return []

    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for faults in pool.map(look, [todo[i:i + TOGETHER] for i in range(0, len(todo), TOGETHER)]):
            bad += len(faults)
            for said in faults:
                print(said, flush=True)
    print(f"clang-tidy looked at {len(todo)} of {len(compiled)} files, {bad} have faults")
    return 1 if bad or not compiled else 0


if __name__ == "__main__":
    sys.exit(main())
