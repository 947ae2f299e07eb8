#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_bench_run.sh: bench/compare measures a row with real daemons and a real peer, and bench/plot draws what it says. Who
# only computes takes no more of a processor than it was given.
set -euo pipefail

work=$(mktemp -d "${TMPDIR:-/tmp}/rdmad-bench-run.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $*"
    cat "$work/said" 2>/dev/null || true
    exit 1
}
if [ -x "$RDMAD_BUILD/bench/bench_computes" ]; then
    python3 - "$RDMAD_BUILD/bench/bench_computes" >"$work/said" 2>&1 <<'EOF' || fail "bench_computes takes what it should not"
import subprocess, sys, time
sys.path.insert(0, "bench")
sys.dont_write_bytecode = True
import shares
start = time.monotonic()
program = subprocess.Popen([sys.argv[1], "0.05", "idle:0.1"], stdout=subprocess.PIPE, text=True)
try:
    assert program.stdout.readline() == "ready\n"
    had = {}
    while len(had) < 2 or not all(had.values()):  # the one at the lowest priority waits for others
        time.sleep(0.1)
        had = shares.process_times([program.pid])
        assert time.monotonic() - start < 60, had
    time.sleep(2)
    had, span = shares.process_times([program.pid]), time.monotonic() - start
    (child,) = set(had) - {program.pid}
    assert shares.is_idle(child) and not shares.is_idle(program.pid)
    assert had[program.pid] <= 0.05 * span + 0.05, (had, span)
    assert had[child] <= 0.1 * span + 0.05, (had, span)
finally:
    program.kill()
EOF
fi
row="write 8 B latency vs libfabric"
[ -x "$RDMAD_BUILD/bench/bench_fabric_pair" ] || { echo "skipped: bench_fabric_pair is not built: there is no libfabric"; exit 77; }
bench/compare tcp --only "$row" --rounds 1 -j --build "$RDMAD_BUILD" >"$work/tcp.json" 2>"$work/said" || fail "bench/compare"
bench/plot "$work/tcp.json" -o "$work/tcp.svg" 2>"$work/said" || fail "bench/plot"
python3 - "$work" "$row" >"$work/said" 2>&1 <<'EOF' || fail "the picture is not of what was measured"
import json, sys, xml.etree.ElementTree
work, name = sys.argv[1:]
rows = json.load(open(f"{work}/tcp.json"))["rows"]
assert [row["name"] for row in rows] == [name], rows
assert rows[0]["ours"] > 0 and rows[0]["theirs"] > 0 and rows[0]["ratio"] > 0, rows
words = [it.text for it in xml.etree.ElementTree.parse(f"{work}/tcp.svg").iter("{http://www.w3.org/2000/svg}text")]
ratio = rows[0]["ratio"]
for wanted in ("against libfabric", "write 8 B latency", f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"):
    assert wanted in words, (wanted, words)
EOF
if bench/plot "$work/said" >"$work/nothing" 2>"$work/why"; then fail "a picture was drawn of nothing"; fi
grep -q '^bench/plot: .*said: ' "$work/why" || fail "it does not say why: $(<"$work/why")"
echo "a row was measured and drawn"
