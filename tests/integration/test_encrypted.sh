#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The data between daemons is encrypted as soon as both have an identity, and otherwise as tcp.encrypt says: link
# show and status tell, and somebody on the way hears nothing.
set -euo pipefail

# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"
# shellcheck source=tests/support/certificates.sh
. "$(dirname "$0")/../support/certificates.sh"
if [ "${RDMAD_TEST_FABRIC:-tcp}" != tcp ]; then
    echo "skipped: nothing is encrypted over $RDMAD_TEST_FABRIC"
    exit 77
fi
tap=$(dirname "$0")/../support/wiretap.py

# start NAME IDENTITY ENCRYPT
start() {
    start_as "$1" "$work/$2" "{\"fabric\": \"tcp\", \"tcp\": {\"encrypt\": \"$3\"}}"
}

n=0 # of the tries
# try WHAT IDENTITIES OWNER LESSEE ENCRYPTION HEARD: both daemons with identities ("with" or "without") and these
# settings; what link show says, and whether a tap hears the payload.
try() {
    local a b uri code=0
    n=$((n + 1)) a=a$n b=b$n
    echo "* $1"
    start "$a" "$2-a.id" "$3"
    start "$b" "$2-b.id" "$4"
    "$tap" tap "${pid_of[$a]}" 127.0.0.3 "$work/$a.heard" >"$work/$a.tap" 2>"$work/$a.tap.log" &
    pids+=($!)
    [ "$(first_line "$work/$a.tap" $!)" = ready ] || fail "no tap"
    ctl "$a" share "$work/shared" --ttl 600s >"$work/$a.uri" 2>/dev/null &
    pids+=($!)
    uri=$(first_line "$work/$a.uri" $!)
    ctl "$b" fetch "${uri/127.0.0.1/127.0.0.3}" -o "$work/fetched" 2>"$work/said" || fail "$(<"$work/said")"
    cmp "$work/shared" "$work/fetched" || fail "other bytes"
    # The link stays while a session holds a lease.
    ctl "$a" bench serve --ttl 600s >"$work/$a.bench" 2>/dev/null &
    pids+=($!)
    uri=$(first_line "$work/$a.bench" $!)
    "$rdmactl" -d "$work/$b" bench read -s 4096 -D 600s "${uri/127.0.0.1/127.0.0.3}" >"$work/$b.bench.log" 2>&1 &
    pids+=($!)
    for ((tries = 0; tries < 400 * ${RDMAD_TEST_PATIENCE:-1}; tries++)); do
        ctl "$b" -j link show >"$work/links"
        ! grep -q '"state": *"up"' "$work/links" || break
        sleep 0.05
    done
    grep -qE "\"encryption\": *\"($5)\"" "$work/links" || fail "not $5: $(<"$work/links")"
    kill "${pids[-1]}"
    "$tap" heard "$work/$a.heard" "$work/shared" || code=$?
    [ "$code" = "$6" ] || fail "heard: $code, not $6"
}

make_ca "$work/ca" cluster
for name in a b; do
    make_identity "$work/with-$name.id" "$work/ca" "node-$name"
done
head -c 3000000 /dev/urandom >"$work/shared"
some='openssl|ipsec-mb' # by which library says the CPU

try "no identity: in clear, and everything is heard" without auto auto none 0
try "identities: encrypted by default" with auto auto "$some" 3
try "off at the owner only: encrypted, and its log says so" with off auto "$some" 3
eventually grep -q 'a peer wants data connections encrypted.*is "off" here' "$work"/a*.log
try "off at the lessee only: encrypted" with auto off "$some" 3
try "off at both: in clear" with off off none 0
try "always, without identities: encrypted" without always auto "$some" 3
