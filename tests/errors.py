#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""errors.py: every error code has an integration test that produces it, with a real daemon and a real client.

tests/errors has a line for each code: the code, the test, the file of it that asserts the code; or, of a code that
cannot be produced from outside, "never" and why. This says which code of abi.h has no line, which has only tests of
parts, and which line is not true any more: the test is not registered, its file has no assertion with the code in it,
or a test does produce what never can be. That a comment, a table or a condition names a code is no assertion, nor is
one that other codes satisfy, too (||). What it does not say is whether the assertion is reached: it reads the tests.
"""
import glob
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
# Calls and macros that end a case, or fail a script, when a code is another.
ASSERTS = re.compile(r"\b(CHECK|REFUSED|BAD|SPOIL|\w*refus\w*|\w*expect_\w+|fails|not_imported|grep|has)\b")
# Rows of a table that a loop hands to one of those.
TABLE = re.compile(r"^\s*\{(RDMAD_E_\w+), \".*, \w+\},$", re.M)
COMMENT = re.compile(r"/\*.*?\*/|(?m:^[ \t]*#(?!define)[^\n]*$)", re.S)


def registered():
    text = ""
    for folder, _, names in os.walk(HERE):
        for name in names:
            if name.endswith(".cmake") or name == "CMakeLists.txt":
                text += open(os.path.join(folder, name), encoding="utf-8").read()
    return text


def asserts(path, code):
    """An assertion is a statement, from the end of the one before; it may go over some lines."""
    text = COMMENT.sub("", open(path, encoding="utf-8", errors="replace").read())
    for found in re.finditer(rf"\b{code}\b", text):
        begin = max(text.rfind(end, 0, found.start()) for end in ";{}") + 1
        either = path.endswith(".c") and "||" in text[begin:(text + ";").find(";", found.start())]
        if ASSERTS.search(text, begin, found.start()) and not either:
            return True
    return code in TABLE.findall(text) and "table[i].code" in text


def is_registered(test, tests):
    """Some are declared by a loop over the ends of their names."""
    words = test.split("_")
    ends = "|".join("_".join(words[i:]) for i in range(len(words)))
    return re.search(rf"(?<![\w])({ends})\b", tests)


def produced(known):
    """Which of the known codes integration tests assert, each with one of their files."""
    codes = {}
    for path in sorted(glob.glob(os.path.join(HERE, "integration", "*"))):
        if path.endswith((".c", ".sh")):
            text = open(path, encoding="utf-8", errors="replace").read()
            for code in set(known).intersection(re.findall(r"\bRDMAD_E_\w+", text)) - set(codes):
                if asserts(path, code):
                    codes[code] = os.path.relpath(path, HERE)
    return codes


def judge(code, words, tests, found):
    """What is wrong with a line, or nothing."""
    if words[0] == "never":
        if len(words) < 5:
            return "tests/errors does not say why it cannot be produced"
        return f"tests/{found[code]} does produce it" if code in found else None
    if len(words) != 2:
        return "tests/errors names no test and its file"
    test, path = words
    if not path.startswith("integration/"):
        return f"tests/{path} is no integration test: name one, or say why there can be none"
    if not is_registered(test, tests):
        return f"there is no test {test}"
    full = os.path.join(HERE, path)
    return None if os.path.exists(full) and asserts(full, code) else f"tests/{path} does not assert it"


def main():
    bad = []
    with open(os.path.join(ROOT, "include", "rdmad", "abi.h"), encoding="utf-8") as file:
        codes = re.findall(r"X\((RDMAD_E_\w+), -", file.read())
    tests, found, rows = registered(), produced(codes), {}
    with open(os.path.join(HERE, "errors"), encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                code, *words = line.split()
                rows.setdefault(code, []).append(words)
    for code in codes:
        if code not in rows:
            bad.append(f"{code}: tests/errors names no test that produces it")
    for code, lines in rows.items():
        if code not in codes:
            bad.append(f"{code}: there is no such error")
            continue
        wrong = [judge(code, words, tests, found) for words in lines]
        bad.extend(f"{code}: {text}" for text in wrong if text)
    if len(codes) < 40 or len(found) < 40:
        bad.append(f"only {len(codes)} codes and {len(found)} assertions were found: they are read wrongly")
    print("\n".join("FAILED: " + text for text in bad) or f"{len(codes)} codes, {len(found)} of them produced from outside")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
