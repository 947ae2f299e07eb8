#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_examples.sh: the examples do what their first comments say, between two daemons and on one, and
# the README's table of them is true. In the guest (RDMAD_TEST_FABRIC=verbs) also the programs that use
# verbs without us.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/daemons.sh"

examples=$RDMAD_BUILD/examples
on() { RDMAD_RUNTIME_DIR=$work/$1 "${@:2}"; }
# In the background; $! is the program itself, and it is stopped with the test.
start_on() {
    rm -f "$2" # or the first line of the one before would be found
    env RDMAD_RUNTIME_DIR="$work/$1" "${@:3}" >"$2" &
    pids+=($!)
}

start_daemon a
start_daemon b
head -c 5000001 /dev/urandom >"$work/file" # not a multiple of any piece

lessees=(a b)
[ "${RDMAD_TEST_FABRIC:-}" != verbs ] || lessees=(b) # one daemon by itself is tested over tcp
for lessee in "${lessees[@]}"; do
    start_on a "$work/mailbox.$lessee" "$examples/mailbox"
    mailbox=$!
    on "$lessee" "$examples/hello" "$(first_line "$work/mailbox.$lessee" "$mailbox")"
    wait "$mailbox" || fail "mailbox"
    [ "$(tail -n 1 "$work/mailbox.$lessee")" = hello ] || fail "the mailbox holds: $(<"$work/mailbox.$lessee")"

    start_on a "$work/shared.$lessee" "$examples/share" "$work/file"
    share=$!
    uri=$(first_line "$work/shared.$lessee" "$share")
    on "$lessee" "$examples/fetch" "$uri" "$work/fetched"
    cmp "$work/file" "$work/fetched" || fail "what was fetched differs"
    on "$lessee" "$examples/async_epoll" "$uri" >"$work/sum" || fail "async_epoll"
    grep -q 5000001 "$work/sum" || fail "async_epoll read: $(<"$work/sum")"
    kill -TERM "$share" 2>/dev/null || true
    wait "$share" || true
done

# Requests and responses: from a server of threads, and from one with a single thread and a loop.
for server in rpc echo_epoll; do
    serve=("$examples/$server" service)
    answer="a word"
    if [ "$server" = rpc ]; then
        serve=("$examples/rpc" serve service)
        answer="A WORD"
    fi
    start_on a "$work/$server" "${serve[@]}"
    pid=$!
    uri=$(first_line "$work/$server" "$pid")
    for client in a b a b; do
        [ "$(on "$client" "$examples/rpc" call "$uri" "a word")" = "$answer" ] || fail "$server"
    done
    long=$(head -c 50000 /dev/zero | tr '\0' X)
    [ "$(on b "$examples/rpc" call "$uri" "$long")" = "$long" ] || fail "$server with 50000 bytes"
    kill -TERM "$pid"
    wait "$pid" || true
done

# here URI CLIENT'S DAEMON: of what is on daemon a, the URI from there.
here() {
    [ "$2" = a ] && echo "rdmad:///${1##*/}" || echo "$1"
}

# A cache: what was put last is there for readers of both daemons, whole at any moment.
start_on a "$work/kv" "$examples/kv_cache" serve kv
server=$!
uri=$(first_line "$work/kv" "$server")
for client in a b; do
    there=$(here "$uri" "$client")
    on "$client" "$examples/kv_cache" put "$there" "key of $client" one
    on "$client" "$examples/kv_cache" put "$there" "key of $client" "two, by $client"
done
for client in a b; do
    there=$(here "$uri" "$client")
    for key in a b; do
        got=$(on "$client" "$examples/kv_cache" get "$there" "key of $key") || fail "get of what was put"
        [ "$got" = "two, by $key" ] || fail "kv_cache on $client has: $got"
    done
    code=0
    on "$client" "$examples/kv_cache" get "$there" nothing >"$work/said" 2>&1 || code=$?
    [ "$code" = 1 ] || fail "a key that is not there: $code"
    [ ! -s "$work/said" ] || fail "a key that is not there: $(<"$work/said")"
done
value_of() { head -c 175 /dev/zero | tr '\0' "$1"; }
on b "$examples/kv_cache" put "$uri" torn "$(value_of a)"
(
    while [ ! -e "$work/enough" ]; do
        for letter in b c d e f; do
            on b "$examples/kv_cache" put "$uri" torn "$(value_of "$letter")" || touch "$work/put failed"
        done
    done
) &
putter=$!
seen=
for ((i = 0; i < 60 / ${RDMAD_TEST_PATIENCE:-1}; i++)); do
    for client in a b; do
        got=$(on "$client" "$examples/kv_cache" get "$(here "$uri" "$client")" torn) || fail "get while puts come"
        [ "$got" = "$(value_of "${got:0:1}")" ] || fail "a torn value: $got"
        seen+=${got:0:1}
    done
done
touch "$work/enough"
wait "$putter"
[ ! -e "$work/put failed" ] || fail "put while gets come"
[ -n "$(tr -d "${seen:0:1}" <<<"$seen")" ] || fail "no put came between the gets"
kill -TERM "$server"
wait "$server" || true

# A queue: workers on both daemons do every task once. (One that comes when all is done says so.)
tasks=$((4096 / ${RDMAD_TEST_PATIENCE:-1}))
for ((try = 0; ; try++)); do
    start_on a "$work/queue" "$examples/work_queue" serve "queue$try" "$tasks"
    queue=$!
    uri=$(first_line "$work/queue" "$queue")
    workers=()
    for worker in a1 b1 a2 b2; do
        start_on "${worker%?}" "$work/worker.$worker" "$examples/work_queue" work "$uri" 2>"$work/worker.$worker.said"
        workers+=($!)
    done
    for worker in "${workers[@]}"; do
        wait "$worker" || true
    done
    wait "$queue" || fail "work_queue"
    sum=$(tail -n 1 "$work/queue")
    [ "$sum" = $((tasks * (tasks - 1) * (2 * tasks - 1) / 6)) ] || fail "the sum of squares is not $sum"
    done_by() { cat "${@/#/$work/worker.}" | awk '{ n += $1 } END { print n + 0 }'; }
    [ "$(done_by a1 b1 a2 b2)" = "$tasks" ] || fail "$(done_by a1 b1 a2 b2) tasks were done, not $tasks"
    [ "$(done_by a1 a2)" != 0 ] && [ "$(done_by b1 b2)" != 0 ] && break
    [ "$try" -lt 5 ] || fail "one daemon's workers do all: $(tail "$work"/worker.*.said)"
done

# A board: ends when all have read it, or when the time is over.
start_on a "$work/board" "$examples/board" notice 3 60 "to all of you"
board=$!
uri=$(first_line "$work/board" "$board")
for reader in a b b; do
    on "$reader" "$examples/fetch" "$uri" "$work/read"
    [ "$(<"$work/read")" = "to all of you" ] || fail "the board says: $(<"$work/read")"
done
wait "$board" || fail "the board did not end with its readers: $(<"$work/board")"
grep -q '^3 readers came: ' "$work/board" || fail "the board counted: $(<"$work/board")"
! on b "$examples/fetch" "$uri" "$work/late" 2>"$work/said" || fail "a late reader reads"
for seconds in 1 5 25; do # on a busy machine a reader comes too late for a second
    start_on a "$work/board" "$examples/board" notice 2 "$seconds" "to whom it may concern"
    board=$!
    uri=$(first_line "$work/board" "$board")
    read=0
    on b "$rdmactl" fetch "$uri" -o "$work/read" 2>/dev/null || read=$?
    [ "$read" != 0 ] || break
    wait "$board" || true
done
[ "$read" = 0 ] || fail "a reader of a board"
code=0
wait "$board" || code=$?
[ "$code" = 1 ] || fail "a board past its time: $code"
grep -q '^1 readers came: ' "$work/board" || fail "a board past its time: $(<"$work/board")"
for reader in a b; do
    ! on "$reader" "$examples/fetch" "$uri" "$work/late" 2>"$work/said" || fail "a late reader reads"
    grep -q . "$work/said" || fail "a late reader is told nothing"
done

# The programs that are compared with verbs: ours on one daemon and between two; on a machine with RDMA
# those without us, too, from one of its devices to the other.
pair() { # NAME WHAT THE FIRST PRINTS AT ITS END, CLIENT'S DAEMON
    start_on a "$work/$1" "$examples/$1_rdmad"
    local first=$!
    on "$3" "$examples/$1_rdmad" "$(first_line "$work/$1" "$first")" >/dev/null || fail "$1_rdmad from $3"
    wait "$first" || fail "$1_rdmad"
    [ "$(tail -n 1 "$work/$1")" = "$2" ] || fail "$1_rdmad says: $(<"$work/$1")"
}
pair_of_verbs() {
    rm -f "$work/$1" # as in start_on
    timeout 60 "$examples/$1_verbs" 10.77.0.1 >"$work/$1" &
    local first=$!
    pids+=("$first")
    first_line "$work/$1" "$first" >/dev/null
    timeout 60 "$examples/$1_verbs" 10.77.0.1 connect >/dev/null || fail "$1_verbs, who connects"
    wait "$first" || fail "$1_verbs, who answers"
    [ "$(tail -n 1 "$work/$1")" = "$2" ] || fail "$1_verbs says: $(<"$work/$1")"
}
for client in a b; do
    pair write hello "$client"
    pair pingpong "1000 rounds" "$client"
    pair handover "4096 bytes of x" "$client"
done
if [ "${RDMAD_TEST_FABRIC:-tcp}" = verbs ]; then
    pair_of_verbs write hello
    pair_of_verbs pingpong "1000 rounds"
    pair_of_verbs handover "4096 bytes of x"
fi

# How long they are is in the README.
source=$(cd "$(dirname "$0")/../.." && pwd)
table=$(sed -nE 's@^.*versus/([a-z]+)_rdmad\.c\)[^|]*\| ([0-9]+) \| \[([0-9]+)\]\(examples/versus/\1_verbs\.c\).*$@\2 \3 \1@p' \
    "$source/README.md")
[ "$table" = "$(sh "$source/examples/versus/lines.sh")" ] ||
    fail "the README's table has $table, lines.sh counts $(sh "$source/examples/versus/lines.sh")"

# What is wrong is said, and the exit code tells.
! on a "$examples/hello" 2>/dev/null || fail "hello without a URI"
! on a "$examples/hello" rdmad:///nothing 2>"$work/said" || fail "hello to nobody"
grep -q . "$work/said" || fail "hello to nobody says nothing"
! on missing "$examples/hello" rdmad:///nothing 2>"$work/said" || fail "hello without a daemon"
grep -q "$work/missing" "$work/said" || fail "does not say where it looked: $(<"$work/said")"
echo "all examples work"
