#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_python_examples.sh: examples/python do what their C twins do, also with those at the other end, and what is written in
# the README's ten lines works. A NumPy array that one process shares is read by programs in C and in Python in turns,
# on one machine and over a link; the ratio of their rates is printed. RDMAD_TEST_SCALE above 1: of 1 GiB.
set -euo pipefail
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"
source=${RDMAD_SOURCE:?run the test by ctest}

if [ ! -e "$RDMAD_BUILD/python/rdmad/_declared.py" ]; then
    echo "skipped: the Python package is not built (RDMAD_PYTHON needs python3-cffi)"
    exit 77
fi
export PYTHONPATH=$RDMAD_BUILD/python LD_LIBRARY_PATH=$RDMAD_BUILD/libclient PYTHONDONTWRITEBYTECODE=1
on() { RDMAD_RUNTIME_DIR=$work/$1 "${@:2}"; }
python() { /usr/bin/python3 -W error "$source/$1" "${@:2}"; }
start_on() {
    rm -f "$2" # or the first line of the one before would be found
    env RDMAD_RUNTIME_DIR="$work/$1" "${@:3}" >"$2" &
    pids+=($!)
}

start_daemon a
start_daemon b
head -c 5000001 /dev/urandom >"$work/file"
for lessee in a b; do
    start_on a "$work/mailbox" /usr/bin/python3 -W error "$source/examples/python/mailbox.py"
    mailbox=$!
    on "$lessee" "$RDMAD_BUILD/examples/hello" "$(first_line "$work/mailbox" "$mailbox")"
    wait "$mailbox" || fail "mailbox"
    [ "$(tail -n 1 "$work/mailbox")" = hello ] || fail "the mailbox holds: $(<"$work/mailbox")"
done

# The README's ten lines, as they stand there, write into a mailbox in C.
sed -n '/^    import sys$/,/^$/s/^    //p' "$source/README.md" >"$work/ten.py"
[ "$(grep -c . "$work/ten.py")" -ge 8 ] || fail "the README has no Python"
start_on a "$work/mailbox" "$RDMAD_BUILD/examples/mailbox"
mailbox=$!
on b /usr/bin/python3 -W error "$work/ten.py" "$(first_line "$work/mailbox" "$mailbox")" >"$work/said" || fail "the README's Python"
wait "$mailbox" || fail "the mailbox in C"
[ "$(tail -n 1 "$work/mailbox")" = hello ] || fail "the mailbox holds: $(<"$work/mailbox")"

start_on a "$work/shared" "$RDMAD_BUILD/examples/share" "$work/file"
uri=$(first_line "$work/shared" $!)
said=$(on b "$RDMAD_BUILD/examples/async_epoll" "$uri")
for depth in 1000 1; do
    got=$(on b python examples/python/async_read.py "$uri" "$depth" 2>"$work/most") || fail "async_read: $(<"$work/most")"
    [ "$got" = "$said" ] || fail "async_read says: $got; in C it is: $said"
    grep -qx "$depth ops were in flight at one time" "$work/most" || fail "async_read: $(<"$work/most")"
done
! on b python examples/python/async_read.py rdmad:///nothing 2>"$work/wrong" || fail "async_read of nothing"
grep -q '^async_read: .*nothing' "$work/wrong" || fail "async_read of nothing says: $(<"$work/wrong")"

count=$((4 << 20)) rounds=30 # 32 MiB
[ "${RDMAD_TEST_SCALE:-1}" -le 1 ] || count=$((128 << 20)) rounds=15
start_on a "$work/array" /usr/bin/python3 -W error "$source/examples/python/array.py" share "$count"
array=$!
until [ -s "$work/array" ]; do
    kill -0 "$array" 2>/dev/null || fail "array share ended"
    sleep 0.05
done
read -r uri sum <"$work/array"
for lessee in a b; do
    [ "$(on "$lessee" python examples/python/array.py read "$uri" 2>"$work/rate")" = "$sum" ] || fail "array: $(<"$work/rate")"
    where=$([ "$lessee" = a ] && echo "on one machine" || echo "over a link")
    echo "$((count >> 17)) MiB $where: $(on "$lessee" python tests/python/rate.py "$uri" "$sum" "$rounds" \
        "$RDMAD_BUILD/tests/integration/array_reader")" || fail "the rates"
done
kill -TERM "$array"
wait "$array" || fail "array share"
