#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make.py SOURCE MANUALS OUT VERSION: the site, of the README, of docs/ and of the manual pages of a build.

A page stands where its source does, and its links are those of its source: to another page, to a heading, to a file,
which becomes a page, too, or to a folder, which becomes a list of its files. A link to what there is not ends this with
a message. NAME(SECTION) becomes a link wherever there is such a manual page. Nothing is asked of the network, when it
is made or read.
"""
import glob
import html
import os
import posixpath
import re
import shutil
import subprocess
import sys

NAVIGATION = [("README.md", "rdmad"), ("docs/TOUR.md", "Tour"), ("docs/CONCEPTS.md", "Concepts"),
              ("docs/OPERATIONS.md", "Operations"), ("docs/SECURITY.md", "Security"), ("docs/MIGRATION.md", "Migration"),
              ("man/", "Manual pages"), ("examples/", "Examples"), ("docs/ARCHITECTURE.md", "Architecture"),
              ("docs/PROTOCOL.md", "Protocol"), ("docs/THREADS.md", "Threads"), ("docs/GLOSSARY.md", "Glossary"),
              ("bench/README.md", "Benchmarks"), ("CHANGELOG.md", "Changes"), ("CONTRIBUTING.md", "Contributing")]
SECTIONS = {"1": "Commands", "3": "The library and its bindings", "5": "Files", "7": "Concepts and lists",
            "8": "Commands of the administrator"}
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<link rel="stylesheet" href="{style}">
</head>
<body>
<nav>
{navigation}
</nav>
<main>
{body}
</main>
<footer>rdmad {version}</footer>
</body>
</html>
"""


def die(text):
    sys.exit("site: " + text)


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode:
        die(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def slug(heading, taken):
    """A heading's name in links, as GitHub has it; the second of a name gets a number."""
    plain = html.unescape(re.sub(r"<[^>]*>", "", heading)).lower()
    name = plain = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
    number = 0
    while name in taken:
        number += 1
        name = f"{plain}-{number}"
    taken.add(name)
    return name


class Site:
    def __init__(self, source, manuals, out, version):
        self.source, self.manuals, self.out, self.version = source, manuals, out, version
        self.pages = {}  # of each source path, or folder with / at its end: the page
        self.files = []  # that pages link to, to be made
        self.man = {}  # (name, section) -> page, of links to pages, too

    # ---- where things are ----

    def find(self):
        for pattern in ("*.md", "docs/*.md", "*/README.md", "*/*/README.md"):
            for path in sorted(glob.glob(os.path.join(self.source, pattern))):
                path = os.path.relpath(path, self.source)
                if not path.startswith("build"):
                    self.pages[path] = "index.html" if path == "README.md" else path.removesuffix(".md") + ".html"
        self.pages["man/"] = "man/index.html"
        aliases = []
        for path in sorted(glob.glob(os.path.join(self.manuals, "man?", "*.?")) +
                           glob.glob(os.path.join(self.manuals, "*.[1-8]"))):
            name, section = os.path.basename(path).rsplit(".", 1)
            with open(path, encoding="utf-8") as file:
                other = re.match(r"\.so man\d/(.*)\.(\d)", file.readline())
            if other:
                aliases.append(((name, section), other.groups()))
            else:
                self.man[name, section] = f"man/{name}.{section}.html"
        if len(self.man) < 60:
            die(f"{self.manuals} has {len(self.man)} manual pages: build with scdoc and python3")
        self.man.update((alias, self.man[page]) for alias, page in aliases)

    def page_of(self, path, by):
        """Of a path in the source, whatever it is; by: who links to it."""
        if os.path.isdir(os.path.join(self.source, path)):
            path = path.rstrip("/") + "/"
        if path not in self.pages:
            if not os.path.exists(os.path.join(self.source, path)) or path.startswith(("..", "build", ".git/")):
                die(f"{by}: a link to {path}, which there is not")
            self.pages[path] = path + "index.html" if path.endswith("/") else path + ".html"
            self.files.append(path)
        return self.pages[path]

    # ---- what pages have in common ----

    def write(self, page, title, body):
        up = posixpath.dirname(page) or "."
        navigation = "\n".join(
            f'<a href="{posixpath.relpath(self.page_of(path, "the navigation"), up)}">{words}</a>' for path, words in NAVIGATION)
        os.makedirs(os.path.join(self.out, up), exist_ok=True)
        with open(os.path.join(self.out, page), "w", encoding="utf-8") as file:
            file.write(PAGE.format(title=html.escape(title), style=posixpath.relpath("style.css", up), body=body,
                                   navigation=navigation, version=self.version))

    def man_links(self, text, page):
        """NAME(SECTION) outside of links, headings and code, also with its NAME in bold or as code."""
        up, quiet = posixpath.dirname(page) or ".", 0

        def link(match):
            it = self.man.get((html.unescape(match.group(2)), match.group(4)))
            before = match.string[match.string.rfind("<", 0, match.start()):match.start()]
            if not it or it == page or before.startswith("<a "):
                return match.group(0)
            return f'<a href="{posixpath.relpath(it, up)}">{match.group(1)}{match.group(2)}{match.group(3)}({match.group(4)})</a>'

        text = re.sub(r"(?<![\w-])(<(?:b|code)>)([\w.-]+)(</(?:b|code)>)\((\d)\)", link, text)
        pieces = re.split(r"(<[^>]*>)", text)
        for i, piece in enumerate(pieces):
            tag = re.match(r"<(/?)(a|pre|code|h\d|td class=\"head)\b", piece)
            if tag:
                quiet += -1 if tag.group(1) else 1
            elif not piece.startswith("<") and not quiet:
                pieces[i] = re.sub(r"()\b([a-z][\w.-]*)()\((\d)\)", link, piece)
            if piece == "</td>":
                quiet = 0  # of a manual's head
        return "".join(pieces)

    # ---- each kind of page ----

    def markdown(self, path):
        page, taken = self.pages[path], set()
        up = posixpath.dirname(page) or "."
        text = run("cmark-gfm", "-e", "table", "-e", "autolink", os.path.join(self.source, path))
        text = text.replace("<!-- raw HTML omitted -->\n", "")

        def heading(match):
            return f'<h{match.group(1)} id="{slug(match.group(2), taken)}">{match.group(2)}</h{match.group(1)}>'

        def link(match):
            target = html.unescape(match.group(2))
            if re.match(r"[a-z]+:", target) or target.startswith("#"):
                return match.group(0)
            file, _, anchor = target.partition("#")
            file = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
            if match.group(1) == "src":
                to = self.copy(file, path)
            else:
                to = self.page_of(file, path)
            to = posixpath.relpath(to, up) + (f"#{anchor}" if anchor else "")
            return f'{match.group(1)}="{html.escape(to)}"'

        text = re.sub(r"<h(\d)>(.*?)</h\1>", heading, text, flags=re.S)
        text = re.sub(r'\b(href|src)="([^"]*)"', link, text)
        title = re.search(r"<h1[^>]*>(.*?)</h1>", text, re.S)
        title = html.unescape(re.sub(r"<[^>]*>", "", title.group(1))) if title else path
        self.write(page, title, self.man_links(text, page))

    def copy(self, path, by):
        """A picture, as it is."""
        if not os.path.isfile(os.path.join(self.source, path)):
            die(f"{by}: shows {path}, which there is not")
        os.makedirs(os.path.dirname(os.path.join(self.out, path)), exist_ok=True)
        shutil.copyfile(os.path.join(self.source, path), os.path.join(self.out, path))
        return path

    def file(self, path):
        """A file or a folder of the source."""
        page, where = self.pages[path], os.path.join(self.source, path)
        if not path.endswith("/"):
            with open(where, encoding="utf-8", errors="replace") as file:
                self.write(page, path, f"<h1>{html.escape(path)}</h1>\n<pre><code>{html.escape(file.read())}</code></pre>")
            return
        rows = []
        for name in sorted(os.listdir(where)):
            if not name.startswith((".", "__pycache__")):
                to = self.page_of(path + name, path)
                rows.append(f'<li><a href="{html.escape(posixpath.relpath(to, path))}">{html.escape(name)}</a></li>')
        self.write(page, path, f"<h1>{html.escape(path)}</h1>\n<ul>\n" + "\n".join(rows) + "\n</ul>")

    def manual(self, name, section):
        page = self.man[name, section]
        folder = f"man{section}/" if os.path.exists(os.path.join(self.manuals, f"man{section}", f"{name}.{section}")) else ""
        text = run("mandoc", "-T", "html", "-O", "fragment,toc", f"{folder}{name}.{section}", cwd=self.manuals)
        text = re.sub(r"<pre>.*?</pre>", lambda it: re.sub(r"\n?<br/>", "", it.group(0)), text, flags=re.S)
        self.write(page, f"{name}({section})", self.man_links(text, page))
        said = re.search(r'id="NAME".*?<p class="Pp">(.*?)</p>', text, re.S)
        return re.sub(r"\s+", " ", said.group(1)) if said else name

    def manuals_index(self):
        said = {it: self.manual(*it) for it, page in sorted(self.man.items()) if page == f"man/{it[0]}.{it[1]}.html"}
        body = ["<h1>Manual pages</h1>"]
        for section, words in SECTIONS.items():
            rows = []
            for (name, of), page in sorted(self.man.items()):
                if of == section:
                    target = page.removeprefix("man/")
                    what = re.sub(r"^.*? - ", "", said[tuple(target.removesuffix(".html").rsplit(".", 1))], count=1)
                    rows.append(f'<tr><td><a href="{target}">{name}({of})</a></td><td>{what}</td></tr>')
            if rows:
                body += [f'<h2 id="section-{section}">{section}: {words}</h2>', "<table>", *rows, "</table>"]
        self.write("man/index.html", "Manual pages", "\n".join(body))

    def make(self):
        self.find()
        os.makedirs(self.out, exist_ok=True)
        shutil.copyfile(os.path.join(self.source, "docs/site/style.css"), os.path.join(self.out, "style.css"))
        for path in [path for path in self.pages if path.endswith(".md")]:
            self.markdown(path)
        self.manuals_index()
        done = 0
        while done < len(self.files):  # a folder adds to them
            self.file(self.files[done])
            done += 1


Site(*sys.argv[1:5]).make()
