#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test.sh PROGRAM [ARG...]: one test in the guest, with its devices as they should be, by run.sh. Tests
# in there take devices and interfaces away: on any other machine it is not run.
set -euo pipefail

here=$(dirname "$0")
if [ ! -f /run/vm/init ]; then
    echo "skipped: not in the guest of tests/vm"
    exit 77
fi
"$here/devices.sh"
exec "$here/../run.sh" "$@"
