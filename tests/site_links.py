#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""site_links.py SITE: each link of the site goes somewhere in it, to a name that is there; nothing is loaded from
elsewhere; each page can be reached from index.html. Prints what is wrong, a line each, and then how much was looked at.
"""
import html.parser
import os
import posixpath
import re
import sys
import urllib.parse

LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src", "video": "src", "object": "data"}
VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads, self.open, self.wrong = [], [], [], [], []
        self.feed(text)
        if self.open:
            self.wrong.append(f"<{self.open[-1]}> is not closed")

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag not in VOID:
            self.open.append(tag)
        if given.get("id"):
            self.ids.append(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if given.get(LOADED.get(tag)):
            self.loads.append(given[LOADED[tag]])
        self.wrong += [f"<{tag} {name}>: a script" for name in given if name.startswith("on")]

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if tag in ("p", "li", "dt", "dd", "td", "tr") and tag not in self.open:
            return
        while self.open and self.open[-1] != tag and self.open[-1] in ("p", "li", "dt", "dd"):
            self.open.pop()  # whose end may be left out
        if not self.open or self.open[-1] != tag:
            self.wrong.append(f"</{tag}> closes nothing")
        else:
            self.open.pop()


def check(site):
    pages, bad = {}, []
    for folder, _, names in os.walk(site):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), site)
            if name.endswith(".html"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    pages[path] = Page(file.read())
            elif name.endswith(".css"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    bad += [f"{path}: loads {it}" for it in re.findall(r"url\([^)]*\)|@import[^;]*", file.read())]
    links, reached, todo = 0, set(), ["index.html"]
    for path, page in sorted(pages.items()):
        bad += [f"{path}: {it}" for it in page.wrong]
        bad += [f"{path}: two things are called #{it}" for it in sorted({i for i in page.ids if page.ids.count(i) > 1})]
        for link in page.links + page.loads:
            scheme = re.match(r"[a-z][a-z0-9+.-]*:|//", link)
            if scheme and link in page.loads:
                bad.append(f"{path}: loads {link}")
            if scheme:
                continue
            links += 1
            file, _, anchor = link.partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), urllib.parse.unquote(file))) if file else path
            if target.startswith("..") or link.startswith("/") or not os.path.isfile(os.path.join(site, target)):
                bad.append(f"{path}: a link to {link}, which there is not")
            elif anchor and target in pages and urllib.parse.unquote(anchor) not in pages[target].ids:
                bad.append(f"{path}: a link to {link}, and nothing there is called so")
            page.__dict__.setdefault("targets", set()).add(target)
    while todo:
        path = todo.pop()
        if path not in reached and path in pages:
            reached.add(path)
            todo += getattr(pages[path], "targets", ())
    bad += [f"{path}: nothing leads there" for path in sorted(set(pages) - reached)]
    return pages, links, bad


def main():
    pages, links, bad = check(sys.argv[1])
    print("\n".join(bad + [f"{len(pages)} pages, {links} links"]))
    sys.exit(1 if bad else 0)


main()
