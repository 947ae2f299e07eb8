#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_examples.sh: the examples do what their first comments say, between two daemons and on one.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/daemons.sh"

examples=$RDMAD_BUILD/examples
on() { RDMAD_RUNTIME_DIR=$work/$1 "${@:2}"; }
# In the background; $! is the program itself, and it is stopped with the test.
start_on() {
    env RDMAD_RUNTIME_DIR="$work/$1" "${@:3}" >"$2" &
    pids+=($!)
}

start_daemon a
start_daemon b
head -c 5000001 /dev/urandom >"$work/file" # not a multiple of any piece

for lessee in a b; do
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
    kill -TERM "$pid" && wait "$pid" || true
done

# What is wrong is said, and the exit code tells.
! on a "$examples/hello" 2>/dev/null || fail "hello without a URI"
! on a "$examples/hello" rdmad:///nothing 2>"$work/said" || fail "hello to nobody"
grep -q . "$work/said" || fail "hello to nobody says nothing"
! on missing "$examples/hello" rdmad:///nothing 2>"$work/said" || fail "hello without a daemon"
grep -q "$work/missing" "$work/said" || fail "does not say where it looked: $(<"$work/said")"
echo "all examples work"
