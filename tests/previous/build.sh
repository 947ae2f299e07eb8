#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# build.sh: builds rdmad, rdmactl and librdmad of the commit that tests/previous/commit names, once, into
# $RDMAD_BUILD/previous/COMMIT, and leaves $RDMAD_BUILD/previous/now, a link to that.
#
# Skips (77) where the clone does not have the commit: one of a tarball, or of the last commits alone.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
commit=$(grep -v '^#' "$here/commit")
root=$(cd "$here/../.." && pwd)
all=${RDMAD_BUILD:?}/previous
to=$all/$commit

skip() {
    echo "skipped: $*"
    rm -f "$all/now"
    exit 77
}

if [ ! -f "$to/built" ]; then
    command -v git >/dev/null || skip "there is no git to take the previous release with"
    git=(git -c "safe.directory=*" -C "$root")
    [ "$("${git[@]}" rev-parse --show-toplevel 2>/dev/null || true)" = "$root" ] ||
        skip "$root is no clone, so the previous release ($commit) cannot be had"
    "${git[@]}" cat-file -e "$commit^{commit}" 2>/dev/null ||
        skip "this clone has no commit $commit, the previous release: git fetch --unshallow brings it"
    rm -rf "$all" # of other commits, or in part
    mkdir -p "$to/source"
    "${git[@]}" archive "$commit" | tar -x -C "$to/source"
    launcher=()
    if command -v ccache >/dev/null; then
        launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
    fi
    # What it speaks matters, not how fast.
    cmake -S "$to/source" -B "$to/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0 "${launcher[@]}" >/dev/null
    nice -n 19 cmake --build "$to/build" -j "$(nproc)" --target rdmad rdmactl librdmad -- --quiet
    touch "$to/built"
fi
ln -sfn "$commit" "$all/now"
echo "the previous release is $commit"
