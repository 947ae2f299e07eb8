#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# manual.sh BUILD SOURCE: every function that the library exports has a page in section 3, which man
# finds by its name, and nothing else has; every error has its entry; the bindings have their pages; and
# mandoc has nothing to warn of in any page. (What the bindings' pages say test_python_manual compares.)
set -euo pipefail

build=$1/docs source=$2 bad=0
fail() {
    echo "FAILED: $*"
    bad=1
}

exported=$(sed -nE 's/^ +(rdmad_\w+);.*/\1/p' "$source/libclient/librdmad.map" | sort)
[ "$(wc -l <<<"$exported")" -ge 90 ] || fail "librdmad.map is read wrongly: $(wc -l <<<"$exported") functions"
for function in $exported; do
    page=$build/man3/$function.3
    [ -e "$page" ] || { fail "$function has no page"; continue; }
    if grep -q '^\.so ' "$page"; then page=$build/$(sed -n 's/^\.so //p' "$page"); fi
    sed -n '/^\.SH NAME/{n;p;q}' "$page" | grep -qw "$function" || fail "$page does not name $function"
    for section in SYNOPSIS DESCRIPTION "RETURN VALUE" "THREAD SAFETY" "SEE ALSO"; do
        grep -q "^\.SH $section\$" "$page" || fail "$page has no $section"
    done
    sed -n '/^\.SH SYNOPSIS/,/^\.SH DESCR/p' "$page" | grep -q "$function(" || fail "$page has no prototype of $function"
done
for page in "$build"/man3/rdmad_*.3; do
    [ "${page##*/}" != rdmad_async.hpp.3 ] || continue
    grep -qx "$(basename "$page" .3)" <<<"$exported" || fail "$page is of a function that there is not"
done
while read -r error; do
    grep -q "^.fB$error.fR (" "$build/man7/rdmad-errors.7" || fail "rdmad-errors(7) has no $error"
done < <(sed -nE 's/^ +X\((RDMAD_E_\w+),.*/\1/p' "$source/include/rdmad/abi.h")

if command -v man >/dev/null; then
    for name in rdmad_open rdmad_ring_readv rdmad-python rdmad.aio rdmad.hpp rdmad_async.hpp; do # pages, and links to some
        man -M "$build" -w 3 "$name" >/dev/null || fail "man does not find $name"
    done
fi
if command -v mandoc >/dev/null; then
    pages=()
    for page in "$build"/man?/*.? "$build"/*.?; do
        grep -q '^\.so ' "$page" || pages+=("$page")
    done
    [ "${#pages[@]}" -gt 60 ] || fail "only ${#pages[@]} pages"
    # scdoc writes paragraphs that a heading has begun already; nothing is seen of them.
    mandoc -T lint -W warning "${pages[@]}" 2>&1 | grep -v 'skipping paragraph macro: PP' >"$build/lint" || true
    [ ! -s "$build/lint" ] || fail "mandoc: $(head -n 20 "$build/lint")"
else
    echo "skipped: the pages are not linted: there is no mandoc"
fi
exit "$bad"
