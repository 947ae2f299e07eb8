#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# headers.sh: every public header compiles alone, as strict C11 and as C++, with every compiler here.
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
        compile "$compiler" -std=c++20 -xc++ "$header"
    done
done
[ "$tried" -ge 8 ] || { echo "no compiler found"; exit 1; }
