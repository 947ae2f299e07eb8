#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""api.py DIRECTORY VERSION HEADER...: the manual pages of the library, made of its headers.

A comment and the functions right below it are a page, named after the first; the others get links to
it. Of the comment, what comes after "Errors:" is the list of errors; sentences that begin with
"Returns" say what is returned. A comment without a function below is a part of the overview,
librdmad(3), as is what stands at the top. Of abi.h the list of errors, and the comment that says what
to do about each, is rdmad-errors(7). A function without a comment, one that returns int without a word
on errors, and an error without an entry end this with a message: so the pages are whole, or not made.
"""
import os
import re
import sys
import time

ERROR = r"RDMAD_E_[A-Z_]+\*?"


class Group:
    """A comment and what stands below it, up to an empty line or the next comment."""

    def __init__(self, comment, section, file):
        self.comment, self.section, self.file = comment, section, file
        self.functions, self.types = [], []


def die(text):
    sys.exit("api.py: " + text)


def uncomment(block):
    """The paragraphs of a comment: lists of lines, those with code or a list as they are."""
    text = re.sub(r"^/\*+ ?|\s*\*+/\s*$", "", "\n".join(block))
    lines = [re.sub(r"^ \* ?", "", line).rstrip() for line in text.split("\n")]
    paragraphs = [[]]
    for line in lines:
        if not line:
            paragraphs.append([])
        elif line.startswith("Errors: "):
            paragraphs.append([line])
        elif " Errors: " in line:
            die(f"\"Errors:\" is to begin its line: {line}")
        else:
            paragraphs[-1].append(line)
    return [p for p in paragraphs if p]


def read(path):
    """All groups of a header."""
    groups, section, now = [], "", None
    lines = open(path, encoding="utf-8").read().split("\n")
    i = 0
    while i < len(lines):
        line, start = lines[i], i
        if line.startswith("/*"):
            while "*/" not in lines[i]:
                i += 1
            block = lines[start:i + 1]
            heading = re.match(r"/\* -+ (.*?) -+ \*/$", line)
            now = None
            if heading:
                section = heading.group(1)
            elif "SPDX" not in line:
                now = Group(uncomment(block), section, path)
                groups.append(now)
        elif line.startswith("RDMAD_API"):
            while not lines[i].rstrip().endswith(";"):
                i += 1
            if "#define" not in line:
                text = " ".join(part.strip() for part in lines[start:i + 1])
                if now is None:
                    die(f"{path}:{start + 1}: no comment says what this does: {text}")
                now.functions.append(text[len("RDMAD_API "):-1])
        elif re.match(r"(struct|enum) \w+ \{", line):
            while not lines[i].startswith("};"):
                i += 1
            if now is None:
                now = Group([], section, path)
                groups.append(now)
            now.types.append(lines[start:i + 1])
        elif line.startswith(("#define", "typedef")):
            while lines[i].endswith("\\"):
                i += 1
            if now is not None:
                now.types.append(lines[start:i + 1])
        elif not line.strip():
            if now is not None and now.functions:
                now = None
        i += 1
    return groups


# ---- roff ---------------------------------------------------------------------------------------

def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("^", "\\(ha").replace("~", "\\(ti")
    return "\\&" + text if text.startswith(".") else text


def prose(text, names, self_names=()):
    """Words of the interface stand out: functions, constants."""
    def bold(match):
        word = match.group(0)
        if word.rstrip("()") in names and word.rstrip("()") not in self_names:
            return f"\\fB{word.rstrip('()')}\\fR(3)"
        return f"\\fB{word}\\fR"
    return re.sub(r"\b(rdmad_\w+(\(\))?|RDMAD_[A-Z][A-Z0-9_]*\*?)", bold, escape(text))


def code(lines):
    return [".PP", ".in +4n", ".nf"] + [escape(line) for line in lines] + [".fi", ".in"]


def paragraph(lines, names, self_names=()):
    out, plain = [], []
    literal = []

    def flush():
        nonlocal plain, literal
        if plain:
            out.extend([".PP", prose(" ".join(plain), names, self_names)])
        if literal:
            out.extend(code(literal))
        plain, literal = [], []
    for line in lines:
        if line.startswith("    "):
            if plain:
                flush()
            literal.append(line[4:])
        else:
            if literal:
                flush()
            plain.append(line.strip())
    flush()
    return out


def page(name, section, version, body):
    day = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    head = ['.\\" Made by docs/man/api.py of the headers.',
            f'.TH {name} {section} {time.strftime("%Y-%m-%d", day)} "rdmad {version}"', ".nh", ".ad l"]
    # A paragraph right below a heading is one already.
    out = []
    for line in head + body:
        if line == ".PP" and out and out[-1].startswith((".SH", ".SS")):
            continue
        out.append(line)
    return "\n".join(out) + "\n"


def prototype(text):
    """In bold, with what the caller gives in italics; wrapped as people read it."""
    name, rest = text.split("(", 1)
    parameters = []
    for part in rest.rsplit(")", 1)[0].split(","):
        part = part.strip()
        match = re.match(r"(.*?)(\w+)((?:\[.*\])?)$", part)
        if part == "void" or not match or not match.group(1).strip():
            parameters.append("\\fB" + escape(part) + "\\fR")
        else:
            parameters.append(f"\\fB{escape(match.group(1))}\\fI{match.group(2)}\\fB{escape(match.group(3))}\\fR")
    plain = lambda p: re.sub(r"\\f.|\\", "", p)
    lines, now = [], f"\\fB{escape(name)}(\\fR"
    for index, parameter in enumerate(parameters):
        end = "\\fB);\\fR" if index == len(parameters) - 1 else "\\fB,\\fR"
        if len(plain(now)) + len(plain(parameter)) > 76 and index:
            lines.append(now.rstrip())
            now = "        "
        now += parameter + end + ("" if index == len(parameters) - 1 else " ")
    return lines + [now]


# ---- what a page says ---------------------------------------------------------------------------

def function_name(text):
    return re.search(r"\b(rdmad_\w+)\(", text).group(1)


def split_errors(comment):
    """The paragraphs without errors, and the text of the errors."""
    errors = [" ".join(p)[len("Errors: "):] for p in comment if p[0].startswith("Errors: ")]
    return [p for p in comment if not p[0].startswith("Errors: ")], " ".join(errors)


def sentences(paragraphs):
    text = " ".join(" ".join(p) for p in paragraphs if not p[0].startswith("    "))
    return [s.strip() for s in re.split(r"(?<=[.])\s+(?=[A-Z0])", text) if s.strip()]


def summary(paragraphs, name):
    if not paragraphs:
        die(f"{name} has no comment")
    first = re.split(r"[.:;](?:\s|$)", " ".join(paragraphs[0]))[0]
    if re.match(r"(Owner|Lessee|Requester|Either side|Event loops)$", first):
        first = re.split(r"[.:;](?:\s|$)", " ".join(paragraphs[0]))[1].strip()
    return first[0].lower() + first[1:] if not re.match(r"[A-Z]{2}|RDMAD", first) else first


def begin(text):
    """As a sentence begins, unless by a name."""
    return text if re.match(r"\w+[_.]\w", text) else text[0].upper() + text[1:]


def error_list(text, names):
    out = []
    pieces = re.split(rf"(?:(?<=\. )|^)((?:{ERROR})(?:, {ERROR})*(?:, of [\w ]+)?): ", text)
    if pieces[0].strip():
        out += [".PP", prose(begin(pieces[0].strip()), names)]
    for codes, what in zip(pieces[1::2], pieces[2::2]):
        out += [".TP", prose(codes, names), prose(begin(what.strip()), names)]
    return out


def returned(group, paragraphs, names):
    kinds = {re.sub(r"\b(rdmad_\w+)\(.*", "", f).strip() for f in group.functions}
    said = [s for s in sentences(paragraphs) if re.search(r"\breturns\b|\bReturns\b|\bNULL when\b|[Nn]ever NULL", s)]
    out = []
    if "int" in kinds:
        out += [".PP", "0, or a negative \\fBRDMAD_E_*\\fR code, unless it is said otherwise here; "
                "\\fBrdmad_last_error\\fR(3) has the sentence."]
    if kinds == {"void"}:
        out += [".PP", "None."]
    if said:
        out += [".PP", prose(" ".join(said), names)]
    if not out:
        out += [".PP", "What the description says; there is no error."]
    return out


def threads(group, paragraphs, names):
    said = [s for s in sentences(paragraphs) if re.search(r"\b[Tt]hread", s)]
    first = " ".join(group.functions)
    ends = re.search(r"_(free|destroy|close|abort)\(", group.functions[0])
    if re.search(r"\(const rdmad_ring |\(rdmad_ring |\(struct rdmad_sqe ", first):
        rule = "A ring belongs to one thread at a time: calls on one ring must not overlap; those on different rings may."
    elif ends and "rdmad_free(" not in first:
        rule = "Different objects may be ended by different threads at a time; no other thread may be using this one, then or later."
    else:
        rule = "Any number of threads may call it at a time, on the same objects, too."
    return [".PP", rule] + ([".PP", prose(" ".join(said), names)] if said else [])


def wanted_types(group, groups):
    """The structs that its functions take, with what is said of them."""
    out, seen = [], set()
    for name in re.findall(r"struct (rdmad_\w+)", " ".join(group.functions)):
        for other in groups:
            for lines in other.types:
                if re.match(rf"struct {name} \{{", lines[0]) and name not in seen:
                    seen.add(name)
                    out.append((name, other))
    return out


def function_page(group, groups, names, neighbours, version):
    own = [function_name(f) for f in group.functions]
    paragraphs, errors = split_errors(group.comment)
    body = [".SH NAME", ", ".join(own) + " \\- " + re.sub(r"\\fB|\\fR", "", prose(summary(paragraphs, own[0]), ())),
            ".SH LIBRARY", "librdmad (\\fB\\-lrdmad\\fR)", ".SH SYNOPSIS", ".nf", "\\fB#include <rdmad/rdmad.h>\\fR"]
    for f in group.functions:
        body += [""] + prototype(f)
    body += [".fi", ".SH DESCRIPTION"]
    for p in paragraphs:
        body += paragraph(p, names, own)
    for name, other in wanted_types(group, groups):
        body += [f".SS struct {name}"]
        if other is not group:
            for p in other.comment:
                body += paragraph(p, names, own)
        for lines in other.types:
            body += code(lines)
    body += [".SH RETURN VALUE"] + returned(group, paragraphs, names)
    if any(f.startswith("int ") for f in group.functions):
        body += [".SH ERRORS"] + error_list(errors, names)
        body += [".PP", "Besides these, the common errors that \\fBlibrdmad\\fR(3) lists; what to do about each is in "
                 "\\fBrdmad\\-errors\\fR(7)."]
    body += [".SH THREAD SAFETY"] + threads(group, paragraphs, names)
    see = [f"\\fB{n}\\fR(3)" for n in neighbours if n != own[0]][:8]
    body += [".SH SEE ALSO", ", ".join(see + ["\\fBlibrdmad\\fR(3)", "\\fBrdmad\\fR(7)", "\\fBrdmad\\-errors\\fR(7)"])]
    body = [line for i, line in enumerate(body) if line or body[i - 1] != ".nf"]
    return page(own[0], 3, version, body)


def overview(groups, names, version):
    top = groups[0]
    body = [".SH NAME", "librdmad \\- RDMA through rdmad, the daemon that owns the NIC", ".SH LIBRARY",
            "librdmad (\\fB\\-lrdmad\\fR)", ".SH SYNOPSIS", ".nf", "\\fB#include <rdmad/rdmad.h>\\fR", ".fi",
            ".SH DESCRIPTION"]
    for p in top.comment:
        body += paragraph(p, names)
    section = None
    for group in groups[1:]:
        if group.section != section and group.section:
            section = group.section
            body += [f".SH {escape(section.upper())}"]
        if group.functions:
            paragraphs, _ = split_errors(group.comment)
            for f in group.functions:
                body += [".TP", f"\\fB{function_name(f)}\\fR(3)", prose(summary(paragraphs, f), names)]
        elif not group.types and group.section:
            body += sum((paragraph(p, names) for p in group.comment), [])
    body += [".SH SEE ALSO", "\\fBrdmad\\fR(7), \\fBrdmad\\-errors\\fR(7), \\fBrdmad\\fR(8), \\fBrdmactl\\fR(8)"]
    return page("librdmad", 3, version, body)


def errors_page(path, version):
    text = open(path, encoding="utf-8").read()
    codes = re.findall(r"X\((RDMAD_\w+), (-?\d+), \"(.*?)\"\)", text)
    advice_of = {}
    block = re.search(r"/\*\n \* What to do about each\.(.*?)\*/", text, re.S)
    if not block:
        die(f"{path}: no comment says what to do about each error")
    for entry in re.split(r"\n \*\n", block.group(1)):
        entry = " ".join(line.strip(" *") for line in entry.split("\n")).strip()
        match = re.match(r"(RDMAD_E_\w+): (.*)", entry)
        if match:
            advice_of[match.group(1)] = match.group(2)
    body = [".SH NAME", "rdmad\\-errors \\- what each error of rdmad means, and what to do", ".SH DESCRIPTION",
            "Calls of librdmad, completions of its rings, replies of the daemon and \\fBrdmactl\\fR(8) \\fB\\-j\\fR have one "
            "of these codes. A sentence with names and numbers in it goes with each: \\fBrdmad_last_error\\fR(3), "
            "\\fBrdmad_ring_explain\\fR(3), standard error. Codes are never given another meaning.", ".SH ERRORS"]
    for name, value, meaning in codes:
        if value == "0":
            continue
        if name not in advice_of:
            die(f"{path}: no word says what to do about {name}")
        advice = advice_of.pop(name)
        body += [".TP", f"\\fB{name}\\fR ({escape(value)})",
                 prose(meaning[0].upper() + meaning[1:] + ". " + advice, ())]
    if advice_of:
        die(f"{path}: what to do about {', '.join(advice_of)}, which there is not")
    body += [".SH SEE ALSO", "\\fBlibrdmad\\fR(3), \\fBrdmad\\fR(7), \\fBrdmactl\\fR(8)"]
    return page("rdmad-errors", 7, version, body)


def main():
    out, version, headers = sys.argv[1], sys.argv[2], sys.argv[3:]
    for folder in ("man3", "man7"):
        os.makedirs(os.path.join(out, folder), exist_ok=True)
        for old in os.listdir(os.path.join(out, folder)):
            os.remove(os.path.join(out, folder, old))

    def write(name, text):
        folder = "man" + name.rsplit(".", 1)[1]
        with open(os.path.join(out, folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    groups = [g for h in headers if not h.endswith("abi.h") for g in read(h)]
    abi = [h for h in headers if h.endswith("abi.h")]
    names = {function_name(f) for g in groups for f in g.functions}
    pages = [g for g in groups if g.functions]
    for group in pages:
        own = [function_name(f) for f in group.functions]
        if any(f.startswith("int ") for f in group.functions) and "RDMAD_E_" not in str(group.comment) and \
                not any(p[0].startswith("Errors: ") for p in group.comment) and own != ["rdmad_last_outcome"]:
            die(f"{own[0]} has no word on its errors")
        neighbours = [function_name(g.functions[0]) for g in pages if g.section == group.section]
        write(own[0] + ".3", function_page(group, groups, names, neighbours, version))
        for other in own[1:]:
            write(other + ".3", f".so man3/{own[0]}.3\n")
    write("librdmad.3", overview(groups, names, version))
    for path in abi:
        write("rdmad-errors.7", errors_page(path, version))


if __name__ == "__main__":
    main()
