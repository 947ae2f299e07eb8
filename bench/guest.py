# SPDX-License-Identifier: MIT
"""Runs a scenario in the Soft-RoCE guest of tests/vm, whose two devices count as two hosts."""
import json
import os
import subprocess
import sys

from rdmad import Failure

DEVICES = "rxe0,rxe1"


def document(argv, root, rounds, progress):
    """What bench/compare with argv and -j prints in the guest; its progress is passed on."""
    run = os.path.join(root, "tests/vm/run")
    env = {"RDMAD_VM_TIMEOUT": str(300 + 120 * rounds), **os.environ, "RDMAD_VM_BUILD": "no",
           "RDMAD_BENCH_PROGRESS": "lines"}  # it is built
    command = [run, sys.executable, os.path.join(root, "bench/compare"), *argv, "-j"]
    said = []
    try:
        with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as p:
            try:
                for line in p.stderr:
                    if not progress(line.strip()):
                        said.append(line)
                text = p.stdout.read()
            except BaseException:
                p.terminate()  # it takes the guest with it
                raise
    except OSError as e:
        raise Failure(f"{run}: {e.strerror}") from None
    try:
        result = json.loads(text)
    except ValueError:
        raise Failure(f"in the guest (exit code {p.returncode}): "
                      f"{''.join(said[-40:]).strip() or text.strip()}") from None
    if "error" in result:
        raise Failure(f"in the guest: {result['error']['text']}")
    return result
