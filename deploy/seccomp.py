#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""seccomp.py [UNIT]: the seccomp profile of rdmad's container, as deploy/kubernetes/base/seccomp.json has it.

It lets in what the unit's SystemCallFilter does (systemd-analyze says what its groups are), and what a container's daemon
does besides: it gives sockets to tenants (chown). As the unit's RestrictNamespaces and RestrictAddressFamilies say,
there are no new namespaces and no other sockets. Without that profile a runtime's own would do, but none of them lets
in userfaultfd, by which clients cannot take pages away.

The format is the OCI runtime's, which docker, podman, containerd and CRI-O read.
"""
import json
import os
import re
import socket
import subprocess
import sys

UNIT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "systemd", "rdmad.service")
BESIDES = ["@chown"]
NAMESPACES = 0x7E020000  # CLONE_NEW*
ENOSYS = 38


def groups():
    """Each group's names, of calls and of other groups."""
    said = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter"], stdout=subprocess.PIPE, check=True, text=True)
    found, group = {}, None
    for line in said.stdout.splitlines():
        line = re.sub(r"\x1b\[[0-9;]*m", "", line)
        if line.startswith("@"):
            group = found.setdefault(line.strip(), [])
        elif not line.startswith(" "):
            group = None
        elif group is not None and not line.strip().startswith("#"):
            group.append(line.strip())
    return found


def expand(name, found):
    if not name.startswith("@"):
        return {name}
    return set().union(*(expand(n, found) for n in found[name]))


def settings(unit, key):
    with open(unit, encoding="utf-8") as file:
        return [line.split("=", 1)[1].strip() for line in file if line.startswith(key + "=")]


def calls(unit):
    """As systemd reads them: one after the other, a '~' takes away."""
    found = groups()
    allowed = expand("@default", found)
    for line in settings(unit, "SystemCallFilter"):
        names = set().union(*(expand(n, found) for n in line.lstrip("~").split()))
        allowed = allowed - names if line.startswith("~") else allowed | names
    return allowed.union(*(expand(n, found) for n in BESIDES))


def argument(value, op="SCMP_CMP_EQ", wanted=0):
    return [{"index": 0, "value": value, "valueTwo": wanted, "op": op}]


def profile(unit):
    some = {"clone", "clone3", "socket", "unshare", "setns"}
    rules = [{"names": sorted(calls(unit) - some), "action": "SCMP_ACT_ALLOW"},
             {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": argument(NAMESPACES, "SCMP_CMP_MASKED_EQ")},
             # Its arguments cannot be seen: the C library goes on with clone.
             {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS}]
    for family in " ".join(settings(unit, "RestrictAddressFamilies")).split():
        rules.append({"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": argument(int(getattr(socket, family)))})
    return {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1, "syscalls": rules}


if __name__ == "__main__":
    print(json.dumps(profile(sys.argv[1] if len(sys.argv) > 1 else UNIT), indent=1))
