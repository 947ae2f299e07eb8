#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""doc_links.py DIRECTORY: what the pages (*.md) there link to is there as well, but for what is on the web.
Prints what is not, a line each, and then how many links were looked at.
"""
import os
import re
import sys


def main(top):
    looked, bad = 0, []
    for folder, _, names in os.walk(top):
        for name in sorted(names):
            if not name.endswith(".md"):
                continue
            page = os.path.join(folder, name)
            with open(page, encoding="utf-8") as file:
                # A link may be broken over two lines, and is none within `...` or a block.
                text = re.sub(r"^```.*?^```|`[^`\n]*`", "", file.read(), flags=re.M | re.S)
            for target in re.findall(r"\]\(([^)\s]+)\)", text):
                target = target.split("#")[0]
                if not target or re.match(r"\w+:", target):
                    continue
                looked += 1
                if not os.path.exists(os.path.join(folder, target)):
                    bad.append(f"{os.path.relpath(page, top)} links to {target}, which is not there")
    print("\n".join("FAILED: " + text for text in bad + ([] if looked > 40 else [f"only {looked} links were found"])) or
          f"{looked} links lead somewhere")
    return 1 if bad or looked <= 40 else 0


sys.exit(main(sys.argv[1]))
