# SPDX-License-Identifier: MIT
"""pages.py: the pages of the documentation, and the blocks in them."""
import glob
import os
import re


def pages(source):
    """README, docs/ (but docs/TOUR.md, a transcript that test_tour makes anew), manual pages, READMEs of folders."""
    return [os.path.join(source, "README.md")] + \
        [page for page in sorted(glob.glob(os.path.join(source, "docs", "*.md"))) if not page.endswith("TOUR.md")] + \
        sorted(glob.glob(os.path.join(source, "docs", "man", "*.scd"))) + \
        [os.path.join(source, name) for name in ("CONTRIBUTING.md", "bench/README.md", "deploy/README.md", "tests/vm/README.md")] + \
        sorted(glob.glob(os.path.join(source, "contrib", "*", "README.md")))


def blocks(path):
    """(line, language, lines) of each block of a page: fenced, or in Markdown indented by four spaces."""
    lines, out, i = open(path, encoding="utf-8").read().split("\n"), [], 0
    while i < len(lines):
        start = i
        if lines[i].startswith("```"):
            i += 1
            while not lines[i].startswith("```"):
                i += 1
            out.append((start + 1, lines[start][3:].strip(), lines[start + 1:i]))
        elif path.endswith(".md") and lines[i].startswith("    ") and not lines[i - 1].strip():
            while i < len(lines) and lines[i].startswith("    "):
                i += 1
            out.append((start + 1, "", [line[4:] for line in lines[start:i]]))
        i += 1
    return out


def is_code(language, lines):
    """Whether a block is in C."""
    whole = "\n".join(lines)
    return language == "c" or bool(re.search(r"\brdmad_\w+\(|rdmad_session \*", whole)) and ";" in whole and language != "text"


def header_blocks(path):
    """(line, "c", lines) of each block of code in the comments of a header: indented by five spaces."""
    lines, out, i = open(path, encoding="utf-8").read().split("\n"), [], 0
    while i < len(lines):
        start = i
        while i < len(lines) and lines[i].startswith(" *     "):
            i += 1
        block = [line[7:] for line in lines[start:i]]
        if block and is_code("", block):
            out.append((start + 1, "c", block))
        i += 1
    return out
