#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# docs/TOUR.md is what scripts/tour.sh sees now of a build's programs: a first tour, and five bad nights of which doctor
# and why say the fix. test_packages asks the same of the packages, under systemd.
set -euo pipefail

made=$(mktemp "${TMPDIR:-/tmp}/rdmad-tour-made.XXXXXX")
trap 'rm -f "$made" "$made.readme"' EXIT
code=0
scripts/tour.sh >"$made" || code=$?
[ "$code" != 77 ] || exit 77
if [ "$code" != 0 ]; then
    tail -n 20 "$made"
    echo "FAILED: the tour ends early, after what is above"
    exit 1
fi
if ! diff -u docs/TOUR.md "$made"; then
    echo "FAILED: docs/TOUR.md is not what the programs say (+). If they are right: scripts/tour.sh >docs/TOUR.md"
    exit 1
fi
# What the README shows of it.
# shellcheck disable=SC2016 # three backquotes
sed -n '/^### What it looks like/,/^### /p' README.md | sed -n '/^```text/,/^```$/p' | grep -v '^```\|^$' >"$made.readme"
[ "$(wc -l <"$made.readme")" -gt 5 ] || { echo "FAILED: the README shows nothing of the tour"; exit 1; }
if grep -vxF -f docs/TOUR.md "$made.readme"; then
    echo "FAILED: the README shows what is not in docs/TOUR.md, above"
    exit 1
fi
# What it shows of a busy machine was seen once by scripts/busy.sh: numbers are not compared, heads and names are, with
# those of the tour and of what that script sees now.
scripts/busy.sh >"$made" || { echo "FAILED: scripts/busy.sh"; exit 1; }
[ "$(grep -c '^ *[0-9].* open$' "$made")" = 6 ] || { cat "$made"; echo "FAILED: six sessions should be at work"; exit 1; }
busy() { sed -n '/^### On a busy machine/,/^### /p' README.md; }
# columns_of, checks_of: of top and of all that doctor checks, in what is read.
columns_of() { sed -n '/^\$ rdmactl top -b -n 1$/{n;p;q}' | tr -s ' ' | sed 's/^ //'; }
checks_of() {
    sed -n '/^\$ rdmactl doctor$/,/^```$/p' | sed -nE 's/^(good|note|warning|bad|skipped) +(([^ ]+ )+) .*/\2/p'
}
for other in docs/TOUR.md "$made"; do
    busy | columns_of >"$made.readme"
    columns_of <"$other" | diff -u - "$made.readme" || { echo "FAILED: the README's top has other columns (+)"; exit 1; }
    grep -q PID "$made.readme" || { echo "FAILED: the README has no head of top"; exit 1; }
    busy | checks_of >"$made.readme"
    checks_of <"$other" | diff -u - "$made.readme" || { echo "FAILED: the README's doctor has other checks (+)"; exit 1; }
    [ "$(wc -l <"$made.readme")" -gt 15 ] || { echo "FAILED: the README has no list of doctor"; exit 1; }
done
busy | grep -q '^bad ' || { echo "FAILED: nothing is wrong in the README's doctor"; exit 1; }
if busy | grep -F '~'; then echo "FAILED: the README's capture of a busy machine leaves values out"; exit 1; fi
echo "the tour is as docs/TOUR.md says"
