#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# rdmad(8), FILES, has what a daemon makes: in its runtime directory, and in the identity of a cluster's first node;
# and what it has of these is there.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

mkdir "$work/a"
cat >"$work/a.json" <<JSON
{"metrics": {"listen": "unix"}, "audit": {"file": "$work/audit"}, "sockets": [{"tenant": "blue", "uid": $(id -u)}]}
JSON
"$rdmactl" cluster init --name one --address 127.0.0.1:7471 --identity "$work/a/identity" >"$work/init.log" 2>&1 || fail "cluster init"
"$rdmad" --config "$work/a.json" --runtime-dir "$work/a" --identity "$work/a/identity" --listen 127.0.0.1:0 2>"$work/a.log" &
pids+=($!)
await_daemon a $!
[ "$(stat -c %a "$work/audit")" = 600 ] || fail "the audit's mode is $(stat -c %a "$work/audit")"

cat >"$work/compare.py" <<'PYTHON'
import os
import re
import sys

page, runtime = sys.argv[1:3]
with open(page, encoding="utf-8") as file:
    section = re.search(r"^# FILES\n(.*?)^# ", file.read(), re.M | re.S)[1]
told = set()
for line in re.findall(r"^(_.*_)$", section, re.M):
    folder = ""
    for path in re.findall(r"_([^_]+)_", line):
        if path.startswith(("/", "@", "lib/")):
            folder = os.path.dirname(path)
        else:
            path = folder + "/" + path  # beside the first of the line
        path = path.replace("@SYSCONFDIR@/rdmad/", "/run/rdmad/") if "/identity/" in path else path
        if path.startswith("/run/rdmad/"):
            told.add(path[len("/run/rdmad/"):])
# What stands for names of somebody's choice.
STANDS_FOR = [(r"^tenants/blue/", "tenants/TENANT/"), (r"/(issued|trust)/[^/]*\.crt$", r"/\1/NAME.crt"), (r"/tokens/[^/]*$", "/tokens/ID")]
there = set()
for where, _, names in os.walk(runtime):
    for name in names:
        path = os.path.relpath(os.path.join(where, name), runtime)
        for pattern, text in STANDS_FOR:
            path = re.sub(pattern, text, path)
        there.add(path)
told.discard("identity")
bad = [f"{path} is there, and FILES does not have it" for path in sorted(there - told)] + \
    [f"FILES has {path}, and it is not there" for path in sorted(told - there)]
print("\n".join("FAILED: " + text for text in bad) or f"{len(there)} files, all in the page")
sys.exit(bool(bad) or len(there) < 14)
PYTHON
page=$RDMAD_SOURCE/docs/man/rdmad.8.scd
python3 "$work/compare.py" "$page" "$work/a" || fail "rdmad(8) has other files"
for gone in 'metrics.sock_' 'tenants/TENANT' 'node.secret' '_tokens/ID_'; do
    sed "/^_.*_$/s,$gone,nothing_," "$page" >"$work/page"
    if python3 "$work/compare.py" "$work/page" "$work/a" >/dev/null; then fail "nobody misses $gone"; fi
done
