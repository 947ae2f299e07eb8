#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""build_depends.py: Build-Depends in debian/control names what the build needs: the packages of the headers that the
sources include, of the modules that CMake asks pkg-config for, of the programs that it looks for, and of debhelper's
own. And nothing that none of these needs. Asked is dpkg of this machine.

That is cheap, and not all: scripts/package.sh --clean builds with nothing else (test_clean_build).
"""
import glob
import os
import re
import shutil
import subprocess
import sys

# What is built for the packages.
PARTS = ("common", "daemon", "examples", "include", "libclient", "pki", "python", "rdmactl")
# build-essential, which is never named.
ESSENTIAL = {"libc6-dev", "linux-libc-dev"}
# find_package(NAME), a way to build that debian/rules or a file there names, and whose package it is.
BY_NAME = {"PkgConfig": "pkg-config", "Threads": "libc6-dev", "Python3": "python3"}
IN_RULES = {"cmake+ninja": ("cmake", "ninja-build"), "-DRDMAD_PYTHON=ON": ("python3-cffi", "dh-sequence-python3"),
            "dh ": ("debhelper-compat",)}
IN_TREE = {"systemd/rdmad.sysusers": "dh-sequence-installsysusers"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def sources(*ends):
    for part in PARTS + ("docs", "systemd"):
        for folder, _, names in os.walk(part):
            yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(ends))


def owners(paths):
    """{path: the package that has it}, for those that one has. One question for all: each takes a tenth of a second."""
    said = subprocess.run(["dpkg-query", "-S", *paths], capture_output=True, text=True, check=False).stdout
    return {path: re.split("[:,]", line)[0] for line in said.splitlines() for path in [line.rsplit(": ", 1)[-1]]}


def header(name):
    for folder in ["/usr/include"] + glob.glob("/usr/include/*-linux-gnu"):
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    return None  # ours, or the compiler's


def files():
    """{path: what of it is needed}, of files that some package has."""
    need = {}
    for path in sources(".c", ".h"):
        for name in re.findall(r"^\s*#\s*include\s*<([^>]+)>", read(path), re.M):
            if header(name):
                need.setdefault(header(name), f"<{name}> in {path}")
    for path in ["CMakeLists.txt", *sources("CMakeLists.txt")]:
        for modules in re.findall(r"pkg_check_modules\(\w+ REQUIRED IMPORTED_TARGET ([^)]+)\)", read(path)):
            for module in re.sub(r">=[\d.]+", "", modules).split():
                folder = subprocess.run(["pkg-config", "--variable=pcfiledir", module], capture_output=True, text=True,
                                        check=False).stdout.strip()
                need.setdefault(f"{folder}/{module}.pc", f"pkg-config's {module} in {path}")
        for name in re.findall(r"find_program\(\w+ ([\w-]+)", read(path)):
            need.setdefault(os.path.realpath(shutil.which(name) or name), f"the program {name} in {path}")
    return need


def needed():
    """[(package or None, what of it is needed)]"""
    asked = files()
    known = owners(asked)
    need = [(known.get(path), what) for path, what in asked.items()]
    for path in ["CMakeLists.txt", *sources("CMakeLists.txt")]:
        need += [(BY_NAME.get(name), f"find_package({name}) in {path}")
                 for name in re.findall(r"find_package\((\w+)", read(path))]
    rules = read("debian/rules")
    need += [(package, f"'{words.strip()}' in debian/rules")
             for words, packages in IN_RULES.items() if words in rules for package in packages]
    return need + [(package, path) for path, package in IN_TREE.items() if os.path.exists(path)]


def main():
    if not shutil.which("dpkg-query") or not shutil.which("pkg-config"):
        print("skipped: no dpkg or pkg-config to ask")
        return 77
    control = read("debian/control")
    field = re.search(r"^Build-Depends:((?:\n? .*)+)", control, re.M)
    named = {re.match(r"[\w.+-]+", it.strip())[0] for it in field[1].split(",") if it.strip()}
    need = needed()
    bad = [f"nobody here has {what}" for package, what in need if package is None]
    bad += [f"Build-Depends has no {package}, for {what}"
            for package, what in need if package and package not in named | ESSENTIAL]
    # Of another architecture there is nothing here to ask.
    other = {it for it in named if re.search(rf"^ {re.escape(it)}\b.*\[", control, re.M)}
    bad += [f"Build-Depends has {package}, which nothing needs" for package in sorted(named - {package for package, _ in need} - other)]
    print("\n".join("FAILED: debian/control: " + text for text in bad) or
          f"{len(named)} packages of Build-Depends are what the build needs")
    return 1 if bad else 0


sys.exit(main())
