#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A renewal and a change of CAs under load lose nothing: a client writes and reads through two daemons without
# pause, over one connection, while a node's certificate is renewed by itself and the one before expires, and
# then while both nodes go over to another CA and trust the first no more.
set -euo pipefail

# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"
# shellcheck source=tests/support/certificates.sh
. "$(dirname "$0")/../support/certificates.sh"

keep_port

run() { # NAME LISTEN: waits until it answers
    "$rdmad" --runtime-dir "$work/$1" --identity "$work/$1.id" --listen "$2" 2>>"$work/$1.log" &
    pids+=($!)
    await_daemon "$1" $!
}

# resign NAME CA NODE FROM TO: node.crt in $work/NAME.id by the CA, for the key that is there.
resign() {
    local id=$work/$1.id ca=$2
    openssl req -new -key "$id/node.key" -out "$ca/request" -subj "/CN=$3" 2>/dev/null
    printf 'subjectAltName = DNS:%s\nextendedKeyUsage = serverAuth, clientAuth\n' "$3" >"$ca/extensions"
    openssl ca -batch -notext -config "$ca/config" -in "$ca/request" -extfile "$ca/extensions" \
        -startdate "$4" -enddate "$5" -out "$id/new" 2>"$ca/log" || fail "$(<"$ca/log")"
    cat "$ca/ca.crt" >>"$id/new"
    mv "$id/new" "$id/node.crt"
}

in_seconds() { # as certificates have it
    date -u -d "@$(($(date +%s) + $1))" +%Y%m%d%H%M%SZ
}

has() { # FILE PATTERN
    grep -q -- "$2" "$1"
}

goes_on() {
    kill -0 "$load" 2>/dev/null || fail "the client has ended: $(<"$work/said") $(<"$work/rounds")"
    [ "$(grep -c 'is up, accepted' "$work/a.log")" = 1 ] || fail "the connection was made anew"
}

mkdir "$work/a" "$work/b"
ctl a cluster init --name alpha --identity "$work/a.id" --address "127.0.0.1:$port" >"$work/init"
run a "127.0.0.1:$port"
read -r -a join < <(tail -n 1 "$work/init")
ctl b "${join[@]:1}" --name beta --identity "$work/b.id" >"$work/said" || fail "$(<"$work/said")"

echo "* beta has a certificate for some seconds, and cannot ask for the next one yet"
make_ca "$work/first" first
cp "$work/a.id/ca.crt" "$work/a.id/ca.key" "$work/first/"
mv "$work/b.id/ca.address" "$work/ca.address"
ends=$(($(date +%s) + 20))
resign b "$work/first" beta "$(in_seconds -60)" "$(in_seconds 20)"
openssl x509 -in "$work/b.id/node.crt" >"$work/a.id/issued/beta.crt"
run b 127.0.0.1:0
mkfifo "$work/stop"
"$RDMAD_BUILD/tests/integration/steady_load" "$work/a" "$work/b" <"$work/stop" >"$work/rounds" 2>"$work/said" &
load=$!
pids+=("$load")
exec 9>"$work/stop"
first_line "$work/rounds" "$load" >/dev/null
eventually has "$work/a.log" 'is up, accepted'
goes_on

echo "* it is renewed by itself, and the one before expires"
mv "$work/ca.address" "$work/b.id/ca.address"
ctl b reload >/dev/null
eventually has "$work/b.log" 'beta has its next certificate'
eventually has "$work/a.log" 'peer beta at .* has its next certificate'
while [ "$(date +%s)" -le $((ends + 1)) ]; do sleep 0.2; done
goes_on

echo "* both go over to another CA, and the first is trusted no more"
make_ca "$work/next" next
for name in a b; do
    mkdir "$work/$name.old"
    cp "$work/$name.id/trust/"* "$work/$name.old/"
    cp "$work/next/ca.crt" "$work/$name.id/trust/next.crt"
    ctl "$name" reload >/dev/null
done
resign a "$work/next" alpha "$(in_seconds -60)" "$(in_seconds 86400)"
resign b "$work/next" beta "$(in_seconds -60)" "$(in_seconds 86400)"
ctl a reload >/dev/null
ctl b reload >/dev/null
taken() { [ "$(grep -c 'peer beta at .* has its next certificate' "$work/a.log")" = 2 ]; }
eventually taken
eventually has "$work/b.log" 'peer alpha at .* has its next certificate'
for name in a b; do
    for old in "$work/$name.old/"*; do rm "$work/$name.id/trust/${old##*/}"; done
    ctl "$name" reload >/dev/null
done
sleep 0.5
goes_on

exec 9>&-
wait "$load" || fail "the client: $(<"$work/said")"
grep -q 'rounds' "$work/rounds" || fail "$(<"$work/rounds")"
peers=$(ctl b peer show)
grep -q 'alpha *tls' <<<"$peers" || fail "$peers"
