#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_python.sh FILE: a test of the Python package with two daemons, $A and $B.
set -euo pipefail
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

if [ ! -e "$RDMAD_BUILD/python/rdmad/_declared.py" ]; then
    echo "skipped: the Python package is not built (RDMAD_PYTHON needs python3-cffi)"
    exit 77
fi
start_daemon a
start_daemon b
A_PID=${pids[0]} A=$work/a B=$work/b PYTHONPATH=$RDMAD_BUILD/python LD_LIBRARY_PATH=$RDMAD_BUILD/libclient \
    PYTHONDONTWRITEBYTECODE=1 timeout --foreground 100 /usr/bin/python3 -X dev -W error "$1" ||
    fail "$(basename "$1")"
