#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Two machines, each with an address of its own and a wire between them: from nothing to bytes in the five commands of
# the README, and what somebody on the wire hears of it. Two network namespaces stand for the machines.
set -euo pipefail

if ! unshare -n true 2>/dev/null; then
    echo "skipped: no network namespace can be made here"
    exit 77
fi
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"
wiretap=$(dirname "$0")/../support/wiretap.py
daemons=()
declare -A machine address=([one]=192.0.2.1 [two]=192.0.2.2)

on() { # MACHINE COMMAND...; behind it & needs exec, so that $! is the command's
    local name=$1
    shift
    ${exec:-} nsenter -t "${machine[$name]}" -n "$@"
}

make_machines() {
    local name
    for name in one two; do
        unshare -n sleep infinity &
        machine[$name]=$!
        pids+=($!)
        until [ "$(readlink "/proc/$!/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
    done
    on one ip link add wire type veth peer name wire netns "${machine[two]}"
    for name in one two; do
        on "$name" ip address add "${address[$name]}/24" dev wire
        on "$name" ip link set wire up
        on "$name" ip link set lo up
    done
}

# The five commands are the README's.
mapfile -t commands < <(sed -n 's/^    \(one\|two\)[#$] \([^#]*[^# ]\) *\(#.*\)\?$/\1 \2/p' "$RDMAD_SOURCE/README.md")
[ ${#commands[@]} = 5 ] || fail "the README has ${#commands[@]} commands for two machines, not 5: ${commands[*]}"

# take N PROGRAM: the README's command N, which has to be that program's: sets $host to its machine, $words to its
# arguments, with the values of the test for what is in capitals.
take() {
    local i
    read -r -a words <<<"${commands[$1 - 1]}"
    host=${words[0]}
    [ "${words[1]}" = "$2" ] || fail "command $1 of the README is not of $2: ${commands[$1 - 1]}"
    words=("${words[@]:2}")
    for i in "${!words[@]}"; do
        case ${words[i]} in
        ONE:7471) words[i]=${address[one]}:7471 ;;
        TOKEN) words[i]=$token ;;
        URI) words[i]=$uri ;;
        FILE) words[i]=$file ;;
        *[[:upper:]]*) fail "command $1 of the README has ${words[i]}, which is nothing" ;;
        esac
    done
}

# They run as on the machine, but say where the files of the test are.
run() { # MACHINE COMMAND...
    local name=$1
    shift
    RDMAD_RUNTIME_DIR=$work/$dir-$name on "$name" "$@"
}

daemon() { # MACHINE [ARGUMENT...]: returns when it answers
    local name=$1 at=$work/$dir-$1 tries
    shift
    mkdir -p "$at"
    exec='exec' on "$name" "$rdmad" --config "$work/$dir.json" --runtime-dir "$at" --identity "$at.id" "$@" 2>>"$at.log" &
    pids+=($!)
    daemons+=($!)
    for ((tries = 0; tries < 400 * ${RDMAD_TEST_PATIENCE:-1}; tries++)); do
        ! run "$name" "$rdmactl" -j status >/dev/null 2>&1 || return 0
        kill -0 $! 2>/dev/null || fail "the daemon of $name ended while starting"
        sleep 0.05
    done
    fail "the daemon of $name does not answer"
}

# from_nothing_to_bytes ENCRYPT: what was on the wire is in $work/$dir.heard.
from_nothing_to_bytes() {
    local one two file uri
    dir=encrypt-$1
    one=$work/$dir-one two=$work/$dir-two
    echo "{\"fabric\": \"tcp\", \"tcp\": {\"encrypt\": \"$1\"}}" >"$work/$dir.json"
    exec='exec' on two "$wiretap" sniff wire "$work/$dir.heard" >"$work/$dir.tap" 2>"$work/$dir.tap.log" &
    pids+=($!)
    [ "$(first_line "$work/$dir.tap" $!)" = ready ] || fail "no tap"
    daemon two # as a package leaves it: on loopback, and nobody

    take 1 rdmactl
    run "$host" "$rdmactl" "${words[@]}" --identity "$one.id" --name one >"$work/init"
    take 2 rdmad
    daemon "$host" "${words[@]}"
    token=$(tail -n 1 "$work/init")
    token=${token##* }
    take 3 rdmactl # it is the last line of the first
    [ "rdmactl ${words[*]}" = "$(tail -n 1 "$work/init")" ] || fail "not what init says: $(tail -n 1 "$work/init")"
    run "$host" "$rdmactl" "${words[@]}" --identity "$two.id" --name second-machine >"$work/said" || fail "$(<"$work/said")"
    file=$work/shared
    take 4 rdmactl
    exec='exec' run "$host" "$rdmactl" "${words[@]}" >"$one.uri" 2>/dev/null &
    pids+=($!)
    uri=$(first_line "$one.uri" $!)
    file=$work/fetched
    take 5 rdmactl
    run "$host" "$rdmactl" "${words[@]}" 2>"$work/said" || fail "$(<"$work/said")"

    cmp "$work/shared" "$work/fetched" || fail "other bytes"
    run two "$rdmactl" peer show | grep -q 'one .*tls' || fail "$(run two "$rdmactl" peer show)"
    key=${uri#*key=}
}

heard() { # TEXT: whether it was on the wire
    grep -q -a -F -e "$1" "$work/$dir.heard"
}

make_machines
head -c 3000000 /dev/urandom >"$work/shared"

echo "* from nothing to bytes in five commands, and nobody on the wire hears any of them"
from_nothing_to_bytes auto
# all_heard: the tap has written as much as the payload has; sets $code to what it says of it.
all_heard() {
    code=0
    "$wiretap" heard "$work/$dir.heard" "$work/shared" 2>"$work/said" || code=$?
    [ "$code" != 1 ]
}
eventually all_heard
[ "$code" = 3 ] || fail "the payload was on the wire, or none was looked for: $code"
! heard "$token" || fail "the token was on the wire"
! heard "$key" || fail "the lease's secret was on the wire"
! heard second-machine || fail "a node's name was on the wire"

echo "* with tcp.encrypt off the same wire tells the bytes, but no secret"
kill "${daemons[@]}"
wait "${daemons[@]}" || true
from_nothing_to_bytes off
eventually all_heard
[ "$code" = 0 ] || fail "nothing was heard: the first half of this test shows nothing"
! heard "$token" || fail "the token was on the wire"
! heard "$key" || fail "the lease's secret was on the wire"
