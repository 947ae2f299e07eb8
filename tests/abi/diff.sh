#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# diff.sh [--update]: a program that was built for the last release runs with this librdmad. What that release
# exported, with every type in it, is in librdmad.abi.xz (abidw's words); abidiff compares. There may be more
# functions, more values of an enum, and more at the end of structs that begin with their size; nothing else.
#
# --update writes librdmad.abi.xz anew. That is for a release, and for nothing else.
set -euo pipefail
source=${RDMAD_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${RDMAD_BUILD:-$source/build}
last=$source/tests/abi/librdmad.abi.xz
library=$build/libclient/librdmad.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for tool in abidw abidiff xz; do
    command -v $tool >/dev/null || { echo "skipped: $tool is not here (abigail-tools, xz-utils)"; exit 77; }
done
if [ "${1:-}" = --update ]; then
    abidw --no-corpus-path --no-comp-dir-path --short-locs --exported-interfaces-only --drop-private-types \
        --headers-dir "$source/include/rdmad" "$library" | xz -9e >"$work/abi.xz"
    mv "$work/abi.xz" "$last"
    exit
fi

xz -dc "$last" >"$work/last.abi"
grep -q "architecture='elf-amd-x86_64'" "$work/last.abi"
if [ "$(uname -m)" != x86_64 ]; then
    echo "skipped: librdmad.abi.xz is of x86-64"
    exit 77
fi
# Structs that begin with "size_t size;" may grow.
growing=$(awk '/^struct rdmad_[a-z_]+ \{/ { name = $2; next } name && /^ *size_t size;/ { print name } { name = "" }' \
    "$source"/include/rdmad/*.h)
[ "$(wc -l <<<"$growing")" -ge 10 ] || { echo "no structs with a size found in the headers"; exit 1; }
for name in $growing; do
    printf '[suppress_type]\ntype_kind = struct\nname = %s\nhas_data_member_inserted_at = end\n' "$name"
done >"$work/growth.suppr"
# A ring's memory is between librdmad and the daemon, which agree on its version (ring.h); programs have a pointer to
# the library's own struct, whose header has the same name.
for name in rdmad_ring rdmad_ring_client rdmad_ring_daemon; do
    printf '[suppress_type]\ntype_kind = struct\nname = %s\n' "$name"
done >>"$work/growth.suppr"

compare() { # OPTION...
    abidiff "$@" --drop-private-types --headers-dir2 "$source/include/rdmad" --suppressions "$work/growth.suppr" \
        "$work/last.abi" "$library"
}
compare --no-added-syms >"$work/said" || {
    cat "$work/said"
    echo "this librdmad is not what programs of the last release were built for; docs: CONTRIBUTING.md, The ABI"
    exit 1
}
compare || true # what is new, for those who read
echo "programs of the last release run with this one"
