#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Somebody between two daemons with identities who has TLS, or a part of its handshake, not spoken: cuts the hello,
# answers or asks in clear, says that only an older version is there, takes out what asks for certificates or shows
# them. And strangers who leave such out themselves. None of them makes a peer, each is told of once by each daemon that
# refuses it, with the reason, and both daemons go on.
set -euo pipefail

# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"
# shellcheck source=tests/support/certificates.sh
. "$(dirname "$0")/../support/certificates.sh"
if [ "${RDMAD_TEST_FABRIC:-tcp}" != tcp ]; then
    echo "skipped: what is between the daemons' control connections is the same over $RDMAD_TEST_FABRIC"
    exit 77
fi
strip=$(dirname "$0")/../support/strip.py

start() { # NAME
    make_identity "$work/$1.id" "$work/ca" "node-$1"
    start_as "$1" "$work/$1.id" '{"lease": {"attach_timeout_ms": 1500}}'
}

peers() { # NAME: that are up there
    ctl "$1" -j peer show | tr '}' '\n' | grep -c '"state": *"up"' || true
}

# What NAME's audit has refused since it was asked last.
declare -A seen=([a]=0 [b]=0)
audited() { # NAME
    grep 'audit=refused' "$work/$1.log" | tail -n "+$((${seen[$1]} + 1))" || true
}
tells() { [ -n "$(audited "$1")" ]; }
# expect_told NAME CAUSE WORDS: once, for that cause and in those words.
expect_told() {
    eventually tells "$1"
    [ "$(audited "$1" | wc -l)" = 1 ] || fail "$1 has told more than once: $(audited "$1")"
    audited "$1" | grep -E "cause=($2) " | grep -qE -- "$3" || fail "$1 has not told of $2, $3: $(audited "$1")"
    seen[$1]=$((${seen[$1]} + 1))
}

was_done() { [ "$(grep -c "done" "$work/$1")" = 1 ]; } # DEED: once

# stripped DEED WORDS CAUSE WORDS [CAUSE]: b is told WORDS, a's audit has CAUSE and WORDS, and b's CAUSE with its own.
# What one end says as it closes may be lost on its way to the other, which then knows of the end alone.
stripped() {
    local proxy at
    "$strip" "$1" "$port" >"$work/$1" 2>"$work/$1.log" &
    proxy=$!
    pids+=("$proxy")
    at=$(first_line "$work/$1" "$proxy")
    if timeout 100 "$rdmactl" -d "$work/b" peer add "127.0.0.1:$at" >"$work/said" 2>&1; then
        fail "b was let in through $1: $(ctl b peer show)"
    fi
    grep -qE -- "$2" "$work/said" || fail "through $1 b was told: $(<"$work/said"), not: $2"
    eventually was_done "$1"
    expect_told a "$3" "$4"
    [ $# -lt 5 ] || expect_told b "$5" "$2"
    [ "$(peers a)$(peers b)" = 00 ] || fail "there is a peer after $1"
    kill "$proxy"
}

knocks() { # HOW WORDS
    timeout 100 "$strip" knock "$1" "$port" >/dev/null || fail "$1 does not end"
    expect_told a tls.handshake "$2"
    [ "$(peers a)" = 0 ] || fail "there is a peer after $1"
}

make_ca "$work/ca" cluster
start a
start b
port=$(ctl a -j status | sed -nE 's/.*"port": *([0-9]+).*/\1/p' | head -1)

echo "* the hello is cut"
stripped cut_hello 'closed the connection' peer 'never said who it is was closed'
echo "* one of the two hears what is in clear"
stripped answer_in_clear 'does not speak TLS' peer 'never said who it is was closed' tls.plain
stripped ask_in_clear 'does not speak TLS' tls.plain 'speaks in clear' tls.plain
echo "* an older version"
stripped answer_alert 'does not take TLS 1.3' peer 'never said who it is was closed' tls.handshake
stripped no_versions 'does not take TLS 1.3' tls.handshake 'does not offer TLS 1.3' tls.handshake
stripped old_version 'does not take TLS 1.3' tls.handshake 'does not offer TLS 1.3' tls.handshake
stripped old_answer 'does not offer TLS 1.3' 'tls.handshake|peer' 'never said who it is was closed|does not take TLS 1.3' tls.handshake
echo "* no protocol, nobody is asked for a certificate, none is shown"
stripped no_protocol 'does not speak this protocol' tls.handshake "asks for none of rdmad's protocols" tls.handshake
stripped no_request 'bad record mac' 'tls.handshake|peer' 'bad record mac|never said who it is was closed' tls.handshake
stripped no_certificate 'bad record mac|closed the connection|reset' tls.handshake 'bad record mac'
echo "* who comes without a part of it"
knocks no_certificate 'shows no certificate'
knocks tls12 'does not offer TLS 1.3'
knocks nothing_asked "asks for none of rdmad's protocols"

head -c 400000 /dev/urandom >"$work/shared"
ctl a share "$work/shared" --ttl 600s >"$work/uri" 2>/dev/null &
pids+=($!)
uri=$(first_line "$work/uri" $!)

data_reasons=0
# stripped_data DEED WORDS: no byte is fetched when that is done to all data connections, of which b says WORDS.
stripped_data() {
    local proxy
    "$strip" data "$1" "$port" "${pid_of[a]}" 127.0.0.3 >"$work/data.$1" 2>"$work/data.$1.log" &
    proxy=$!
    pids+=("$proxy")
    [ "$(first_line "$work/data.$1" "$proxy")" = ready ] || fail "nobody stands between"
    if timeout 100 "$rdmactl" -d "$work/b" fetch "${uri/127.0.0.1/127.0.0.3}" -o "$work/fetched" 2>"$work/said"; then
        fail "a fetch was good through $1"
    fi
    [ ! -e "$work/fetched" ] || fail "a fetch that failed left a file"
    grep -q "done" "$work/data.$1" || fail "$1 was not done to a data connection"
    grep -q "does not open: data connection with .*: $2" "$work/said" || fail "through $1 b was told: $(<"$work/said"), not: $2"
    eventually grep -q "does not open: data connection with .*: $2" "$work/b.log"
    [ "$(grep -c 'does not open: data connection' "$work/b.log")" -le $((++data_reasons * 2)) ] ||
        fail "b tells of it at each try: $(grep 'does not open' "$work/b.log")"
    kill "$proxy"
    wait "$proxy" || true # another takes its address
}

echo "* data connections do without TLS no more than control connections"
stripped_data cut_hello 'it refused our token'
stripped_data answer_in_clear 'http request'
stripped_data ask_in_clear 'it refused our token'
stripped_data no_versions '.*protocol version'
stripped_data old_answer 'unsupported protocol'

echo "* left alone they work, and nothing was told again"
for name in a b; do
    kill -0 "${pid_of[$name]}" || fail "daemon $name ended"
    [ -z "$(audited "$name")" ] || fail "$name has told more: $(audited "$name")"
done
ctl b fetch "$uri" -o "$work/fetched" 2>"$work/said" || fail "$(<"$work/said")"
cmp "$work/shared" "$work/fetched" || fail "other bytes"
