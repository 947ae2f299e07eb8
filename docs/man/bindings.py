#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bindings.py DIRECTORY VERSION SOURCE: rdmad-python(3), rdmad-aio(3) and rdmad-cpp(3), made of what they are about.

Of the Python package the docstrings and signatures are read, not imported: making pages needs nothing of it. Of
rdmad.hpp and rdmad_async.hpp the comments and declarations. What a method calls of the library is said below it, with
the page of that. A name without a word on it ends this with a message.

bindings.py --example FILE: the code at the top of a module or a header, for a test that runs it.
"""
import ast
import inspect
import os
import re
import sys

import api

HEADERS = ("rdmad.h", "channel.h", "transfer.h")
MADE = '.\\" Made by docs/man/bindings.py of '


# ---- text ---------------------------------------------------------------------------------------

def paragraphs(text):
    """As api.uncomment's, of a docstring or a comment's inside."""
    return [p.split("\n") for p in re.split(r"\n\s*\n", text.strip("\n")) if p.strip()]


def formatted(lines, names):
    """One paragraph: prose, code, or words with what each stands for, in two columns."""
    column = re.match(r"\w+ {2,}(?=\S)", lines[0])
    if not column or any(re.match(r"\s*\S*[(=]", line) for line in lines):
        return api.paragraph(lines, names)
    out, at = [], column.end()
    for line in lines:
        if line[:at].strip():
            out += [".TP", f"\\fB{line[:at].strip()}\\fR", api.prose(line[at:], names)]
        else:
            out += [api.prose(line.strip(), names)]
    return out


def description(text, names):
    return [line for p in paragraphs(text) for line in formatted(p, names)]


def first_example(text):
    """The first lines of a text that are indented by four, with what is empty between them."""
    block = re.search(r"(?:^    .*\n(?:\n(?=    ))?)+", text, re.M)
    return re.sub(r"^    ", "", block.group(), flags=re.M) if block else ""


def see(calls, names):
    found = [c for c in dict.fromkeys(calls) if c in names and c != "rdmad_last_error"]
    pages = [f"\\fB{name}\\fR(3)" for name in found]
    return ["More in " + " and ".join([", ".join(pages[:-1])] * bool(pages[:-1]) + pages[-1:]) + "."] if found else []


def below(said, more):
    """Set in: what it does, and where there is more."""
    if said and more and not said[-1].endswith("."):
        said = said[:-1] + [said[-1] + "."]
    lines = said + more
    while lines and lines[0] == ".PP":
        lines = lines[1:]
    return [".RS 4"] + lines + [".RE"] if lines else []


def program(source, path):
    """An example that a test runs, whole."""
    lines = open(os.path.join(source, path), encoding="utf-8").read().rstrip("\n").split("\n")
    lines = [line for line in lines if "SPDX" not in line and not line.startswith("#!")]
    return [".PP", api.prose(f"{path}:", ())] + api.code(lines)


# ---- Python -------------------------------------------------------------------------------------

def module(source, name):
    path = os.path.join(source, "python", "rdmad", name + ".py")
    return ast.parse(open(path, encoding="utf-8").read(), path)


def classes(tree):
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def plain(annotation):
    """A type, as the user of the package writes it."""
    class Names(ast.NodeTransformer):
        def visit_Constant(self, node):
            return ast.parse(node.value, mode="eval").body if isinstance(node.value, str) else node

        def visit_Attribute(self, node):
            return ast.Name(node.attr) if ast.unparse(node.value) in ("typing", "_session") else node

        def visit_Name(self, node):
            return ast.parse("rdmad." + node.id.removeprefix("Blocking"), mode="eval").body \
                if node.id.startswith("Blocking") else node
    return ast.unparse(Names().visit(annotation))


def parameters(function):
    arguments = function.args
    everything = [*arguments.args, *([arguments.vararg] if arguments.vararg else []), *arguments.kwonlyargs,
                  *([arguments.kwarg] if arguments.kwarg else [])]
    for argument in everything:
        if argument.annotation:
            argument.annotation = ast.parse(plain(argument.annotation), mode="eval").body
    if arguments.args and arguments.args[0].arg == "self":
        del arguments.args[0]
    return ast.unparse(arguments)


def public(node):
    return [it for it in node.body if isinstance(it, (ast.FunctionDef, ast.AsyncFunctionDef))
            and not it.name.startswith("_")]


def calls(function):
    return [node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name) and node.value.id == "lib"]


def method(function, of, twin, names):
    """twin: the class with blocking calls, of one that is awaited."""
    is_property = any(isinstance(d, ast.Name) and d.id == "property" for d in function.decorator_list)
    result = plain(function.returns) if function.returns else "None"
    words = "await " if isinstance(function, ast.AsyncFunctionDef) else ""
    if is_property:
        head = f"{words}\\fB{function.name}\\fR" + api.escape(f": {result}")
    else:
        head = f"{words}\\fB{function.name}\\fR" + api.escape(f"({parameters(function)})")
        head += api.escape(f" -> {result}") if result != "None" else ""
    said = ast.get_docstring(function)
    if not said and twin and function.name in {it.name for it in public(twin)}:
        said = f"As rdmad.{twin.name}.{function.name}."
    if not said:
        api.die(f"python: {of}.{function.name} has no word on it")
    return [".PP", head] + below(description(said, names), see(calls(function), names))


def python_class(node, prefix, twin, names):
    out = [f".SH {prefix}{node.name}"]
    begin = [it for it in node.body if isinstance(it, ast.FunctionDef) and it.name == "__init__"]
    fields = [it for it in node.body if isinstance(it, ast.AnnAssign) and not it.target.id.startswith("_")]
    if any(ast.unparse(base) == "typing.NamedTuple" for base in node.bases):
        head = ", ".join(f"{it.target.id}: {plain(it.annotation)}" for it in fields)
        out += [f"A named tuple \\fB{node.name}\\fR" + api.escape(f"({head})")]
    elif begin and begin[0].args.args[-1].arg not in ("pointer", "memory", "budget", "lease_came", "blocking", "length",
                                                      "forget", "timeout_ms"):
        out += [f"\\fB{node.name}\\fR" + api.escape(f"({parameters(begin[0])})")]
    said = ast.get_docstring(node)
    if not said:
        api.die(f"python: {node.name} has no word on it")
    out += [".PP"] + description(said, names)
    for function in public(node):
        out += method(function, node.name, twin, names)
    return [line for i, line in enumerate(out) if not (line == ".PP" and out[i - 1] == ".PP")]


def enums(source, names):
    """Those that python/declare.py makes, with the constants that they have in C."""
    declare = ast.parse(open(os.path.join(source, "python", "declare.py"), encoding="utf-8").read())
    value = {it.targets[0].id: it.value for it in declare.body if isinstance(it, ast.Assign)
             and isinstance(it.targets[0], ast.Name)}
    left_out = ast.literal_eval(value["NO_MEMBERS"])
    headers = "".join(open(os.path.join(source, "include", "rdmad", name), encoding="utf-8").read()
                      for name in ("abi.h", *HEADERS))
    out = [".SH ENUMS"]
    for name, _, prefix, members, said in ast.literal_eval(value["GROUPS"]):
        if prefix:
            found = re.findall(rf"^(?:#define +|    )({prefix}[A-Z_]+)\b(?! *\()", headers, re.M)
            members = [m for m in dict.fromkeys(found) if m not in left_out and not m.endswith(("_INIT", "_H"))]
        short = [m.removeprefix(prefix or "RDMAD_") for m in members]
        out += [".TP", f"\\fBrdmad.{name}\\fR", api.prose(said, names), ".br",
                api.escape(", ".join(short) + (f" (in C {prefix}*)" if prefix else ""))]
    return out


def exported(source):
    """The public names of the package, and the module of each."""
    return {alias.name: node.module for node in module(source, "__init__").body if isinstance(node, ast.ImportFrom)
            for alias in node.names if re.match(r"[A-Z]", alias.name)}


def name_section(page, summary):
    return [".SH NAME", f"{api.escape(page)} \\- {api.escape(summary)}"]


SEE = ["\\fBlibrdmad\\fR(3)", "\\fBrdmad\\fR(7)", "\\fBrdmad\\-errors\\fR(7)"]


def see_also(*others):
    return [".SH SEE ALSO", ", ".join([f"\\fB{api.escape(name)}\\fR(3)" for name in others] + SEE)]


def python_page(source, version, names):
    text = ast.get_docstring(module(source, "__init__"))
    body = name_section("rdmad-python", "RDMA through rdmad, from Python")
    body += [".SH SYNOPSIS", ".nf", "\\fBimport rdmad\\fR", ".fi", ".SH DESCRIPTION"] + description(text, names)
    where = exported(source)
    for name in dict.fromkeys(["Session", "Pool", "BufferLock", "Lease", "Service", "Channel", "Gift", "Error", *where]):
        body += python_class(classes(module(source, where[name]))[name], "rdmad.", None, names)
    body += enums(source, names) + [".SH EXAMPLES"]
    body += program(source, "examples/python/mailbox.py") + see_also("rdmad-aio", "rdmad-cpp")
    return api.page("rdmad\\-python", 3, version, body)


def aio_page(source, version, names):
    tree, where = module(source, "aio"), exported(source)
    body = name_section("rdmad-aio", "rdmad's transfers and messages, awaited in Python's asyncio")
    body += [".SH SYNOPSIS", ".nf", "\\fBimport rdmad.aio\\fR", ".fi", ".SH DESCRIPTION"]
    body += description(ast.get_docstring(tree), names)
    for name in ("Session", "Lease", "Service", "Channel"):
        body += python_class(classes(tree)[name], "rdmad.aio.", classes(module(source, where[name]))[name], names)
    body += [".SH EXAMPLES"] + program(source, "examples/python/async_read.py") + see_also("rdmad-python")
    return api.page("rdmad\\-aio", 3, version, body)


# ---- C++ ----------------------------------------------------------------------------------------

class Item:
    """A declaration: its head, what stands in its braces, and what was said above it."""

    def __init__(self, head, body, comment):
        self.head, self.body, self.comment = head, body, comment


def closing(text, at):
    """Where the brace that opens at is closed."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return i
    api.die(f"c++: a brace is not closed: {text[at:at + 40]}")


def head_end(text, at):
    """Of a declaration: its body's brace, or its semicolon."""
    depth = 0
    while text[at] not in "{;" or depth:
        depth += (text[at] in "(") - (text[at] in ")")
        at += 1
    return at


def items(text):
    """The public declarations of a scope."""
    at, comment, access = 0, "", "public"
    while at < len(text):
        blank = re.compile(r"\s+").match(text, at)
        if blank:
            at = blank.end()
            continue
        said = re.compile(r"/\*.*?\*/", re.S).match(text, at)
        if said:
            comment, at = said.group(), said.end()
            continue
        label = re.compile(r"(public|private|protected):").match(text, at)
        if label:
            access, comment, at = label.group(1), "", label.end()
            continue
        if text[at] == "#" or text.startswith("//", at):
            at = re.compile(r"(?:[^\n]*\\\n)*[^\n]*").match(text, at).end()
            continue
        end = head_end(text, at)
        head, body, then = text[at:end], "", end + 1
        if text[end] == "{":
            close = closing(text, end)
            body, then = text[end + 1:close], close + 1
            if re.match(r"(template\s*<[^{;]*>\s*)?(class|struct|enum)\b", head):
                then = text.index(";", close) + 1
        head = re.sub(r"\)\s*(noexcept\s*)?:\s.*", r") \1", head, flags=re.S)
        head = re.sub(r"\s+", " ", head).replace("inline ", "").strip()
        if access == "public":
            yield Item(head, body, comment)
        comment, at = "", then


def comment_text(comment):
    return "\n".join(re.sub(r"^\s*\* ?", "", line)
                     for line in re.sub(r"^/\*\s?|\s*\*/$", "", comment).split("\n")).strip("\n")


SKIPPED = re.compile(r"^(friend|using|static_assert|namespace)\b|= delete$|~|operator|&&other|await_(ready|suspend)")


def members(it, names):
    out = []
    for member in items(it.body):
        if not SKIPPED.search(member.head) and not member.head.startswith(("class ", "struct ", "enum ")):
            called = re.findall(r"\b(rdmad_\w+)\b", member.body)
            out += [".PP", f"\\fB{api.escape(member.head)}\\fR"]
            out += below(description(comment_text(member.comment), names), see(called, names))
    return out


def namespace(text):
    at = text.index("{", text.index("\nnamespace rdmad "))
    return text[at + 1:closing(text, at)]


def cpp_page(source, version, names):
    body = name_section("rdmad-cpp", "RDMA through rdmad, from C++20")
    body += [".SH LIBRARY", "librdmad (\\fB\\-lrdmad\\fR)", ".SH SYNOPSIS", ".nf", "\\fB#include <rdmad/rdmad.hpp>\\fR",
             "\\fB#include <rdmad/rdmad_async.hpp>\\fR", ".fi", ".SH DESCRIPTION"]
    for header in ("rdmad.hpp", "rdmad_async.hpp"):
        text = open(os.path.join(source, "include", "rdmad", header), encoding="utf-8").read()
        body += description(top_comment(text), names)
    for header in ("rdmad.hpp", "rdmad_async.hpp"):
        text = open(os.path.join(source, "include", "rdmad", header), encoding="utf-8").read()
        for it in items(namespace(text)):
            if SKIPPED.search(it.head) or "async_op::" in it.head or (it.head.startswith("class ") and not it.body):
                continue
            kind = re.match(r"(?:template <[^>]*> )?(?:class|struct) (\w+)", it.head)
            if kind:
                # What a class is made from is no part of what it is.
                body += [f".SH rdmad::{kind.group(1)}", f"\\fB{api.escape(it.head.split(' : public ')[0])}\\fR"]
                body += description(comment_text(it.comment), names) + members(it, names)
            else:
                name = re.search(r"concept (\w+)|(\w+)\(", it.head)
                body += [f".SH rdmad::{name.group(1) or name.group(2)}", f"\\fB{api.escape(it.head)}\\fR"]
                body += description(comment_text(it.comment), names)
    body += [".SH EXAMPLES"] + program(source, "examples/cpp/mailbox.cpp")
    body += program(source, "examples/cpp/async_epoll.cpp") + see_also("rdmad-python")
    return api.page("rdmad\\-cpp", 3, version, body)


def top_comment(text):
    for block in re.findall(r"^/\*\n.*?\*/", text, re.M | re.S):
        return comment_text(block)
    api.die("c++: a header does not say what it is")


# ---- all ----------------------------------------------------------------------------------------

def main():
    if sys.argv[1] == "--example":
        text = open(sys.argv[2], encoding="utf-8").read()
        top = ast.get_docstring(ast.parse(text)) if sys.argv[2].endswith(".py") else top_comment(text)
        code = first_example(inspect.cleandoc(top))
        if not code:
            api.die(f"{sys.argv[2]}: no example at its top")
        sys.stdout.write(code)
        return
    out, version, source = sys.argv[1:4]
    headers = [os.path.join(source, "include", "rdmad", name) for name in HEADERS]
    names = {api.function_name(f) for h in headers for g in api.read(h) for f in g.functions}
    pages = {"rdmad-python": (python_page, []), "rdmad-aio": (aio_page, ["rdmad.aio"]),
             "rdmad-cpp": (cpp_page, ["rdmad.hpp", "rdmad_async.hpp"])}
    for name, (make, others) in pages.items():
        with open(os.path.join(out, "man3", name + ".3"), "w", encoding="utf-8") as file:
            file.write(make(source, version, names).replace(".\\\" Made by docs/man/api.py of the headers.",
                                                            MADE + "the sources.", 1))
        for other in others:
            with open(os.path.join(out, "man3", other + ".3"), "w", encoding="utf-8") as file:
                file.write(f".so man3/{name}.3\n")


main()
