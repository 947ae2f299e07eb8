#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""filtered.py PROFILE COMMAND...: runs COMMAND under a seccomp profile of the OCI runtime's format, as a runtime would.

What of a profile this does not know is an error, so that a test under it is one.
"""
import ctypes
import json
import os
import struct
import subprocess
import sys

LOAD, EQUAL, AND, RETURN = 0x20, 0x15, 0x54, 0x06  # BPF
NUMBER, ARCH, ARGUMENTS = 0, 4, 16                 # of struct seccomp_data
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2


def numbers():
    """The kernel's number of each call."""
    said = subprocess.run(["cc", "-E", "-dM", "-x", "c", "-"], input="#include <asm/unistd.h>\n", stdout=subprocess.PIPE,
                          check=True, text=True)
    words = [line.split() for line in said.stdout.splitlines()]
    return {w[1][5:]: int(w[2]) for w in words if len(w) == 3 and w[1].startswith("__NR_") and w[2].isdigit()}


def verdict(rule, of):
    action = rule[of("action", "defaultAction")]
    if action == "SCMP_ACT_ALLOW":
        return ALLOW
    if action == "SCMP_ACT_ERRNO":
        return ERRNO | rule.get(of("errnoRet", "defaultErrnoRet"), 1)
    sys.exit(f"filtered.py: does not know {action}")


def one_rule(number, rule):
    """Instructions that end here if the rule fits, and go on behind them if not."""
    end = [(RETURN, 0, 0, verdict(rule, lambda own, _: own))]
    for a in rule.get("args", []):
        if sys.byteorder != "little":
            sys.exit("filtered.py: knows little endian only")
        test = [(LOAD, 0, 0, ARGUMENTS + 8 * a["index"])]  # the lower half: all that is asked for is 32 bits wide
        if a["op"] == "SCMP_CMP_EQ":
            test.append((EQUAL, 0, 1, a["value"]))
        elif a["op"] == "SCMP_CMP_MASKED_EQ":
            test += [(AND, 0, 0, a["value"]), (EQUAL, 0, 1, a["valueTwo"])]
        else:
            sys.exit(f"filtered.py: does not know {a['op']}")
        if len(rule["args"]) > 1:
            sys.exit("filtered.py: knows one argument a rule")
        end = test + end
    return [(LOAD, 0, 0, NUMBER), (EQUAL, 0, len(end), number)] + end


def program(profile):
    """The filter as bytes, as prctl(2) takes them."""
    unknown = set(profile) - {"defaultAction", "defaultErrnoRet", "syscalls"}
    unknown |= {k for r in profile["syscalls"] for k in r} - {"names", "action", "errnoRet", "args"}
    if unknown:
        sys.exit(f"filtered.py: does not know {', '.join(sorted(unknown))}")
    known = numbers()
    code = [(LOAD, 0, 0, ARCH), (EQUAL, 1, 0, ARCHES[os.uname().machine]), (RETURN, 0, 0, KILL)]
    for rule in profile["syscalls"]:
        for name in rule["names"]:
            if name in known:  # others are of other machines
                code += one_rule(known[name], rule)
    code.append((RETURN, 0, 0, verdict(profile, lambda _, default: default)))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main():
    code = program(load(sys.argv[1]))
    libc = ctypes.CDLL(None, use_errno=True)
    keep = ctypes.create_string_buffer(code)
    filter_of = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(keep))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_of, 0, 0):
        sys.exit(f"filtered.py: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
