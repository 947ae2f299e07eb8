#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""errors.py: every error code has a test that produces it.

tests/errors has a line for each code: the code, the test, the file of it that asserts the code. This
says which code of abi.h has no line, and which line is not true any more: the test is not registered, or
its file has no assertion with the code in it. That a comment or a table names a code is no assertion.
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
ASSERTS = re.compile(r"assert|REQUIRE|EXPECT|[Cc]heck|CHECK|must|expect|refused|==|!=|\beq\b|\bcode\b|\bhas\b|grep", re.I)


def registered():
    text = ""
    for folder, _, names in os.walk(HERE):
        for name in names:
            if name.endswith(".cmake") or name == "CMakeLists.txt":
                text += open(os.path.join(folder, name), encoding="utf-8").read()
    return text


def asserts(path, code):
    """An assertion may go over some lines: its end, the code, may stand below its name."""
    lines = open(path, encoding="utf-8", errors="replace").read().split("\n")
    for i, line in enumerate(lines):
        bare = re.sub(r"/\*.*?(\*/|$)|^\s*\*.*|^\s*#(?!\!).*", "", line)
        if re.search(rf"\b{code}\b", bare) and ASSERTS.search(" ".join(lines[max(0, i - 2):i + 1])):
            return True
    return False


def main():
    bad = []
    with open(os.path.join(ROOT, "include", "rdmad", "abi.h"), encoding="utf-8") as file:
        codes = re.findall(r"X\((RDMAD_E_\w+), -", file.read())
    tests, rows = registered(), {}
    for line in open(os.path.join(HERE, "errors"), encoding="utf-8"):
        if line.strip() and not line.startswith("#"):
            code, test, path = line.split()
            rows.setdefault(code, []).append((test, path))
    for code in codes:
        if code not in rows:
            bad.append(f"{code}: tests/errors names no test that produces it")
    for code, found in rows.items():
        if code not in codes:
            bad.append(f"{code}: there is no such error")
        for test, path in found:
            if test == "never" and code == "RDMAD_E_INTERNAL":
                continue
            full = os.path.join(HERE, path)
            # Some are declared by a loop over the ends of their names.
            words = test.split("_")
            ends = "|".join("_".join(words[i:]) for i in range(len(words)))
            if not re.search(rf"(?<![\w])({ends})\b", tests):
                bad.append(f"{code}: there is no test {test}")
            elif not os.path.exists(full) or not asserts(full, code):
                bad.append(f"{code}: tests/{path} does not assert it")
    print("\n".join("FAILED: " + text for text in bad))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
