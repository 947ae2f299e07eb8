#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# planted.sh TEXT COMMAND...: COMMAND has a fault planted in it and must fail, with TEXT in its
# output. This is the test of the tests: a suite that swallows faults shows here.
set -euo pipefail

text=$1
shift
if output=$("$@" 2>&1); then
    printf '%s\n' "$output"
    echo "planted.sh: the planted fault went unnoticed: $*"
    exit 1
fi
if ! grep -qF -- "$text" <<<"$output"; then
    printf '%s\n' "$output"
    echo "planted.sh: it failed, but not with \"$text\""
    exit 1
fi
echo "noticed: $text"
