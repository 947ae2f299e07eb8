#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# suite.sh PRESET: builds the tree by that preset and runs its tests, as one test of ./check.
set -euo pipefail

preset=$1
cd "$(dirname "$0")/.."
unset RDMAD_BUILD RDMAD_SOURCE
jobs=$(nproc)

only=()
case $preset in
tsan) only=(-L tsan) ;;
fuzz) only=(-L fuzz) ;;
esac

launcher=()
if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
fi
cmake --preset "$preset" "${launcher[@]}" >/dev/null
cmake --build "build-$preset" -j "$jobs" -- --quiet
ctest --test-dir "build-$preset" -j "$jobs" --output-on-failure --no-tests=error "${only[@]}"
