#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# symbols.sh: librdmad.so exports what rdmad.h declares and librdmad.map lists, and nothing else; the
# archive defines no name that could collide with a program's own; no function has a struct's name,
# which C++ and generators of bindings cannot keep apart.
set -euo pipefail
source=${RDMAD_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${RDMAD_BUILD:-$source/build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

grep -oE '^ +rdmad_[a-z0-9_]+;' "$source/libclient/librdmad.map" | tr -d ' ;' | sort >"$work/map"
nm -D --defined-only "$build/libclient/librdmad.so" | awk '$2 == "T" { print $3 }' |
    sed 's/@.*//' | sort >"$work/exported"
cat "$source"/include/rdmad/{rdmad,channel,transfer}.h | sed 's,/\*.*\*/,,' | tr '\n' ' ' |
    grep -oE 'RDMAD_API [^;(]*\(' | grep -oE 'rdmad_[a-z0-9_]+\($' | tr -d '(' | sort >"$work/declared"

[ -s "$work/declared" ] || { echo "no declarations found in rdmad.h"; exit 1; }
diff "$work/map" "$work/exported" || { echo "the map (<) and the exports (>) differ"; exit 1; }
diff "$work/declared" "$work/exported" || { echo "rdmad.h (<) and the exports (>) differ"; exit 1; }

sed 's,/\*.*\*/,,' "$source"/include/rdmad/*.h | grep -oE '\b(struct|enum|union) rdmad_[a-z0-9_]+' |
    cut -d' ' -f2 | sort -u >"$work/types"
[ -s "$work/types" ] || { echo "no types found in the headers"; exit 1; }
both=$(comm -12 "$work/declared" "$work/types" | tr '\n' ' ')
[ -z "$both" ] || { echo "both a type and a function: $both"; exit 1; }

if nm -g --defined-only "$build/libclient/librdmad.a" 2>/dev/null |
    awk 'NF == 3 && $3 !~ /^rdmad_/ { print; bad = 1 } END { exit !bad }'; then
    echo "librdmad.a defines names that do not start with rdmad_"
    exit 1
fi
