#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# suite.sh build|run|units|others PRESET: builds the tree by that preset, or runs its tests, those of the
# units or all others, as one test of ./check. Builds take what others leave of the CPUs, and units less
# than their share: both are at work while the guest of tests/vm runs.
set -euo pipefail

what=$1 preset=$2
cd "$(dirname "$0")/.."
unset RDMAD_BUILD RDMAD_SOURCE
jobs=$(nproc)

if [ "$what" = build ]; then
    launcher=()
    if command -v ccache >/dev/null; then
        launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
    fi
    cmake --preset "$preset" "${launcher[@]}" >/dev/null
    targets=()
    [ "$preset" != fuzz ] || targets=(--target fuzzers)
    exec nice -n 19 cmake --build "build-$preset" -j "$jobs" "${targets[@]}" -- --quiet
fi

only=() priority=0
case $preset in
tsan) only=(-L tsan) ;;
fuzz) only=(-L fuzz) ;;
esac
case $what in
units) only+=(-L unit) priority=5 ;;
others)
    only+=(-LE unit)
    jobs=$((jobs + 1)) # most of them wait most of the time
    [ "$preset" != tsan ] || jobs=$((jobs + 2)) # and of these the processors were idle for more than half of it
    ;;
esac
exec nice -n "$priority" ctest --test-dir "build-$preset" -j "$jobs" --output-on-failure --no-tests=error "${only[@]}"
