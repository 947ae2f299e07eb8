#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# An address that is not there yet does not keep a daemon from starting: it says so, in the log and in
# its status, and peers reach it as soon as an interface has the address. In a network of its own.
set -euo pipefail

if [ "${RDMAD_TEST_OWN_NETWORK:-}" = "" ]; then
    if ! unshare -n true 2>/dev/null; then
        echo "skipped: no network namespace can be made here"
        exit 77
    fi
    RDMAD_TEST_OWN_NETWORK=1 exec unshare -n "$0" "$@"
fi

# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

ip link set lo up

echo '{"peer": {"insecure": true}}' >"$work/insecure.json"

start_at() { # NAME ADDRESS
    mkdir "$work/$1"
    "$rdmad" --config "$work/insecure.json" --runtime-dir "$work/$1" --listen "$2" 2>"$work/$1.log" &
    pids+=($!)
    for ((tries = 0; tries < 400 * ${RDMAD_TEST_PATIENCE:-1}; tries++)); do
        ! "$rdmactl" -d "$work/$1" -j status >"$work/$1.status" 2>/dev/null || return 0
        kill -0 $! 2>/dev/null || fail "daemon $1 does not start without its address"
        sleep 0.05
    done
    fail "daemon $1 does not answer"
}

echo "$RDMAD_BUILD" >"$work/shared"
reaches() { # NAME HOST:PORT PREFIX
    local uri
    eventually grep -qF "no interface has the address of listen \"$2\" yet" "$work/$1.log"
    grep -q '"reachable": *false' "$work/$1.status" || fail "status -j: $(<"$work/$1.status")"
    "$rdmactl" -d "$work/$1" status | grep -q "an address that no interface has" ||
        fail "status does not say that the address is missing"
    ip addr add "$3" dev lo nodad 2>/dev/null || ip addr add "$3" dev lo
    "$rdmactl" -d "$work/$1" -j status | grep -q '"reachable": *true' || fail "status hides the address"
    rm -f "$work/$1.uri" # or the first line of the one before would be found
    "$rdmactl" -d "$work/$1" share "$work/shared" >"$work/$1.uri" 2>/dev/null &
    pids+=($!)
    uri=$(first_line "$work/$1.uri" $!)
    "$rdmactl" -d "$work/b" fetch "$uri" -o "$work/fetched" 2>"$work/said" || fail "$(<"$work/said")"
    cmp "$work/shared" "$work/fetched" || fail "other bytes"
}

start_at b 127.0.0.1:0
eventually grep -q 'peers reach this daemon' "$work/b.log"
port=$(sed -n 's/.*peers reach this daemon at [^:]*:\([0-9]*\).*/\1/p' "$work/b.log")

echo "* IPv4"
start_at a 192.0.2.7:7471
if "$rdmactl" -d "$work/a" peer add "127.0.0.1:$port" 2>"$work/said"; then
    fail "dialled from an address that is not there"
fi
grep -q 'no interface here has the address of listen' "$work/said" || fail "$(<"$work/said")"
reaches a 192.0.2.7:7471 192.0.2.7/32

if [ -e /proc/net/if_inet6 ]; then
    echo "* IPv6"
    start_at c '[2001:db8::7]:7471'
    reaches c '[2001:db8::7]:7471' 2001:db8::7/128
    eventually grep -qF 'peers reach this daemon at [2001:db8::7]:7471,' "$work/c.log"
fi

echo "* an address that somebody else listens on is still an error, and one that passes"
got=0
mkdir "$work/d"
timeout 20 "$rdmad" --config "$work/insecure.json" --runtime-dir "$work/d" --listen 192.0.2.7:7471 2>"$work/said" || got=$?
[ "$got" = 1 ] || fail "exit $got: $(<"$work/said")"
grep -q 'Address already in use: another program has that port; give rdmad another by --listen HOST:PORT' "$work/said" ||
    fail "$(<"$work/said")"

echo "* a start that fails is no life of the node"
"$rdmad" --runtime-dir "$work/d" --listen 127.0.0.1:0 2>"$work/d.log" &
pids+=($!)
eventually "$rdmactl" -d "$work/d" status >"$work/said"
life=$("$rdmactl" -d "$work/d" -j status | jq .life)
[ "$life" = 1 ] || fail "it is life $life"
kill "$!"
wait "$!" || fail "$(<"$work/d.log")"

echo "* in clear nothing goes beyond loopback unless it is said so"
echo '{}' >"$work/plain.json" # its identity would be beside it
for address in 192.0.2.7:7472 0.0.0.0:7472 '[::]:7472'; do
    [ -e /proc/net/if_inet6 ] || [[ $address != '['* ]] || continue
    got=0
    timeout 20 "$rdmad" --config "$work/plain.json" --runtime-dir "$work/d" --listen "$address" 2>"$work/said" || got=$?
    [ "$got" = 2 ] || fail "exit $got at $address: $(<"$work/said")"
    grep -q 'rdmactl cluster init.*rdmactl cluster join.*"peer.insecure": true' "$work/said" || fail "$(<"$work/said")"
done
mkdir "$work/e"
"$rdmad" --config "$work/plain.json" --runtime-dir "$work/e" --listen 127.0.0.1:0 2>"$work/e.log" &
pids+=($!)
for ((tries = 0; tries < 400 * ${RDMAD_TEST_PATIENCE:-1}; tries++)); do
    ! "$rdmactl" -d "$work/e" status >/dev/null 2>&1 || break
    sleep 0.05
done
if "$rdmactl" -d "$work/e" peer add 192.0.2.7:7471 2>"$work/said"; then
    fail "dialled in clear beyond loopback"
fi
grep -q 'not dialled.*no identity.*rdmactl cluster' "$work/said" || fail "$(<"$work/said")"

echo "* what talks in clear beyond loopback is a warning in the log, in status and in doctor; what does not is none"
eventually grep -q 'warning: peer.insecure: whoever reaches' "$work/a.log"
"$rdmactl" -d "$work/a" status | grep -q 'WARNING: peer.insecure: whoever reaches this daemon can be a peer' ||
    fail "status: $("$rdmactl" -d "$work/a" status)"
"$rdmactl" -d "$work/a" -j status | grep -q '"insecure": *true' || fail "status -j does not say it"
"$rdmactl" -d "$work/a" doctor >"$work/said" || true # other checks may be bad here
grep -q '^warning *listen address .*(peer.insecure): whoever reaches it can be a peer' "$work/said" || fail "doctor: $(<"$work/said")"
! grep -q 'peer.insecure: whoever' "$work/e.log" || fail "a daemon on loopback warns"
lacks WARNING "$rdmactl" -d "$work/e" status || fail "status of one on loopback warns"
"$rdmactl" -d "$work/e" -j status | grep -q '"insecure": *false' || fail "status -j of one on loopback"
"$rdmactl" -d "$work/e" doctor >"$work/said" || true
grep -q '^note *listen address .*only daemons of this machine can connect' "$work/said" ||
    fail "doctor of one on loopback: $(<"$work/said")"
! grep -q 'peer.insecure)' "$work/said" || fail "doctor of one on loopback warns: $(<"$work/said")"
