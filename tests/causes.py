#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""causes.py [TREE]: rdmad(8), AUDIT, names each cause that the daemon's audit can have, and no other.

A cause is a literal of an AUDIT() in daemon/, or what audit_cause_of() has for an error, or a word with one of the dots
of DOTTED in the parts that hand one on. Names of the administration's calls, which are causes too, are not listed there.
"""
import os
import re
import sys

# Whose causes are written where something fails, and told by one function for all.
DOTTED = re.compile(r'"((?:tls|join|policy|rate|identity|audit)\.[a-z_]+)"')
HAND_ON = ("daemon/peer", "daemon/base", "daemon/state/identity.c", "daemon/plane_told.c")
CALL = re.compile(r"\bAUDIT\(\s*[A-Z]+,(.*?),\s*(?:audit_|session_who|peer_who|who\b|whose\b)", re.DOTALL)
LIMITED = "various"  # of the audit itself (audit_limit.c)
FEWEST = 40


def sources(tree):
    for place, _, files in os.walk(os.path.join(tree, "daemon")):
        for path in (os.path.join(place, name) for name in files if name.endswith(".c")):
            with open(path, encoding="utf-8") as file:
                yield os.path.relpath(path, tree), file.read()


def causes_of(tree):
    causes = {LIMITED}
    for path, text in sources(tree):
        for argument in CALL.findall(text):
            causes.update(re.findall(r'"([a-z_.]+)"', argument))
        if path.startswith(HAND_ON):
            causes.update(DOTTED.findall(text))
        if path == "daemon/base/audit_cause.c":
            causes.update(re.findall(r'return "([a-z]+)"', text))
    return causes


def documented(tree):
    with open(os.path.join(tree, "docs/man/rdmad.8.scd"), encoding="utf-8") as file:
        part = re.search(r"^\*cause\*\n(.*?)\n\n", file.read(), re.DOTALL | re.MULTILINE)
    words = re.findall(r"\*([a-z_.]+)\*", part[1].replace("\\_", "_")) if part else ()
    return {word for word in words if not re.match(r"limits\.|(bytes|ops)_per_second$", word)}


def main(tree):
    causes, named = causes_of(tree), documented(tree)
    bad = [f"rdmad(8), AUDIT, does not name the cause {c}" for c in sorted(causes - named)]
    bad += [f"rdmad(8), AUDIT, names {c}, which is no cause" for c in sorted(named - causes)]
    if len(causes) < FEWEST:
        bad.append(f"only {len(causes)} causes were found: the sources are read wrongly")
    print("\n".join("FAILED: " + text for text in bad) or f"rdmad(8) names all {len(causes)} causes of the audit")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:] or [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]))
