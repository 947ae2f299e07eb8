#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""probes.py BUILD SOURCE: the probes are where they are said to be, and cost what they are said to.

What is read is the program as it was linked, so nothing of the kernel is needed:
- daemon/base/probe.h, rdmad-probes(7) and the notes in rdmad name the same probes with the same arguments;
- at each place that a note names there is one nop, an instruction of its own, and no semaphore is tested;
- bpftrace's scripts know no other probes, and all arguments that they take are there;
- tests/unit/probe_cost.c, built with probes and without, counts the instructions of the same turns of a worker:
  each probe of the way may add its nop and one move, and that of the ring one more in all;
- rdmad-probes(7) says what share of a local write's instructions that is;
- counted the same way, with traces and where nobody can trace: while nobody does it is a comparison and a branch.
"""
import os
import re
import subprocess
import sys

BUILD, SOURCE = sys.argv[1:3]
RDMAD = os.path.join(BUILD, "daemon/rdmad")
# What is on an op's way in each case of probe_cost; a sixteenth of ring_flushed besides.
WAYS = {
    "local_write_8": ["op_taken", "op_admitted", "op_posted", "access_begun", "op_part_done", "op_ended", "op_told"],
    "local_read_8": ["op_taken", "op_admitted", "op_posted", "access_begun", "op_part_done", "op_ended", "op_told"],
    "link_write_8": ["op_taken", "op_admitted", "op_posted"],
    "refused": ["op_taken", "op_refused", "op_told"],
    "nop": ["op_taken", "op_told"],
}
# How many instructions it may cost that somebody could trace (daemon/op/engine/trace.h): a comparison and a branch as an
# op begins, as it ends and as it is answered; what is answered at once has one more, which keeps its request at hand until then, and a refusal another.
TRACED = {"local_write_8": 4, "local_read_8": 4, "link_write_8": 2, "refused": 4, "nop": 3}
bad = []


def fail(text):
    bad.append(text)
    print("FAILED:", text)


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def header():
    """name -> names of arguments; each has a comment, and gives its probe just what it has."""
    found = {}
    text = read("daemon/base/probe.h")
    pattern = r"(\*/\n)?SDT_INLINE probe_(\w+)\(([^)]*)\) \{\n    SDT\((\w+),([^;]*)\);\n\}"
    for comment, name, declared, noted, given in re.findall(pattern, text):
        arguments = [re.split(r"[\s*]+", word.strip())[-1] for word in declared.split(",")]
        if not comment:
            fail(f"probe.h: {name} has no comment")
        if noted != name or arguments != [word.strip() for word in given.split(",")]:
            fail(f"probe.h: probe_{name}({', '.join(arguments)}) notes {noted}({given.strip()})")
        if len(arguments) > 6:
            fail(f"probe.h: {name} has {len(arguments)} arguments; bpftrace reads no more than six")
        found[name] = arguments
    if len(found) != text.count("SDT_INLINE probe_"):
        fail("probe.h is read wrongly: not every probe was understood")
    return found


def manual():
    found = {}
    for name, arguments in re.findall(r"^\*(\w+)\*\(([^)]*)\)$", read("docs/man/rdmad-probes.7.scd"), re.M):
        found[name] = re.findall(r"_(\w+)_(?=,|$)", arguments)
    return found


def notes(program):
    """[(name, address, semaphore, number of arguments)], all of the provider rdmad."""
    found = []
    for part in output("readelf", "-nW", program).split("Provider: ")[1:]:
        provider, name, address, semaphore, arguments = re.match(
            r"(\w+)\s+Name: (\w+)\s+Location: (\w+), Base: \w+, Semaphore: (\w+)\s+Arguments: ?(.*)", part).groups()
        if provider == "rdmad":
            found.append((name, int(address, 16), int(semaphore, 16), len(arguments.split())))
        else:
            fail(f"a probe of provider {provider}: {name}")
    return found


def check_names(probes):
    pages = manual()
    for name in sorted(probes.keys() | pages.keys()):
        if probes.get(name) != pages.get(name):
            fail(f"{name}: probe.h has {probes.get(name)}, rdmad-probes(7) {pages.get(name)}")
    sites = notes(RDMAD)
    for name in sorted(probes.keys() - {site[0] for site in sites}):
        fail(f"{name}: no such note in rdmad; nobody calls it")
    for name, address, semaphore, count in sites:
        if name not in probes:
            fail(f"{name}: a note in rdmad, but not in probe.h")
        elif count != len(probes[name]):
            fail(f"{name} at {address:#x}: {count} arguments, not {len(probes[name])}")
        if semaphore:
            fail(f"{name} at {address:#x}: a semaphore, which somebody would have to test")
    return sites


def check_nops(sites):
    """objdump says where instructions begin, so the middle of another one is no nop."""
    code = {}
    for line in output("objdump", "-d", "--section=.text", RDMAD).splitlines():
        match = re.match(r"\s*([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*\t?(.*)", line)
        if match:
            code[int(match[1], 16)] = match[2].strip(), match[3].strip()
    for name, address, _, _ in sites:
        if code.get(address, (None, None)) != ("90", "nop"):
            fail(f"{name} at {address:#x}: there is {code.get(address)}, not one nop")


def check_scripts(probes):
    folder = "deploy/bpftrace"
    for script in sorted(os.listdir(os.path.join(SOURCE, folder))):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", read(folder, script), flags=re.S)
        blocks = re.split(r"^usdt:@RDMAD_PROGRAM@:rdmad:", text, flags=re.M)[1:]
        if not blocks:
            fail(f"{script}: no probe of rdmad")
        for block in blocks:
            name = re.match(r"\w+", block)[0]
            most = max([int(n) for n in re.findall(r"\barg(\d+)", block.split("\n}\n")[0])] or [-1])
            if name not in probes:
                fail(f"{script}: there is no probe {name}")
            elif most >= len(probes[name]):
                fail(f"{script}: {name} has no arg{most}")


def is_optimized():
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as cache:
        return bool(re.search(r"^CMAKE_BUILD_TYPE:\w+=Rel", cache.read(), re.M))


def check_page(counts):
    """What rdmad-probes(7) says that they cost when nobody looks is what they cost here."""
    on, off = (counts[program]["local_write_8"] for program in ("probe_cost", "probe_cost_off"))
    percent = 100 * (on - off) / off
    said = re.search(r"which\nare ([0-9.]+) % of its instructions", read("docs", "man", "rdmad-probes.7.scd"))
    print(f"  {percent:.2f} % of a local write")
    if not said or not 0.5 < percent / float(said[1]) < 1.5:
        fail(f"rdmad-probes(7) says {said[1] if said else 'no'} %, a local write of 8 bytes has {percent:.2f} % for its probes")


def check_cost(probes):
    counts = {}
    if not is_optimized():
        print("skipped: nothing is counted: the build is not one that anybody runs")
        return
    for program in ("probe_cost", "probe_cost_off", "trace_cost_off"):
        path = os.path.join(BUILD, "tests", program)
        if not os.path.exists(path):
            print(f"skipped: nothing is counted: there is no {program}")
            return
        said = output(path)
        counts[program] = {name: float(value) for name, value in re.findall(r"^(\w+) ([0-9.]+)$", said, re.M)}
        if not said:
            print("skipped: nothing is counted: this kernel lets nobody step through a process")
            return
    for name, _, _, _ in notes(os.path.join(BUILD, "tests/probe_cost_off")):
        fail(f"{name} is in probe_cost_off: its file is missing in tests/unit/probes.cmake")
    met = {site[0] for site in notes(os.path.join(BUILD, "tests/probe_cost"))}
    for name in sorted({probe for probe in probes if probe.startswith("op_")} - met):
        fail(f"{name} is not in probe_cost")
    check_page(counts)
    for case, way in WAYS.items():
        on, off = counts["probe_cost"][case], counts["probe_cost_off"][case]
        extra, most = on - off, 2 * len(way) + 1
        print(f"  {case:14} {off:8.1f} instructions without probes, {extra:4.1f} more with its {len(way)}")
        if extra < len(way):
            fail(f"{case}: {extra:.1f} more instructions for {len(way)} probes: one of them is not on the way")
        if extra > most:
            fail(f"{case}: {extra:.1f} more instructions for {len(way)} probes, at most {most:.1f} are promised")
        extra = on - counts["trace_cost_off"][case]
        print(f"  {case:14} {extra:8.1f} of all because somebody could trace")
        if not 0 < extra <= TRACED[case]:
            fail(f"{case}: {extra:.1f} instructions because somebody could trace, at most {TRACED[case]} are promised")


def main():
    probes = header()
    sites = check_names(probes)
    print(f"{len(probes)} probes in {len(sites)} places")
    check_nops(sites)
    check_scripts(probes)
    check_cost(probes)
    return 1 if bad else 0


if not notes(RDMAD):
    print("skipped: rdmad was built without probes: there is no <sys/sdt.h>, or RDMAD_PROBES is off")
    sys.exit(77)
sys.exit(main())
