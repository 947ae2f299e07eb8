#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""dashboard_rules.py DASHBOARD: each query of a Grafana dashboard as a recording rule, for `promtool check rules`.

What Grafana puts in for its variables is put in here; one that is not known is an error, as is a panel that shows
something and asks nothing.
"""
import json
import re
import sys

VARIABLES = {"$instance": ".*", "$__rate_interval": "5m"}
TEXTS = ("row", "text") # panels that ask nothing


def fail(words):
    sys.exit("FAILED: " + words)


def panels(board):
    for panel in board["panels"]:
        yield panel
        yield from panels({"panels": panel.get("panels", [])})


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        board = json.load(file)
    rules = []
    for panel in panels(board):
        targets = panel.get("targets", [])
        if not targets and panel["type"] not in TEXTS:
            fail(f"panel \"{panel['title']}\" asks nothing")
        for target in targets:
            expr = target["expr"]
            for name, value in VARIABLES.items():
                expr = expr.replace(name, value)
            if left := re.findall(r"\$\w+|\$\{\w+\}", expr):
                fail(f"panel \"{panel['title']}\": {left[0]} is no variable that this test knows")
            rules.append({"record": f"rdmad:panel_{len(rules)}", "expr": expr})
    # JSON is YAML, too.
    print(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}, indent=1))


if __name__ == "__main__":
    main()
