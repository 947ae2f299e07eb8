#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# scripts/build.sh: builds the programs into build/, installing first what building needs.
#
# One builds, the others wait: several may start at once. ninja configures again by itself when that is
# needed, so a tree that ./check configured stays as it is.
set -euo pipefail

cd "$(dirname "$0")/.."
. scripts/deps.sh

need_packages "${BUILD_PACKAGES[@]}"
mkdir -p build
exec 9>build/.quickstart.lock
flock 9
[ -f build/build.ninja ] || cmake --preset release >build/configure.log ||
    { cat build/configure.log >&2; exit 1; }
quiet=(--quiet)
[ ! -t 1 ] || quiet=() # who waits sees how far it is
NINJA_STATUS='[%f of %t, %e s] ' exec ninja -C build "${quiet[@]}" rdmad rdmactl librdmad
