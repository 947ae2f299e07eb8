#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""names.py [TREE]: no two functions of a program share a name, static or not.

A stack trace, perf and a probe say a function's name and not its file. PROGRAMS has the folders that each is made of, as
its CMakeLists.txt links them.
What a file defines is found in the text, as circles.py reads it: what a macro writes is not seen.
"""
import os
import sys

import circles

PROGRAMS = {
    "rdmad": ("daemon", "common", "pki"),
    "librdmad": ("libclient", "common"),
    "rdmactl": ("rdmactl", "libclient", "common", "pki", "daemon/base", "daemon/config"),
}
FEWEST = 500  # of each program; it has many more


def functions_of(folder, tree):
    """(name, path) of each function that a file of the folder, or of one within it, defines."""
    for place, _, files in os.walk(os.path.join(tree, folder)):
        for path in (os.path.join(place, name) for name in files if name.endswith((".c", ".h"))):
            with open(path, encoding="utf-8") as file:
                for name in circles.Source(path, file.read()).functions:
                    yield name, os.path.relpath(path, tree)


def main(tree):
    bad, counts = set(), []
    in_folder = {folder: list(functions_of(folder, tree)) for folder in sorted(set(sum(PROGRAMS.values(), ())))}
    for program, folders in PROGRAMS.items():
        files = {}
        for name, path in sum((in_folder[folder] for folder in folders), []):
            files.setdefault(name, set()).add(path)
        bad.update(f"{name} is a function of {' and of '.join(sorted(paths))}: rename one after what it does there, "
                   "as FILE'S-NOUN_VERB" for name, paths in files.items() if len(paths) > 1)
        if len(files) < FEWEST:
            bad.add(f"only {len(files)} functions of {program} were found: the sources are read wrongly")
        counts.append(f"{len(files)} of {program}")
    print("\n".join("FAILED: " + text for text in sorted(bad)) or
          "each function has a name of its own: " + ", ".join(counts))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:] or [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]))
