#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_died.sh: a guest is booted again when its kernel died inside rdma_rxe, and for nothing else.
set -euo pipefail

cd "$(dirname "$0")"
# shellcheck source=tests/vm/died.sh
. ./died.sh
work=$(mktemp -d "${TMPDIR:-/tmp}/rdmad-died.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

suite() { # the beginning of every one: two ended, one under way
    cat <<'SAID'
      Start 12: verbs_test_lease
1/9 Test #12: verbs_test_lease .................   Passed   10.20 sec
      Start 13: verbs_test_links
2/9 Test #13: verbs_test_links .................***Failed    3.00 sec
      Start 14: test_verbs_faults
SAID
}

panic() { # WHERE
    cat <<SAID
run: the guest died (QEMU's exit status 0); the end of its console:
[   53.18]  ? rxe_responder+0x11/0x20 [rdma_rxe]
[   53.18] RIP: 0033:0x7fc3c35e5017
[   53.19] Modules linked in: veth rdma_ucm rdma_rxe ib_uverbs
[   53.19] RIP: 0010:$1
[   53.19] Kernel panic - not syncing: Fatal exception in interrupt
SAID
}

{ suite; panic '__rxe_put+0xb/0x50 [rdma_rxe]'; } >"$work/rxe"
{ suite; panic 'tcp_close+0xb/0x50'; } >"$work/other"
{ suite; echo 'run: the guest itself was still running after 1620 s'; } >"$work/late"

died_inside_rxe "$work/rxe" || fail "a fault inside rdma_rxe is not seen"
! died_inside_rxe "$work/other" || fail "a fault elsewhere is taken for rdma_rxe's"
! died_inside_rxe "$work/late" || fail "a time-out is taken for a death inside rdma_rxe"
[ "$(test_under_way "$work/rxe")" = test_verbs_faults ] || fail "not the test that was under way"
[ "$(tests_failed "$work/rxe")" = " verbs_test_links" ] || fail "a failure before the death is lost"
[ "$(join_names "" "$(tests_ended "$work/rxe")")" = 'verbs_test_lease|verbs_test_links' ] ||
    fail "tests that ended would run again"
[ "$(join_names a b)" = 'a|b' ] || fail "earlier boots' tests would run again"
echo "a death inside rdma_rxe is told from all others"
