# SPDX-License-Identifier: MIT
"""commands.py: which commands of rdmactl the scripts of the tests run, read from their text.

A call is rdmactl, or a function of the script whose body calls it (a() { "$rdmactl" -d "$work/a" "$@"; }), with the words
behind it: options, then object and verb. Comments and the texts of messages are left out, what $(...) runs within a
string is not; a variable is what the script's loops have it be. Of programs in C: lists of arguments with "-d" in them.
What this does not see: words in arrays and other variables, calls by programs in Python, whether a line is reached, and
whether its outcome is looked at. An argument that is called like a function (tells b peer up) is taken for a call of it.
"""
import glob
import os
import re
import shlex

SCRIPTS = ("tests/integration/*.sh", "tests/integration/*.c", "tests/packages/*.sh", "tests/deploy/*.sh", "scripts/tour.sh", "quickstart")
WITH_VALUE = ("-d", "--timeout", "-f", "--socket")


def lines_of(text):
    """Lines of a script as they are run: those that go on joined, without comments and here-documents."""
    text = re.sub(r"<<-?\s*'?(\w+)'?([^\n]*)\n.*?\n\s*\1(?=\n)", r"\2", text.replace("\\\n", " "), flags=re.S)
    return [line for line in text.split("\n") if not re.match(r"\s*#", line)]


def bare(line):
    """The line with what it runs within strings, and without the strings' texts; a text of one word stays."""
    line = re.sub(r"'[^']*'", lambda m: m.group(0)[1:-1] if re.fullmatch(r"'[\w.:=/-]*'", m.group(0)) else " _ ", line)
    line = re.sub(r'"\$\(', "$(", line)
    line = re.sub(r'"\$(\w+)"', r"$\1", line)
    return re.sub(r'"[^"$()]*"|"(?:[^"()]|\$\()*"', lambda m: m.group(0)[1:-1] if re.fullmatch(r'"[\w.:=/$-]*"', m.group(0)) else " _ ", line)


def callers(lines):
    """What calls rdmactl, and the words that it puts before its own: rdmactl, and functions that hand theirs on."""
    names, more = {"rdmactl": []}, True
    while more:
        more, name = False, None
        call = re.compile(rf"(?:^|[\s/(])({'|'.join(names)})\b([^;|&]*)\"\$(?:@|\{{@:\d\}})\"")
        for line in lines:
            start = re.match(r"\s*(\w+)\(\) \{", line)
            name = start.group(1) if start else None if re.match(r"\}", line) else name
            found = call.search(line.replace('"$rdmactl"', "rdmactl")) if name and name not in names else None
            if found:
                before = bare(found.group(2)).split()
                names[name] = names[found.group(1)] + \
                    [w for i, w in enumerate(before) if w != "_" or (i and before[i - 1] in WITH_VALUE)]
                more = True
    return names


def loops(lines):
    """The words that a variable of a loop stands for."""
    out = {}
    for line in lines:
        found = re.match(r"\s*for (\w+) in (.*); do$", line)
        if found and found.group(2).count("'") % 2 == 0 and found.group(2).count('"') % 2 == 0:
            out.setdefault(found.group(1), []).extend(shlex.split(found.group(2)))
    return out


def calls(path):
    """The words of each call in a script, as far as they are words."""
    lines = lines_of(open(path, encoding="utf-8").read())
    names, values = callers(lines), loops(lines)
    call = re.compile(rf"(?:^|[\s/(!;]|\$)({'|'.join(names)})((?:\s+[^\s;|&()<>]+)+)")
    for line in map(bare, lines):
        at = 0
        while (found := call.search(line, at)):
            words = names[found.group(1)] + found.group(2).split()
            variable = next((w[1:] for w in words if w[:1] == "$" and w[1:] in values), None)
            for value in values.get(variable, [""]):
                yield [part for word in words for part in (value.split() if variable and word == "$" + variable else [word])]
            at = found.end(1)


def calls_of_c(path):
    """Of a program: the texts of each list of arguments that has a "-d" in it, as the daemon's directory is given."""
    text = open(path, encoding="utf-8").read()
    if "rdmactl/rdmactl" in text and not path.endswith("test_args.c"):  # which has them refused
        for found in re.finditer(r"\{([^{};]*\"-d\",[^{};]*)\}", text):
            yield [word for word in re.findall(r'"([^"]*)"', found.group(1).split('"-d",')[1])]


def command_of(words):
    """(object, verb or "", options) of the words behind rdmactl; None: no word of a command."""
    at, plain, options = 0, [], set()
    while at < len(words):
        word = words[at].strip("\"'")
        if re.match(r"--?[a-z]", word):
            options.add(word.split("=")[0])
            at += not plain and word in WITH_VALUE
        elif word != "--" and not (not plain and re.fullmatch(r"[a-d]\d?", word)):  # or the name of a daemon
            plain.append(word)
        at += 1
    if not plain or not re.fullmatch(r"[a-z]+", plain[0]):
        return None
    verb = plain[1] if len(plain) > 1 and re.fullmatch(r"[a-z]+", plain[1]) else ""
    return plain[0], verb, options


def run_by_tests(source):
    """{(object, verb): {file: options}}; a verb is whatever second word there is."""
    out = {}
    for pattern in SCRIPTS:
        for path in sorted(glob.glob(os.path.join(source, pattern))):
            for words in (calls_of_c if path.endswith(".c") else calls)(path):
                command = command_of(words)
                if command:
                    files = out.setdefault(command[:2], {})
                    files.setdefault(os.path.relpath(path, source), set()).update(command[2])
    return out
