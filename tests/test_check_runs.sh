#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_check_runs.sh: what tests/soak check says of runs that pass, fail, do not build, and whose
# guest died; and that it goes on after each.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/rdmad-runs.XXXXXX")
trap 'rm -rf "$work"' EXIT

cat >"$work/check" <<'END'
#!/usr/bin/env bash
echo run >>"$(dirname "$0")/runs"
case $(wc -l <"$(dirname "$0")/runs") in
1) echo "100% tests passed, 0 tests failed out of 181" ;;
2)
    printf 'The following tests did not run:\n\t176 - test_wakeups (Skipped)\n\n'
    printf 'The following tests FAILED:\n\t168 - test_memory (Failed)\n\t  9 - unit_op_fair (Timeout)\n'
    printf 'The following tests FAILED:\n\t133 - suite_asan (Failed)\n\t168 - test_memory (Failed)\n'
    exit 8
    ;;
3) echo "ninja: build stopped" && exit 1 ;;
4)
    echo "guest death 1: its kernel died inside rdma_rxe during x; booted again, going on with it"
    echo "guest death 1: its kernel died inside rdma_rxe during x; booted again, going on with it"
    ;;
5) printf 'The following tests FAILED:\n\t168 - test_memory (SEGFAULT)\n' && exit 8 ;;
esac
END
chmod 755 "$work/check"

expect() {
    grep -qE -- "$1" "$work/said" || {
        cat "$work/said"
        echo "FAILED: no line is like: $1"
        exit 1
    }
}

code=0
"$here/check_runs.sh" "$work/logs" 5 "$work/check" >"$work/said" || code=$?
expect '^ +1  [0-9:]{8} +0:0[0-9]  -$'
expect '^ +2 .*  test_memory \(Failed\), unit_op_fair \(Timeout\), suite_asan \(Failed\)$'
expect '^ +3 .*  exit status 1 before any test, see .*/003.log$'
expect '^ +4 .*  -; guest booted again: 1$'
expect '^ +5 .*  test_memory \(SEGFAULT\)$'
expect '^5 runs, 2 passed; '
expect '^  test_memory failed in 2 of them$'
expect '^  suite_asan failed in 1 of them$'
if [ "$code" != 1 ] || [ "$(wc -l <"$work/runs")" != 5 ]; then
    echo "FAILED: exit status $code after $(wc -l <"$work/runs") runs"
    exit 1
fi
rm "$work/runs"
"$here/check_runs.sh" "$work/logs" 1 "$work/check" >"$work/said"
expect '^1 runs, 1 passed; '
! "$here/check_runs.sh" "$work/logs" none "$work/check" 2>"$work/said" || exit 1
expect '"none" runs: a number from 1 is needed'
echo "runs are counted and told"
