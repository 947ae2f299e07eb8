#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""circles.py [TREE]: no circle of files inside a folder of common/, daemon/ and libclient/.
circles.py --order FOLDER...: the files of a folder in the order in which they can be read.
circles.py --self-test: plants circles in small trees and requires that each shows.

Within a folder, X.c and X.h are one file. A file stands above another of its folder when it includes
it, or mentions a function or an object that the other alone defines. A folder whose own folders are
its storeys (STOREYS) is one with them. Files that stand above one
another in a loop are a circle: none of them can be read first. Folders that still have circles are
rows of NOT_YET, with how many files are in them. A folder that is better or worse than its row fails,
so a row goes with its circles.

A mention is found in the text, not by a compiler: bodies of functions, initializers and macros count;
members (.name, ->name), locals and parameters do not. A static name belongs to its own file. A call
through a pointer is no mention: that is how a lower file may call a higher one.
"""
import contextlib
import io
import os
import re
import sys
import tempfile

ROOTS = ("common", "daemon", "libclient", "pki")
STOREYS = ("daemon/fabric/verbs", "daemon/op", "daemon/peer", "libclient")

# folder: (files in circles, why)
NOT_YET = {
}

TOKEN = re.compile(r"[A-Za-z_]\w*|->|\.\.\.|==|[-+*/%&|^!<>]=|&&|\|\||\S")
NOISE = re.compile(
    r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)((?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)
WORD = re.compile(r"[A-Za-z_]\w*$")
NOT_TYPES = {"return", "else", "case", "do", "goto", "sizeof", "typeof", "__typeof__"}
NOT_FUNCTIONS = {"__attribute__", "_Static_assert", "_Alignas", "__asm__", "__typeof__", "typeof"}


def strip(text):
    """Without comments and literals, which keep a quote so that "(" stays followed by something."""
    return NOISE.sub(lambda m: " " if m.group(0).startswith("/") else ' "" ', text)


def is_word(token):
    return WORD.match(token) is not None


def mentions_in(tokens):
    """Names that tokens mention and do not declare."""
    named, declared = set(), set()
    for i, token in enumerate(tokens):
        if not is_word(token):
            continue
        before = tokens[i - 1] if i else ""
        after = tokens[i + 1] if i + 1 < len(tokens) else ""
        if before in (".", "->"):
            continue
        typed = is_word(before) and before not in NOT_TYPES
        pointer = before == "*" and i > 1 and (is_word(tokens[i - 2]) or tokens[i - 2] == "*") \
            and tokens[i - 2] not in NOT_TYPES
        if (typed or pointer) and after in ("=", ";", ",", ")", "[", ":"):
            declared.add(token)
        elif before not in ("struct", "union", "enum", "goto"):
            named.add(token)
    return named - declared


class Source:
    """What one file includes, defines and mentions."""

    def __init__(self, path, text):
        self.includes = INCLUDE.findall(COMMENT.sub(" ", text))
        self.globals, self.own, self.mentioned, self.functions = set(), set(), set(), set()
        code = strip(text)
        for kind, rest in DIRECTIVE.findall(code):
            if kind == "define":
                self.read_macro(rest.replace("\\\n", " "))
        self.header = path.endswith(".h")
        self.read(TOKEN.findall(DIRECTIVE.sub(" ", code)))

    def read_macro(self, rest):
        parts = re.match(r"\s*(\w+)(\([^)]*\))?(.*)", rest, re.DOTALL)
        params = set(TOKEN.findall(parts.group(2) or ""))
        self.mentioned |= mentions_in(TOKEN.findall(parts.group(3))) - params

    def read(self, tokens):
        """Top level: statements end at ; or at the } of a function."""
        head, i = [], 0
        while i < len(tokens):
            token = tokens[i]
            if token == ";":
                self.declared(head)
                head = []
            elif token == "{":
                end = closing(tokens, i)
                body = tokens[i + 1:end]
                if "=" in head:
                    self.mentioned |= mentions_in(body)
                elif head and head[-1] == ")" and self.function(head, body):
                    head = []
                i = end
            else:
                head.append(token)
            i += 1

    def function(self, head, body):
        while "__attribute__" in head:
            at = head.index("__attribute__")
            del head[at:closing(head, at + 1, "()") + 1]
        for i, token in enumerate(head[:-1]):
            if is_word(token) and head[i + 1] == "(" and token not in NOT_FUNCTIONS:
                if head[i + 3:i + 5] == [")", "("]:  # int (name)(...): not to be taken for a macro
                    token = head[i + 2]
                self.functions.add(token)
                self.define(token, "static" in head[:i])
                # The parameters declare what the body may mention.
                self.mentioned |= mentions_in(head[i + 1:] + ["{"] + body)
                return True
        return False

    def declared(self, head):
        """An object, or a declaration, which defines nothing."""
        if not head or head[0] in ("typedef", "extern", "_Static_assert") or self.header:
            return
        left = head[:head.index("=")] if "=" in head else head
        if "=" in head:
            self.mentioned |= mentions_in(head[head.index("="):])
        if "(" in left or "struct" == left[0] and len(left) == 2:
            return
        if "[" in left:
            left = left[:left.index("[")]
        if len(left) > 1 and is_word(left[-1]):
            self.define(left[-1], "static" in left)

    def define(self, name, static):
        if static and not self.header:
            self.own.add(name)
        else:
            self.globals.add(name)


def closing(tokens, at, pair="{}"):
    depth = 0
    for i in range(at, len(tokens)):
        depth += (tokens[i] == pair[0]) - (tokens[i] == pair[1])
        if depth == 0:
            return i
    return len(tokens) - 1


def files_of(folder, tree):
    for place, _, names in sorted(os.walk(os.path.join(tree, folder))):
        within = os.path.relpath(place, os.path.join(tree, folder))
        if within == "." or folder in STOREYS:
            for name in sorted(names):
                if name.endswith((".c", ".h")):
                    yield os.path.normpath(os.path.join(within, name))


def edges_of(folder, tree):
    """{file: {file below: [what ties it]}}, files without their suffix."""
    sources = {}
    for name in files_of(folder, tree):
        with open(os.path.join(tree, folder, name), encoding="utf-8") as file:
            sources[name] = Source(name, file.read())
    rooms = {name: name[:-2] for name in sources}
    home = {}
    for name, source in sources.items():
        for word in source.globals:
            home.setdefault(word, set()).add(rooms[name])
    edges = {room: {} for room in rooms.values()}
    for name, source in sources.items():
        for path in source.includes:
            beside = os.path.join(os.path.dirname(name), path)
            base = beside if beside in rooms else path.removeprefix(folder + "/")
            if base in rooms:
                edges[rooms[name]].setdefault(rooms[base], []).append(f"#include {base}")
        for word in sorted(source.mentioned - source.own):
            if len(home.get(word, ())) == 1:
                edges[rooms[name]].setdefault(next(iter(home[word])), []).append(word)
    for room, below in edges.items():
        below.pop(room, None)
    return edges


def circles_of(edges):
    """Sets of files that reach one another (Tarjan), the lowest first."""
    number, low, stack, found = {}, {}, [], []

    def visit(room):
        number[room] = low[room] = len(number)
        stack.append(room)
        for below in edges[room]:
            if below not in number:
                visit(below)
                low[room] = min(low[room], low[below])
            elif below in stack:
                low[room] = min(low[room], number[below])
        if low[room] == number[room]:
            at = stack.index(room)
            circle, stack[at:] = stack[at:], []
            if len(circle) > 1:
                found.append(sorted(circle))

    for room in edges:
        if room not in number:
            visit(room)
    return found


def folders(tree):
    for root in ROOTS:
        for place, _, files in sorted(os.walk(os.path.join(tree, root))):
            folder = os.path.relpath(place, tree)
            inside = folder.startswith(tuple(f"{storeys}/" for storeys in STOREYS))
            if folder in STOREYS or not inside and any(name.endswith(".c") for name in files):
                yield folder


def show(folder, circle, edges):
    print(f"{folder}: {len(circle)} files in a circle: {' '.join(circle)}")
    for room in circle:
        for below in circle:
            if below in edges[room]:
                print(f"    {room} -> {below}: {', '.join(edges[room][below])}")


def check(tree, rows):
    bad = 0
    seen = set()
    for folder in folders(tree):
        seen.add(folder)
        edges = edges_of(folder, tree)
        found = circles_of(edges)
        count = sum(map(len, found))
        allowed = rows.get(folder, (0, ""))[0]
        if count == allowed:
            continue
        bad = 1
        for circle in found:
            show(folder, circle, edges)
        if count > allowed:
            print(f"{folder}: {count} files in circles, {allowed} allowed: cut one of the ties above")
        else:
            print(f"{folder}: {count} files in circles, NOT_YET of tests/circles.py says {allowed}: "
                  + (f"say {count} there" if count else "take the row out"))
    for folder in sorted(set(rows) - seen):
        bad = 1
        print(f"{folder}: a row of NOT_YET in tests/circles.py, and no such folder: take it out")
    return bad


def order(folder, tree):
    """A line a storey: its files need only files of the lines before. A circle is one entry."""
    edges = edges_of(folder, tree)
    unit = {room: frozenset([room]) for room in edges}
    for circle in circles_of(edges):
        unit.update(dict.fromkeys(circle, frozenset(circle)))
    left = set(unit.values())
    while left:
        storey = {u for u in left
                  if not any(unit[below] in left - {u} for room in u for below in edges[room])}
        print("  ".join(sorted("(" + " ".join(sorted(u)) + ")" if len(u) > 1 else min(u) for u in storey)))
        left -= storey


# ---- self-test -----------------------------------------------------------------------------------

LOW = "int low(void);\nint low(void) { return 1; }\n"

# What it is, files of daemon/x, the row of daemon/x, and what must be said of it (None: nothing).
CASES = [
    ("a tree in order",
     {"low.c": LOW, "high.c": "#include \"low.h\"\nint high(void) { return low(); }\n", "low.h": "int low(void);\n"},
     0, None),
    ("a circle of includes",
     {"a.h": "#include \"daemon/x/b.h\"\n", "b.h": "#include \"b.h\"\n", "b.c": "# include \"a.h\"\n"},
     0, "a -> b: #include b.h"),
    ("a circle of calls",
     {"low.c": "int low(void) { return high(); }\n", "high.c": "int high(void) { return low(); }\n"},
     0, "low -> high: high"),
    ("a circle of three, by a call, a table and an include",
     {"a.c": "int a(int n) { return n ? b(n) : 0; }\n",
      "b.h": "#include \"c.h\"\n", "b.c": "int b(int n) { return n; }\n",
      "c.c": "static int (*const table[])(int) = {[1] = a};\n", "c.h": "\n"},
     0, "3 files in a circle: a b c"),
    ("a circle by an object", {"a.c": "const struct ops a = {.f = b};\n", "b.c": "void b(void) { use(&a); }\n"},
     0, "b -> a: a"),
    ("a circle by a macro", {"a.h": "#define A(n) \\\n    b(n)\n", "b.c": "#include \"a.h\"\nvoid b(int n) {}\n"},
     0, "a -> b: b"),
    ("a circle by an inline function",
     {"a.h": "static inline int a(void) {\n    return b();\n}\n", "b.c": "int b(void) { return a(); }\n"},
     0, "b -> a: a"),
    ("a circle by a function with an attribute",
     {"a.c": "__attribute__((format(printf, 1, 2))) void a(const char *say, ...) { b(); }\n", "b.c": "void b(void) { a(0); }\n"},
     0, "b -> a: a"),
    ("a member, a local, a parameter and a label of the same name",
     {"a.c": "void a(struct s *s, int b) { s->b = s->t.b(b); }\n"
             "static void c(void) { struct x *b = 0; goto b; b: free(b); }\n",
      "b.c": "void b(void) { a(); }\n"},
     0, None),
    ("comments, strings and a declaration",
     {"a.c": "int b(void);\n/* b(); */\nvoid a(void) { say(\"b()\"); } // b()\n",
      "b.c": "int b(void) { a(); return 0; }\n"},
     0, None),
    ("a static namesake",
     {"a.c": "static int b(void) { return 0; }\nint a(void) { return b(); }\n",
      "b.c": "int b(void) { return a(); }\n"},
     0, None),
    ("a call through a pointer",
     {"a.c": "void a(struct s *s) { s->ops->b(s); }\n",
      "b.c": "static const struct ops ops = {.b = b};\nvoid b(struct s *s) { a(s); }\n"},
     0, None),
    ("a row that is right",
     {"a.c": "int a(void) { return b(); }\n", "b.c": "int b(void) { return a(); }\n"}, 2, None),
    ("a folder worse than its row",
     {"a.c": "int a(void) { return b(); }\n", "b.c": "int b(void) { return c(); }\n",
      "c.c": "int c(void) { return a(); }\n"}, 2, "3 files in circles, 2 allowed"),
    ("a folder better than its row",
     {"a.c": "int a(void) { return b(); }\n", "b.c": "int b(void) { return a(); }\n"},
     3, "says 3: say 2 there"),
    ("a row whose circles are gone", {"a.c": "int a(void) { return 0; }\n"}, 2, "take the row out"),
]


def storeys_are_one():
    """A low storey that calls up, to what includes it."""
    with tempfile.TemporaryDirectory() as tree, contextlib.redirect_stdout(io.StringIO()) as out:
        for name, text in {"low/a.h": "int a(void);\n", "low/a.c": "int a(void) { return b(); }\n",
                           "high/b.c": '#include "daemon/op/low/a.h"\nint b(void) { return 1; }\n'}.items():
            path = os.path.join(tree, "daemon/op", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        bad = check(tree, {})
    if bad and "low/a -> high/b: b" in out.getvalue():
        return True
    print("a circle between two storeys was not noticed")
    return False


def self_test():
    undone = 0
    for what, files, row, said in CASES:
        with tempfile.TemporaryDirectory() as tree:
            os.makedirs(os.path.join(tree, "daemon/x"))
            for name, text in files.items():
                with open(os.path.join(tree, "daemon/x", name), "w", encoding="utf-8") as file:
                    file.write(text)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                bad = check(tree, {"daemon/x": (row, "")} if row else {})
        if bad != (said is not None) or said is not None and said not in out.getvalue():
            print(f"{what}: expected {said!r}, got {out.getvalue()!r}")
            undone = 1
    with tempfile.TemporaryDirectory() as tree, contextlib.redirect_stdout(io.StringIO()) as out:
        bad = check(tree, {"daemon/gone": (2, "")})
    if not bad or "no such folder" not in out.getvalue():
        print("a row without a folder was not noticed")
        undone = 1
    undone |= not storeys_are_one()
    if not undone:
        print("every planted circle was noticed, and nothing else")
    return undone


def main(args):
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if args[:1] == ["--self-test"]:
        return self_test()
    if args[:1] == ["--order"]:
        for folder in args[1:]:
            order(os.path.normpath(folder), here)
        return 0
    return check(args[0] if args else here, NOT_YET)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
