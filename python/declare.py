#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""declare.py INCLUDE SONAME OUT: what the Python package knows of the headers, made from them.

OUT/_declared.py   the declarations of rdmad.h, as cffi compiles them (ABI mode: no compiler is needed where it runs)
OUT/_made.py       constants, enums, what each INIT sets, and a class of exception for each RDMAD_E_*

The C compiler's preprocessor reads the headers, so nothing is written down a second time.
"""
import os
import re
import subprocess
import sys
import tempfile

import cffi

# Enums of Python: name, class, the constants that begin so, what is left out of them, one line of help.
GROUPS = [
    ("Outcome", "IntEnum", None, ("RDMAD_DONE", "RDMAD_FAILED_UNTOUCHED", "RDMAD_FAILED_PARTIAL", "RDMAD_UNKNOWN"),
     "What became of an op's target."),
    ("Right", "IntFlag", "RDMAD_RIGHT_", (), "What a lease allows."),
    ("LeaseFlag", "IntFlag", "RDMAD_LEASE_", (), "How a lease is kept."),
    ("Scope", "IntEnum", "RDMAD_SCOPE_", (), "Who may attach or connect."),
    ("ChannelKind", "IntEnum", "RDMAD_CHANNEL_", (), "What a channel promises."),
    ("EventType", "IntEnum", "RDMAD_EVENT_", (), "What an event tells."),
    ("NameKind", "IntEnum", "RDMAD_NAME_KIND_", (), "What a published name is of."),
]
NO_MEMBERS = {"RDMAD_LEASE_FLAGS"}  # sums of the others
BUILTIN = {"RDMAD_E_TIMEOUT": "builtins.TimeoutError", "RDMAD_E_PERM": "builtins.PermissionError"}


def preprocess(include, text, *options):
    """text as the preprocessor leaves it; types of the C library are cffi's own."""
    with tempfile.TemporaryDirectory() as stubs:
        for header in ("stddef.h", "stdint.h"):
            open(os.path.join(stubs, header), "w", encoding="ascii").close()
        command = [os.environ.get("CC", "cc"), "-E", "-P", "-nostdinc", "-xc", "-I", stubs, "-I", include,
                   "-D__attribute__(x)=", *options, "-"]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def number(expression):
    """The value of a constant expression of C, of integers alone."""
    plain = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]*\b", r"\1", expression)
    if not re.fullmatch(r"[0-9a-fA-FxX()|&+*<>\s-]+", plain):
        raise ValueError(f"no constant: {expression}")
    return int(eval(plain, {"__builtins__": {}}))  # digits and operators, as was just seen


def macros(include):
    """Every macro of the headers that stands for something: name -> text."""
    names = re.findall(r"^#define (RDMAD_\w+) \S", preprocess(include, "#include <rdmad/rdmad.h>\n", "-dM"), re.M)
    names = [n for n in sorted(names) if n not in ("RDMAD_API", "RDMAD_STATIC_ASSERT")]
    asked = "".join(f'"{n}" is {n} ;;\n' for n in names)
    said = preprocess(include, "#include <rdmad/rdmad.h>\n" + asked)
    return dict(re.findall(r'"(RDMAD_\w+)" is (.*?) ;;', said, re.S))


def enums(declarations):
    """Every enumerator: name -> value."""
    values = {}
    for body in re.findall(r"\benum \w+ \{(.*?)\}", declarations, re.S):
        following = 0
        for item in filter(None, (i.strip() for i in body.split(","))):
            name, _, value = (s.strip() for s in item.partition("="))
            values[name] = number(value) if value else following
            following = values[name] + 1
    return values


def initial(ffi, struct, text):
    """What an INIT sets to something else than 0, by field; a struct in it is {} at least. Sizes are left out."""
    text = re.sub(r"sizeof\(struct \w+\)", "0", text)
    plain = text.replace("{", "[").replace("}", "]").replace("NULL", "0")
    if not re.fullmatch(r'[\[\]0-9,"\s-]+', plain):
        raise ValueError(f"INIT of {struct} is not understood: {text}")
    return by_field(ffi.typeof(f"struct {struct}"), eval(plain, {"__builtins__": {}}))  # as was just seen


def by_field(struct, values):
    said = {}
    for (name, field), value in zip(struct.fields, values):
        if field.type.kind == "struct":
            said[name] = by_field(field.type, value)
        elif isinstance(value, int) and value:
            said[name] = value
    return said


def camel(name):
    return "".join(word.capitalize() for word in name.split("_"))


def write_made(out, soname, constants, inits, errors):
    lines = ["# SPDX-License-Identifier: MIT",
             '"""Made from include/rdmad/ by declare.py: constants, enums and errors."""',
             "import builtins", "import enum", "import typing", "", "from ._base import Error", "", f"SONAME = {soname!r}", f"CONSTANTS: typing.Dict[str, int] = {constants!r}",
             f"INIT: typing.Dict[str, typing.Dict[str, typing.Any]] = {inits!r}", ""]
    for name, base, prefix, members, text in GROUPS:
        chosen = members or [c for c in constants if c.startswith(prefix) and c not in NO_MEMBERS]
        if prefix == "RDMAD_LEASE_":
            chosen = [c for c in chosen if not c.startswith("RDMAD_LEASE_TERMS")]
        lines += ["", f"class {name}(enum.{base}):", f'    """{text}"""']
        lines += [f"    {c[len(prefix or 'RDMAD_'):]} = {constants[c]}"
                  for c in sorted(chosen, key=constants.__getitem__)] + [""]
    classes = {}
    for code, value, text in errors:
        if value == 0:
            continue
        classes[value] = camel(code.removeprefix("RDMAD_E_")) + "Error"
        bases = "Error" + (f", {BUILTIN[code]}" if code in BUILTIN else "")
        lines += ["", f"class {classes[value]}({bases}):", f'    """{code}: {text}."""', f"    code = {value}",
                  f"    errname = {code!r}", f"    general = {text!r}", ""]
    lines += ["", "ERRORS: typing.Dict[int, typing.Type[Error]] = {" + ", ".join(f"{v}: {c}" for v, c in classes.items()) + "}"]
    lines += ["__all__ = " + repr([g[0] for g in GROUPS] + list(classes.values())), ""]
    with open(os.path.join(out, "_made.py"), "w", encoding="ascii") as f:
        f.write("\n".join(lines))


def main():
    include, soname, out = sys.argv[1:]
    declarations = preprocess(include, "#include <rdmad/rdmad.h>\n")
    declarations = re.sub(r'_Static_assert\(.*?"\);', "", declarations)
    ffi = cffi.FFI()
    ffi.cdef(declarations)
    ffi.set_source("rdmad._declared", None)
    constants, inits = enums(declarations), {}
    for name, text in macros(include).items():
        if name.endswith("_INIT"):
            struct = name.removesuffix("_INIT").lower()
            inits[struct] = initial(ffi, struct, text)
        else:
            constants[name] = number(text)
    errors = re.findall(r'"(\w+)", (\(?-?\d+\)?), "(.*?)" ;;',
                        preprocess(include, '#include <rdmad/abi.h>\n#define RDMAD_X(n, v, t) #n, v, t ;;\n'
                                            'RDMAD_ERRORS(RDMAD_X)\n'))
    errors = [(name, number(value), text) for name, value, text in errors]
    if len(errors) < 40 or len(inits) < 10:
        raise SystemExit(f"declare.py: the headers are not understood: {len(errors)} errors, {len(inits)} INITs")
    os.makedirs(out, exist_ok=True)
    ffi.emit_python_code(os.path.join(out, "_declared.py"))
    write_made(out, soname, constants, inits, errors)


if __name__ == "__main__":
    main()
