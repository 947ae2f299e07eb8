#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Somebody between two daemons with identities who flips, drops, repeats, holds up and cuts what they say on control and
# data connections: a fetch brings the right bytes or fails with a reason, never other bytes, and both daemons go on.
# RDMAD_TEST_SEED repeats what it decides.
set -euo pipefail

# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"
# shellcheck source=tests/support/certificates.sh
. "$(dirname "$0")/../support/certificates.sh"
if [ "${RDMAD_TEST_FABRIC:-tcp}" != tcp ]; then
    echo "skipped: nobody can stand between over $RDMAD_TEST_FABRIC"
    exit 77
fi
wiretap=$(dirname "$0")/../support/wiretap.py
seed=${RDMAD_TEST_SEED:-$RANDOM}

start() { # NAME
    make_identity "$work/$1.id" "$work/ca" "node-$1"
    start_as "$1" "$work/$1.id" \
        '{"fabric": "tcp", "tcp": {"dead_peer_ms": 1000}, "peer": {"ping_ms": 200, "dead_ms": 1000}}'
}

make_ca "$work/ca" cluster
start a
start b
head -c 400000 /dev/urandom >"$work/shared"
ctl a share "$work/shared" --ttl 600s >"$work/uri" 2>/dev/null &
pids+=($!)
uri=$(first_line "$work/uri" $!)
control=$(ctl a -j status | sed -nE 's/.*"port": *([0-9]+).*/\1/p' | head -1)

echo "* seed $seed"
"$wiretap" meddle "${pid_of[a]}" 127.0.0.3 "$work/done" "$seed" >"$work/meddler" 2>"$work/meddler.log" &
pids+=($!)
meddler=$!
[ "$(first_line "$work/meddler" $meddler)" = ready ] || fail "no meddler"
# missing: what was not done yet, of all five on both kinds of connection.
missing() {
    local at deed
    for at in "$control" data; do
        for deed in flip drop repeat hold_up cut; do
            if [ "$at" = data ]; then
                grep -v "^$control " "$work/done" | grep -q " $deed$" || echo "$deed of data"
            else
                grep -q "^$control $deed$" "$work/done" || echo "$deed of control"
            fi
        done
    done
}
good=0 bad=0
for ((i = 0; i < 40 * ${RDMAD_TEST_SCALE:-1} || (i < 400 && $(missing | wc -l) > 0); i++)); do
    rm -f "$work/fetched"
    if timeout 60 "$rdmactl" -d "$work/b" fetch "${uri/127.0.0.1/127.0.0.3}" -o "$work/fetched" 2>"$work/said"; then
        cmp "$work/shared" "$work/fetched" || fail "other bytes, with seed $seed"
        good=$((good + 1))
    else
        [ -s "$work/said" ] || fail "a fetch failed without a word, with seed $seed"
        [ ! -e "$work/fetched" ] || fail "a fetch that failed left a file, with seed $seed"
        bad=$((bad + 1))
    fi
done
kill -0 "$meddler" || fail "the meddler ended"
echo "* $good fetches were good, $bad were told why not; $(sort "$work/done" | uniq -c | tr -s ' \n' ' ')"
[ -z "$(missing)" ] || fail "never done in $i fetches: $(missing | tr '\n' ' ')"
[ "$good" -gt 0 ] || fail "no fetch was good"

echo "* left alone they work"
for name in a b; do
    kill -0 "${pid_of[$name]}" || fail "daemon $name ended"
done
for ((tries = 0; ; tries++)); do # a second without the processor ends a connection here
    ! ctl b fetch "$uri" -o "$work/fetched" 2>"$work/said" || break
    [ "$tries" -lt 4 ] || fail "$(<"$work/said")"
done
cmp "$work/shared" "$work/fetched" || fail "other bytes"
