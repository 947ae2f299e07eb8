#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""action.py ACTION [INPUT=VALUE...]: runs the steps of an action as a runner does: its inputs, or their defaults, take
the place of ${{ inputs.NAME }}, and each step is a script of bash. What of an action this does not know ends it.

action.py --check ACTION README SCRIPT: each input is given to the script, which uses it, and is in the README's table.
"""
import os
import re
import subprocess
import sys
import tempfile

import yaml


def load(path):
    with open(path, encoding="utf-8") as file:
        action = yaml.safe_load(file)
    if set(action) != {"name", "description", "inputs", "runs"} or action["runs"]["using"] != "composite":
        sys.exit(f"action.py: {path} has what this does not know")
    for step in action["runs"]["steps"]:
        if set(step) != {"shell", "env", "run"} or step["shell"] != "bash":
            sys.exit(f"action.py: a step of {path} has what this does not know: {sorted(step)}")
    return action


def run(path, given):
    action = load(path)
    for name, it in action["inputs"].items():
        if name not in given:
            if it.get("required"):
                sys.exit(f"action.py: input {name} is required")
            given[name] = it["default"]

    def filled(text):
        return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda it: given[it.group(1)], text)

    for step in action["runs"]["steps"]:
        environment = {**os.environ, **{name: filled(value) for name, value in step["env"].items()},
                       "GITHUB_ACTION_PATH": os.path.dirname(os.path.abspath(path))}
        with tempfile.NamedTemporaryFile("w", suffix=".sh") as script:
            script.write(filled(step["run"]))
            script.flush()
            code = subprocess.run(["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", script.name], env=environment,
                                  stdin=subprocess.DEVNULL, check=False).returncode
        if code:
            sys.exit(code)


def check(path, readme, script):
    action = load(path)
    inputs = list(action["inputs"])
    env = {key: value for step in action["runs"]["steps"] for key, value in step["env"].items()}
    wanted = {"SOFT_ROCE_" + name.upper(): f"${{{{ inputs.{name} }}}}" for name in inputs}
    with open(script, encoding="utf-8") as file:
        used = set(re.findall(r"SOFT_ROCE_[A-Z]+", file.read()))
    with open(readme, encoding="utf-8") as file:
        table = re.findall(r"^\| `(\w+)` \|", file.read(), re.M)
    for what, one, other in (("the step's env", env, wanted), ("what the script reads", used, set(wanted)),
                             ("the README's table", table, inputs)):
        if one != other:
            sys.exit(f"FAILED: {what} is {one}, and of the inputs it would be {other}")


if sys.argv[1] == "--check":
    check(*sys.argv[2:5])
else:
    run(sys.argv[1], dict(it.split("=", 1) for it in sys.argv[2:]))
