# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# died.sh: what the output of ctest in a guest, and the end of a dead guest's console behind it, tell.
# To be sourced; tests/vm/test_died.sh shows what it makes of some.

# died_inside_rxe FILE: whether the kernel's fault was at an instruction of rdma_rxe.
died_inside_rxe() {
    grep -q 'Kernel panic - not syncing' "$1" || return 1
    # The last fault's own place: not every frame above it, and not the list of modules.
    grep -E '\] RIP: 0010:' "$1" | tail -n 1 | grep -q '\[rdma_rxe\]'
}

# test_under_way FILE: the one that began last, if it did not end.
test_under_way() {
    awk '/^ *Start +[0-9]+: / { name = $NF } / Test +#[0-9]+: / { name = "" } END { print name }' "$1"
}

# tests_ended FILE: those with a result, one a line.
tests_ended() {
    sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) .*/\1/p' "$1"
}

# tests_failed FILE: those of them that did not pass and were not skipped, each with a space before it.
tests_failed() {
    sed -nE '/ (Passed|\*\*\*Skipped) /d; s/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) .*/ \1/p' "$1" |
        tr -d '\n'
}

# join_names EXPRESSION NAMES: the names, one a line, added to a regular expression.
join_names() {
    printf '%s\n' "$1" "$2" | sed '/^$/d' | paste -s -d '|' -
}
