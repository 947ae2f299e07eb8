#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_quickstart.sh: ./quickstart FILE fetches what it shared; interrupted at any moment it leaves
# no process, socket or file; leftovers of a run that was killed do not disturb the next; two may
# run at once.
set -euo pipefail

: "${RDMAD_BUILD:?run the test by ctest}" "${RDMAD_SOURCE:?}"
if [ "$RDMAD_BUILD" != "$RDMAD_SOURCE/build" ]; then
    echo "skipped: quickstart builds into build/, and this build is elsewhere"
    exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/rdmad-qs.XXXXXX")
chmod 755 "$work"
mkdir -m 1777 "$work/tmp"
export TMPDIR=$work/tmp
fail() {
    echo "FAILED: $*"
    [ ! -f "$work/out" ] || tail -n 40 "$work/out"
    exit 1
}
# Every process of a run names its directory in its arguments.
processes() { pgrep -f "$TMPDIR/rdmad-quickstart" || true; }
cleanup() {
    local pid
    for pid in $(processes); do kill -KILL "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap cleanup EXIT

leaves_nothing() {
    local tries
    for ((tries = 0; tries < 200 * ${RDMAD_TEST_PATIENCE:-1}; tries++)); do
        [ -n "$(processes)$(ls -A "$TMPDIR")" ] || return 0
        sleep 0.1
    done
    # shellcheck disable=SC2046 # one argument a process
    fail "$1 left: $(ls -A "$TMPDIR") $(ps -o pid=,args= -p $(processes) 2>/dev/null)"
}

head -c 3000001 /dev/urandom >"$work/file"
chmod 644 "$work/file"
sum=$(sha256sum <"$work/file" | cut -d' ' -f1)

good() {
    "$RDMAD_SOURCE/quickstart" "$work/file" >"$work/out" 2>&1 || fail "exit code $?"
    [ "$(grep -c "$sum" "$work/out")" = 2 ] || fail "both SHA-256 are not there"
    grep -Eq "^fabric +${RDMAD_TEST_FABRIC:-(tcp|verbs)}\$" "$work/out" || fail "the fabric is not shown"
    grep -Eq '^checksum +[0-9a-f]{32}, compared' "$work/out" || fail "the checksum is not shown"
    grep -Eq '^bytes +3000001$' "$work/out" || fail "the bytes are not shown"
}
good
leaves_nothing "a good run"
# While a transfer runs its tables are shown: of one that is long enough to be seen by.
# On a busy machine it may be over before anybody looks.
truncate -s 300M "$work/large"
chmod 644 "$work/large"
for ((tries = 0; ; tries++)); do
    "$RDMAD_SOURCE/quickstart" "$work/large" >"$work/out" 2>&1 || fail "exit code $?"
    sed -n '/^== while it runs/,/^== daemon b/p' "$work/out" >"$work/tables"
    ! grep -q 'rdmactl lease show' "$work/tables" || break
    [ "$tries" -lt 4 ] || fail "no tables while it runs"
done
rm "$work/large"
# How it ends otherwise does not depend on the fabric; tests/soak verbs has that, too.
if [ "${RDMAD_TEST_FABRIC:-}" = verbs ] && [ "${RDMAD_TEST_SCALE:-1}" = 1 ]; then
    echo "quickstart keeps its word over verbs"
    exit
fi

# It has set up how it ends before its first word.
await_first_word() {
    local tries
    for ((tries = 0; tries < 600 * ${RDMAD_TEST_PATIENCE:-1}; tries++)); do
        [ ! -s "$work/out" ] || return 0
        sleep 0.1
    done
    fail "says nothing in a minute"
}

# Interrupted at moments spread over a run; over verbs, where each run takes seconds, at one.
moments=(0.1 0.3 0.6 0.9 1.2)
[ "${RDMAD_TEST_FABRIC:-}" != verbs ] || moments=(0.6)
for signal in INT TERM; do
    for after in "${moments[@]}"; do
        # A shell without job control starts background commands deaf to INT: setsid's child is
        # started by env, which restores it.
        rm -f "$work/out"
        env --default-signal=INT "$RDMAD_SOURCE/quickstart" >"$work/out" 2>&1 &
        pid=$!
        await_first_word
        sleep "$after"
        if kill "-$signal" "$pid" 2>/dev/null; then
            wait "$pid" && fail "interrupted, and exit code 0"
        fi # or it was over before
        leaves_nothing "SIG$signal after $after s"
    done
done

# Killed without a chance: what is left over disturbs nobody.
"$RDMAD_SOURCE/quickstart" >"$work/out" 2>&1 &
pid=$!
sleep 1.5
kill -KILL "$pid" 2>/dev/null || true
wait "$pid" 2>/dev/null || true
good
"$RDMAD_SOURCE/quickstart" "$work/file" >"$work/out2" 2>&1 &
pid=$!
good
wait "$pid" || fail "the second of two at once"

"$RDMAD_SOURCE/quickstart" "$work/missing" >"$work/out" 2>&1 && fail "a missing file is fine?"
grep -q "$work/missing" "$work/out" || fail "does not name the missing file"
! grep -q building "$work/out" || fail "builds first, and only then looks whether the file is there"
echo "quickstart keeps its word"
