#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# What the README, docs/ and the manual pages tell people to type works (tests/documented.py says how far).
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

start_daemon a
python3 "$RDMAD_SOURCE/tests/documented.py" "$RDMAD_SOURCE" "$rdmactl" "$work/a" "${CC:-cc}" || fail "the documentation is not true"
