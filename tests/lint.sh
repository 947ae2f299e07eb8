#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# lint.sh WHAT [BUILD]: what is asked of the sources themselves.
#   sources   one SPDX line a file, no function or file beyond its bound, nothing left for later
#   format    clang-format changes nothing
#   tidy      clang-tidy has nothing to say (needs BUILD's compile_commands.json)
#   shell     shellcheck has nothing to say
#   python    pyflakes has nothing to say, nor mypy of the package (needs BUILD's python/)
set -euo pipefail

cd "$(dirname "$0")/.."

# What git knows and what is not ignored, so that a file counts before it is committed; without git
# (an unpacked archive) everything outside the build directories.
files() {
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files --cached --others --exclude-standard -- "$@"
    else
        local args=() pattern
        for pattern in "$@"; do
            args+=(-o -path "./$pattern")
        done
        find . -path './build*' -prune -o \( -false "${args[@]}" \) -type f -printf '%P\n'
    fi | sort | while IFS= read -r file; do [ ! -f "$file" ] || printf '%s\n' "$file"; done
}
c_files() { files '*.c' '*.h'; }
scripts() {
    files '*.sh'
    local file
    for file in quickstart check .ci/run tests/soak tests/vm/run tests/vm/two-hosts \
        debian/rdmad.{postinst,prerm,postrm} debian/tests/{transfer,services,build,python}; do
        [ ! -f "$file" ] || printf '%s\n' "$file"
    done
}

lint_sources() {
    local bad=0 said
    # One program for all files: one for each took ten seconds.
    said=$({ c_files; scripts; files '*CMakeLists.txt' '*.cmake' '*.py' '*.hpp' '*.cpp'; } |
        { xargs grep -HcE '^(/\*|#|//) SPDX-License-Identifier: MIT' || true; } |
        sed -n '/:1$/!s/:[0-9]*$/: needs exactly one SPDX-License-Identifier: MIT line/p')
    if [ -n "$said" ]; then
        echo "$said"
        bad=1
    fi
    # A function starts at a line that does not and ends in "{", and ends at a lone "}".
    c_files | xargs awk '
        FNR == 1 { start = 0 }
        FNR == 601 { print FILENAME ": more than 600 lines, perhaps two ideas"; bad = 1 }
        /^[A-Za-z_].*\{$/ && !/^(struct|union|enum|typedef|static const|extern)[^(]*\{$/ { start = FNR }
        /^\}$/ { if (start && FNR - start > 71) { print FILENAME ":" start ": function of " FNR - start - 1 " lines, 70 at most"; bad = 1 } start = 0 }
        END { exit bad }' || bad=1
    said=$(c_files | xargs grep -nE '\b(TODO|FIXME|XXX|HACK)\b' || true)
    if [ -n "$said" ]; then
        echo "$said"
        bad=1
    fi
    return "$bad"
}

lint_format() {
    { c_files; files '*.hpp' '*.cpp'; } | xargs clang-format --dry-run -Werror
}

lint_shell() {
    scripts | xargs shellcheck -x
}

lint_python() {
    local bad=0
    # What was made from the headers has names that are known there alone.
    files '*.py' | xargs pyflakes3 | grep -vE "^python/rdmad/__init__.py:[0-9:]+ '\._made\.\*?|from \._made import \*" && bad=1
    [ ! -e "$1/python/rdmad/_made.py" ] ||
        (cd "$1/python" && mypy --ignore-missing-imports --cache-dir "$1/python/mypy" rdmad) || bad=1
    return "$bad"
}

lint_tidy() {
    local build=$1 output
    # Every warning is an error (.clang-tidy), so the exit code tells; the rest is noise.
    if ! output=$(tests/tidy.py "$PWD" "$build" common libclient daemon rdmactl bench examples tests 2>&1); then
        grep -E -A3 '(warning|error):' <<<"$output" || printf '%s\n' "$output"
        return 1
    fi
    tail -n 1 <<<"$output"
}

case ${1:-} in
sources) lint_sources ;;
format) lint_format ;;
shell) lint_shell ;;
python) lint_python "${2:?BUILD}" ;;
tidy) lint_tidy "${2:?BUILD}" ;;
*)
    sed -n '4,10s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
