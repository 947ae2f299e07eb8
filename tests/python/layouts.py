#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""layouts.py SOURCE: error codes, and the layouts of all structs that clients and rdmad share, as docs/PROTOCOL.md ends
with them: from wire.h, ring.h and abi.h by the C compiler's preprocessor."""
import os
import re
import sys

import cffi

SOURCE = sys.argv[1] if len(sys.argv) > 1 else os.environ["RDMAD_SOURCE"]
sys.path.insert(0, SOURCE + "/python")
sys.dont_write_bytecode = True
import declare  # noqa: E402

PLAIN = {"uint8_t": "u8", "uint16_t": "u16", "uint32_t": "u32", "uint64_t": "u64", "int32_t": "i32"}


def declarations():
    text = declare.preprocess(SOURCE + "/include", "#include <rdmad/wire.h>\n#include <rdmad/ring.h>\n")
    return re.sub(r'_Static_assert\(.*?"\);', "", text)


def type_of(ctype):
    if ctype.kind == "array":
        item = ctype.item.cname
        name = "text" if item == "char" else "bytes" if item == "uint8_t" else type_of(ctype.item)
        return f"{name}[{ctype.length}]"
    return ctype.cname.removeprefix("struct rdmad_") if ctype.kind == "struct" else PLAIN[ctype.cname]


def fields(ctype, base=0):
    for name, field in ctype.fields:
        if name.startswith("pad"):
            continue
        if not name:  # a union without a name
            yield from fields(field.type, base + field.offset)
        else:
            yield base + field.offset, type_of(field.type), name


def layouts():
    text = declarations()
    ffi = cffi.FFI()
    ffi.cdef(text)
    for name in dict.fromkeys(re.findall(r"^struct (rdmad_\w+) \{", text, re.M)):
        ctype = ffi.typeof(f"struct {name}")
        yield name.removeprefix("rdmad_"), ffi.sizeof(ctype), list(fields(ctype))


def errors():
    text = declare.preprocess(SOURCE + "/include", "#include <rdmad/abi.h>\n#define RDMAD_X(n, v, t) #n, v, t ;;\n"
                              "RDMAD_ERRORS(RDMAD_X)\n")
    return [(declare.number(v), n.removeprefix("RDMAD_E_"), t)
            for n, v, t in re.findall(r'"(\w+)", (\(?-?\d+\)?), "(.*?)" ;;', text)]


def numbers():
    """The enumerators of all headers."""
    return declare.enums(declarations())


def printed():
    lines = [f"    {value} {name}: {text}" for value, name, text in errors()] + [""]
    for name, size, members in layouts():
        lines.append(f"    {name} {size}")
        lines += [f"        {offset} {kind} {field}" for offset, kind, field in members]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(printed(), end="")
