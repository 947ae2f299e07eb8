#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# headers.sh: every public header compiles alone, as strict C11 and as C++, with every compiler here,
# and structs begin as their INIT says.
set -euo pipefail
cd "${RDMAD_SOURCE:-$(dirname "$0")/../..}"

tried=0
compile() { # compiler, language flags..., header
    local header=${!#}
    command -v "$1" >/dev/null || return 0
    tried=$((tried + 1))
    echo "#include <rdmad/$header>" |
        "${@:1:$#-1}" -Iinclude -Wall -Wextra -Wpedantic -Werror -fsyntax-only - ||
        { echo "rdmad/$header does not compile with ${*:1:$#-1}"; exit 1; }
}

for path in include/rdmad/*.h; do
    header=${path##*/}
    for compiler in gcc clang; do
        compile "$compiler" -std=c11 -xc "$header"
        compile "$compiler" -std=gnu17 -xc "$header"
    done
    for compiler in g++ clang++; do
        compile "$compiler" -std=c++11 -xc++ "$header"
        compile "$compiler" -std=c++17 -xc++ "$header"
        compile "$compiler" -std=c++20 -xc++ "$header"
    done
done
# Structs can be initialized as the header says, in each of the languages.
initialize() { # compiler, language flags...
    command -v "$1" >/dev/null || return 0
    {
        echo '#include <rdmad/rdmad.h>'
        grep -ohE '^#define RDMAD_[A-Z_]+_INIT\b' include/rdmad/{rdmad,channel,transfer}.h | while read -r _ macro; do
            name=$(echo "${macro%_INIT}" | tr '[:upper:]' '[:lower:]')
            echo "struct $name make_$name(void); struct $name make_$name(void) {"
            echo "    struct $name it = $macro; return it; }"
        done
    } >"$work/init"
    [ "$(grep -c return "$work/init")" -ge 10 ] || { echo "no INIT found in rdmad.h"; exit 1; }
    "$@" -Iinclude -Wall -Wextra -Wpedantic -Werror -fsyntax-only - <"$work/init" ||
        { echo "structs cannot be initialized with $*"; exit 1; }
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for compiler in gcc clang; do
    initialize "$compiler" -std=c11 -xc
done
for compiler in g++ clang++; do
    for std in c++11 c++17 c++20; do
        initialize "$compiler" -std=$std -xc++
    done
done
[ "$tried" -ge 8 ] || { echo "no compiler found"; exit 1; }
