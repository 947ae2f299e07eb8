#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The code in C of the documentation does what its text says, from one daemon to another (documented_code.py).
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

start_daemon a
start_daemon b
"$RDMAD_SOURCE/tests/integration/documented_code.py" "$RDMAD_SOURCE" "$RDMAD_BUILD" "${CC:-cc}" "$work/a" "$work/b" ||
    fail "the documentation is not true"
