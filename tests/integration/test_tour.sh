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
echo "the tour is as docs/TOUR.md says"
