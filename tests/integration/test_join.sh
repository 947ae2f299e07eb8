#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Nodes join a cluster, and share and fetch. A token is good once, guesses are not heard for long, and who was
# revoked is out. On loopback, with real daemons.
set -euo pipefail

# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

# init prints the port before the daemon runs.
keep_port

run() { # NAME LISTEN: waits until it answers
    "$rdmad" --runtime-dir "$work/$1" --identity "$work/$1.id" --listen "$2" 2>>"$work/$1.log" &
    pids+=($!)
    await_daemon "$1" $!
}
echo "* init, join, share, fetch"
mkdir "$work/a" "$work/b" "$work/c"
ctl a cluster init --name alpha --identity "$work/a.id" --address "127.0.0.1:$port" >"$work/init"
run a "127.0.0.1:$port"
read -r -a join < <(tail -n 1 "$work/init")
ctl b "${join[@]:1}" --name beta --identity "$work/b.id" >"$work/joined" || fail "$(<"$work/joined")"
run b 127.0.0.1:0
head -c 2000000 /dev/urandom >"$work/shared"
ctl a share "$work/shared" --ttl 600s >"$work/uri" 2>/dev/null &
pids+=($!)
uri=$(first_line "$work/uri" $!)
ctl b fetch "$uri" -o "$work/fetched" 2>"$work/said" || fail "$(<"$work/said")"
cmp "$work/shared" "$work/fetched" || fail "other bytes"
ctl b peer show | grep -q 'alpha *tls' || fail "$(ctl b peer show)"
eventually grep -q 'cause=join.granted' "$work/a.log" # the log says who has joined

echo "* others are not told to dial loopback: a daemon that listens there only has the host's name, and who makes the cluster is told"
invites() { # NAME LISTEN
    local at line
    mkdir "$work/$1"
    run "$1" "$2"
    at=$(ctl "$1" -j status | jq .listen.port)
    ctl "$1" cluster init --name "$1" >"$work/init.$1" 2>"$work/said" || fail "$(<"$work/said")"
    line=$(tail -n 1 "$work/init.$1")
    [[ $line == "rdmactl cluster join "*":$at "* && $line != *"join ${2%:*}:"* ]] || fail "joined by: $line"
    [[ $line == *" $(<"$work/$1.id/ca.address") "* ]] || fail "another address is kept: $(<"$work/$1.id/ca.address")"
    grep -q '^rdmactl: this daemon listens on loopback only: set "listen" to HOST:PORT' "$work/said" || fail "not told: $(<"$work/said")"
    [ "$(wc -l <"$work/said")" = 1 ] || fail "told more than that: $(<"$work/said")"
}
invites f 127.0.0.1:0
[ ! -e /proc/net/if_inet6 ] || invites g '[::1]:0'
mkdir "$work/h"
run h 127.0.0.1:0
ctl h -j cluster init --name h >"$work/init.h" 2>"$work/said" || fail "$(<"$work/said")"
jq -e '.address | startswith("127.") | not' "$work/init.h" >/dev/null || fail "$(<"$work/init.h")"
grep -q 'listens on loopback only' "$work/said" || fail "not told: $(<"$work/said")"
mkdir "$work/i"
run i 127.0.0.1:0
ctl i cluster init --name i --address 127.0.0.1:1 >"$work/init.i" 2>"$work/said" || fail "$(<"$work/said")"
[ ! -s "$work/said" ] || fail "who names loopback is told of it: $(<"$work/said")"

echo "* with a daemon that may not write in what is new, who joins is told to restart it, or it would never renew"
joins() { # NAME: whose daemon runs already
    ctl a cluster token --identity "$work/a.id" --address "127.0.0.1:$port" >"$work/token"
    tail -n 1 "$work/token" | ctl "$1" cluster join "127.0.0.1:$port" - --name "$1" >"$work/said" 2>&1 || fail "$(<"$work/said")"
}
mkdir "$work/d" "$work/e" "$work/etc"
run e 127.0.0.1:0
joins e
! grep -q 'may not write' "$work/said" || fail "$(<"$work/said")"
if unshare --mount true 2>/dev/null; then
    # shellcheck disable=SC2016 # expands there
    unshare --mount bash -c 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"' - "$work/etc" \
        "$rdmad" --runtime-dir "$work/d" --identity "$work/etc/identity" --listen 127.0.0.1:0 2>>"$work/d.log" &
    pids+=($!)
    await_daemon d $!
    joins d
    grep -q "rdmad may not write in $work/etc/identity: .*restart it" "$work/said" || fail "not told: $(<"$work/said")"
fi

echo "* a token twice, and guesses"
if ctl c "${join[@]:1}" --name gamma --identity "$work/c.id" >"$work/said" 2>&1; then fail "a token was used twice"; fi
grep -q 'used' "$work/said" || fail "$(<"$work/said")"
told() { grep -c 'audit=refused cause=join.refused ' "$work/a.log" || true; }
tells() { [ "$(told)" != 0 ]; }
eventually tells # once, and why, where the CA is
[ "$(told)" = 1 ] || fail "$(told) lines of one refusal"
grep -q 'the token is not known: it was used, .*audit=refused cause=join.refused' "$work/a.log" ||
    fail "the audit has no reason: $(grep 'cause=join' "$work/a.log")"
token=${join[4]}
guesses=40
[ "${RDMAD_TEST_SCALE:-1}" = 1 ] || guesses=10000
began=$SECONDS
for ((i = 0; i < guesses; i++)); do # the last 44 characters have the fingerprint of the CA
    guess=$(head -c 32 /dev/urandom | base64 | tr '+/' '-_' | cut -c 1-42)${token:42}
    if ctl c cluster join "127.0.0.1:$port" "$guess" --name gamma --identity "$work/c.id" >"$work/said" 2>&1; then
        fail "a guess was good"
    fi
done
[ ! -e "$work/c.id/node.crt" ] || fail "somebody has a certificate"
[ "$(grep -c 'is up, accepted' "$work/a.log")" = 1 ] || fail "a guess made a peer"
# Ten a minute of each cause are told, and how many were not.
minutes=$(((SECONDS - began) / 60 + 1))
[ "$(grep -c 'cause=join' "$work/a.log")" -lt $((30 * minutes)) ] || fail "the log tells each guess"
eventually grep -q 'cause=join.limit' "$work/a.log" # who guesses is not heard for ever
ctl b peer add "127.0.0.1:$port" >/dev/null || fail "the guesses keep peers out"

echo "* revoked: at once where the CA is, and it cannot come back"
gone() { [ "$(ctl a -j peer show | tr '}' '\n' | grep -c '"state": *"up"' || true)" = 0 ]; }
ctl a cluster revoke beta --identity "$work/a.id" >"$work/said" || fail "$(<"$work/said")"
eventually gone
if ctl b peer add "127.0.0.1:$port" >"$work/said" 2>&1; then fail "beta is back"; fi
grep -q 'revoked' "$work/said" || fail "$(<"$work/said")"
