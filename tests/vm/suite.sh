#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# suite.sh BUILD [CTEST ARGUMENT...]: what is registered for the guest, from a complete build, in one
# guest, as one test of ./check.
#
# A guest whose kernel dies inside rdma_rxe is booted again, twice at most, and the suite goes on with
# the test that it died in: that driver is not ours. Any other death is a failure. Each is told at the
# end, and in BUILD/guest-deaths, which ./check shows.
set -euo pipefail

cd "$(dirname "$0")/../.."
build=$1
shift
deaths=$build/guest-deaths
rm -f "$deaths"
work=$(mktemp -d "${TMPDIR:-/tmp}/rdmad-guest-suite.XXXXXX")
trap 'rm -rf "$work"' EXIT
export RDMAD_VM_BUILD=no RDMAD_VM_TIMEOUT=${RDMAD_VM_TIMEOUT:-7200}

# shellcheck source=tests/vm/died.sh
. tests/vm/died.sh

# run_suite EXCLUDED: all but those; what it prints is kept as well.
run_suite() {
    local but=()
    [ -z "$1" ] || but=(-E "^($1)\$")
    tests/vm/run ctest --test-dir "$build" -C Guest -L verbs --output-on-failure --no-tests=error \
        "${but[@]}" "${@:2}" 2>&1 | tee "$work/said"
}

excluded='' failed=''
for ((boot = 1; ; boot++)); do
    code=0
    run_suite "$excluded" "$@" || code=$?
    if [ "$code" != 125 ] || [ "$boot" -gt 2 ] || ! died_inside_rxe "$work/said"; then
        break
    fi
    victim=$(test_under_way "$work/said")
    [ -n "$victim" ] || break
    echo "guest death $boot: its kernel died inside rdma_rxe during $victim; booted again, going on with it" |
        tee -a "$deaths"
    failed+=$(tests_failed "$work/said")
    passed=$(tests_ended "$work/said")
    excluded=$(join_names "$excluded" "$passed")
done
[ ! -f "$deaths" ] || cat "$deaths"
if [ -n "$failed" ]; then
    echo "failed before the guest was booted again: $failed"
    exit 1
fi
exit "$code"
