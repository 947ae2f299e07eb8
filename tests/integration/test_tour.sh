#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# docs/TOUR.md is what scripts/tour.sh sees now: a first tour, and five bad nights of which doctor and why say the fix.
set -euo pipefail

made=$(mktemp "${TMPDIR:-/tmp}/rdmad-tour-made.XXXXXX")
trap 'rm -f "$made"' EXIT
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
echo "the tour is as docs/TOUR.md says"
