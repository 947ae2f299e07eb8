#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_tidy.sh: clang-tidy looks at what has changed, by whatever way, and at nothing else; and what
# has a fault is never taken for clean.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/rdmad-tidy.XXXXXX")
trap 'rm -rf "$work"' EXIT

printf 'Checks: "-*,bugprone-sizeof-expression"\nWarningsAsErrors: "*"\nHeaderFilterRegex: ".*"\n' >"$work/.clang-tidy"
mkdir "$work/src"
echo 'static inline int five(void) { return 5; }' >"$work/src/five.h"
echo '#include "five.h"
int main(void) { return five() - 5; }' >"$work/src/a.c"
echo 'int b(void); int b(void) { return 0; }' >"$work/src/b.c"
cat >"$work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(t C)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_executable(a src/a.c src/b.c)
END
cmake -G Ninja -S "$work" -B "$work/build" >/dev/null

expect() { # CODE WORDS
    local code=0
    cmake --build "$work/build" >/dev/null
    "$here/tidy.py" "$work" "$work/build" src >"$work/said" 2>&1 || code=$?
    if [ "$code" != "$1" ] || ! grep -qF "$2" "$work/said"; then
        cat "$work/said"
        echo "FAILED: exit status $code, not $1 with: $2"
        exit 1
    fi
}

expect 0 'looked at 2 of 2 files, 0 have faults'
expect 0 'looked at 0 of 2 files'
touch "$work/src/a.c"
expect 0 'looked at 0 of 2 files'
echo 'static inline int five(void) { int x = 5; return x + 0 * (int)sizeof(sizeof(x)); }' >"$work/src/five.h"
expect 1 'looked at 1 of 2 files, 1 have faults'
expect 1 'looked at 1 of 2 files, 1 have faults'
echo 'static inline int five(void) { return 5; }' >"$work/src/five.h"
expect 0 'of 2 files, 0 have faults'
expect 0 'looked at 0 of 2 files'
echo 'Checks: "-*,bugprone-sizeof-expression,bugprone-branch-clone"
WarningsAsErrors: "*"' >"$work/.clang-tidy"
expect 0 'looked at 2 of 2 files'
cmake -S "$work" -B "$work/build" -DCMAKE_C_FLAGS=-DSOMETHING >/dev/null
expect 0 'looked at 2 of 2 files'
# Compiled twice, and only the second way shows the fault.
printf 'int one(void);\nint one(void) { return 0; }\n#ifdef FAULTY\nunsigned long two(void);\nunsigned long two(void) { return sizeof(sizeof(int)); }\n#endif\n' >"$work/src/c.c"
cat >>"$work/CMakeLists.txt" <<'END'
add_library(plain STATIC src/c.c)
add_library(same STATIC src/c.c)
set_target_properties(same PROPERTIES POSITION_INDEPENDENT_CODE ON)
END
expect 0 'looked at 1 of 3 files, 0 have faults'
[ "$(grep -o '"file": "[^"]*c\.c"' "$work/build/tidy/compile_commands.json" | wc -l)" = 1 ] || {
    echo "FAILED: what is compiled twice alike is looked at twice"
    exit 1
}
echo 'target_compile_definitions(same PRIVATE FAULTY)' >>"$work/CMakeLists.txt"
expect 1 'looked at 1 of 3 files, 1 have faults'
echo "what has changed is looked at"
