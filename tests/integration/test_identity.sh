#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Daemons with identities, on loopback: who is let in and who is not, in which words, and what a reload does.
set -euo pipefail

# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"
# shellcheck source=tests/support/certificates.sh
. "$(dirname "$0")/../support/certificates.sh"
declare -A port
replay=$(dirname "$0")/../support/replay.py

# No peer goes because it is idle, however long the rest takes.
busy='"peer": {"idle_ms": 3600000}'

# start NAME [SETTINGS]: with the identity $work/NAME.id, if there is one; its port is port[NAME].
start() {
    start_as "$1" "$work/$1.id" "${2:-{$busy\}}"
    port[$1]=$(ctl "$1" -j status | sed -nE 's/.*"port": *([0-9]+).*/\1/p' | head -1)
}

# up NAME: how many peers are up there.
up() {
    ctl "$1" -j peer show | tr '}' '\n' | grep -c '"state": *"up"' || true
}

is_up() { [ "$(up "$1")" != 0 ]; }
is_alone() { [ "$(up "$1")" = 0 ]; }
is_without() { # NAME NODE
    ctl "$1" -j peer show >"$work/rows" || return 1
    [ "$(tr '}' '\n' <"$work/rows" | grep "\"node\": *\"$2\"" | grep -c '"state": *"up"' || true)" = 0 ]
}

has() { # FILE PATTERN
    grep -q -- "$2" "$1"
}

# audits NAME CAUSE: how many refusals for that cause ("tls.CAUSE"), or with such words, its audit has told.
audits() {
    case $2 in
    tls.*) grep -c "audit=refused cause=$2 " "$work/$1.log" || true ;;
    *) grep -c "$2.* audit=refused cause=" "$work/$1.log" || true ;;
    esac
}
# refused NAME PORT WORDS [NAME CAUSE | WORDS]...: NAME dials and is told WORDS; the audit of each other NAME tells of it
# once, as the try was, by that cause or in its own words.
refused() {
    local ups i
    local -a earlier=()
    for ((i = 4; i < $#; i += 2)); do earlier+=("$(audits "${@:i:2}")"); done
    ups=$(up "$1")
    if timeout 100 "$rdmactl" -d "$work/$1" peer add "127.0.0.1:$2" >"$work/said" 2>&1; then
        fail "$1 was let in at $2: $(ctl "$1" peer show)"
    fi
    grep -q -- "$3" "$work/said" || fail "$1 was told: $(<"$work/said"), not: $3"
    tells_more() { [ "$(audits "$1" "$2")" != "$3" ]; }
    for ((i = 4; i < $#; i += 2)); do
        eventually tells_more "${@:i:2}" "${earlier[(i - 4) / 2]}"
        [ "$(audits "${@:i:2}")" = $((earlier[(i - 4) / 2] + 1)) ] ||
            fail "${*:i:1} has told $(audits "${@:i:2}") times of ${*:i+1:1}, and ${earlier[(i - 4) / 2]} before"
    done
    [ "$(up "$1")" = "$ups" ] || fail "$1 has another peer"
}

make_ca "$work/ca" cluster
make_ca "$work/other" others
for name in a b; do
    make_identity "$work/$name.id" "$work/ca" "node-$name"
done

echo "* two identities of one CA: bytes go through, and each knows the other's name"
start a
start b
head -c 3000000 /dev/urandom >"$work/shared"
ctl a share "$work/shared" --ttl 600s >"$work/uri" 2>/dev/null &
pids+=($!)
uri=$(first_line "$work/uri" $!)
ctl b fetch "$uri" -o "$work/fetched" 2>"$work/said" || fail "$(<"$work/said")"
cmp "$work/shared" "$work/fetched" || fail "other bytes"
ctl b peer show | grep -q 'node-a *tls' || fail "$(ctl b peer show)"
ctl a peer show | grep -q 'node-b *tls' || fail "$(ctl a peer show)"
ctl a -j peer show | grep -q '"proven": *true' || fail "$(ctl a -j peer show)"
# Not by ctl: what is killed then is a shell, and they go on.
"$rdmactl" -d "$work/a" bench serve --ttl 600s >"$work/bench" 2>/dev/null &
pids+=($!)
serving=$!
bench=$(first_line "$work/bench" "$serving")
"$rdmactl" -d "$work/b" bench send -s 64 -D 600s "$bench" >"$work/sent" 2>&1 &
pids+=($!)
sending=$!
proven() { ctl "$1" -j channel show | tr '}' '\n' | grep -q '"peer_proven": *true'; }
eventually proven a
eventually proven b
kill "$sending" "$serving"
wait "$sending" "$serving" || true
ctl a status | grep -q '^identity *node-a, until' || fail "$(ctl a status)"
ctl a -j status | grep -q '"fingerprint": *"[0-9a-f]\{64\}"' || fail "$(ctl a -j status)"
ctl a doctor | grep -q 'identity.*node-a, for another' || fail "$(ctl a doctor)"
eventually grep -q 'peers reach this daemon at .*, by TLS, as node-a' "$work/a.log"

echo "* whom a user may reach is a matter of certificates, not of addresses"
make_identity "$work/bound.id" "$work/ca" node-bound
rules() { echo "{$busy, \"policy\": {\"users\": [{\"peers\": [$1]}]}}" >"$work/bound.json"; }
rules '"127.0.0.1", "node-b"'
start bound "$(<"$work/bound.json")"
for _ in first second; do # the second finds the peer up
    if ctl bound fetch "$uri" -o "$work/fetched" 2>"$work/said"; then fail "node-a was reached"; fi
    grep -q 'reach the daemon "node-a": "peers"' "$work/said" || fail "$(<"$work/said")"
done
told_twice() { [ "$(grep -c 'reach the daemon' "$work/bound.log")" = 2 ]; }
eventually told_twice
rules '"node-a"'
ctl bound reload >/dev/null || fail "reload"
ctl bound fetch "$uri" -o "$work/fetched" 2>"$work/said" || fail "$(<"$work/said")"
kill "${pid_of[bound]}"
wait "${pid_of[bound]}" || fail "bound ended badly" # its peer at a has gone before others are counted

echo "* in clear: neither way, and both say why"
start plain
refused plain "${port[a]}" 'talks TLS only.*rdmactl cluster join' a 'tls.plain'
refused b "${port[plain]}" 'does not speak TLS.*rdmactl cluster join'
eventually has "$work/plain.log" 'talks TLS, and .* has no identity: rdmactl cluster join'

echo "* a CA that is not trusted"
make_identity "$work/stranger.id" "$work/other" stranger
cp "$work/ca/ca.crt" "$work/stranger.id/trust/" # it trusts us, we do not trust it
start stranger
refused stranger "${port[a]}" 'does not trust the CA' a 'tls.unknown_ca'
refused a "${port[stranger]}" 'trust' stranger 'does not trust the CA'

echo "* expired, not yet valid, revoked, not for this"
make_identity "$work/late.id" "$work/ca" late DNS:late 20200101000000Z 20200201000000Z
start late
refused late "${port[a]}" '.' a 'tls.expired'
refused a "${port[late]}" '.'
ctl late status | grep -q 'WARNING: the certificate of late has expired' || fail "$(ctl late status)"
make_identity "$work/early.id" "$work/ca" early DNS:early 20990101000000Z 20990201000000Z
start early
refused early "${port[a]}" '.' a 'tls.not_yet_valid'
make_identity "$work/gone.id" "$work/ca" gone
start gone
ctl gone peer add "127.0.0.1:${port[a]}" >/dev/null || fail "gone is not let in"
eventually is_up a
revoke "$work/ca" "$work/gone.id/node.crt" "$work/a.id/revoked.crl"
eventually has "$work/a.log" 'peer gone at .* ends after a reload' # by itself, as the file has come
eventually has "$work/gone.log" 'revoked'
eventually is_alone gone
eventually is_without a gone
refused gone "${port[a]}" '.' a 'tls.revoked'

echo "* another node's name"
make_identity "$work/liar.id" "$work/ca" liar DNS:liar,IP:192.0.2.1
start liar
refused b "${port[liar]}" '127.0.0.1 was dialled and liar has answered' b 'tls.other_name' \
    liar 'said: 127.0.0.1 was dialled and liar has answered' # its addresses are others
make_identity "$work/short.id" "$work/ca" localhost-not
start short
if ctl b peer add "localhost:${port[short]}" >"$work/said" 2>&1; then :; else fail "localhost: $(<"$work/said")"; fi
echo '{"node_name": "somebody-else"}' >"$work/named.json"
if timeout 100 "$rdmad" --config "$work/named.json" --runtime-dir "$work/named" --listen 127.0.0.1:0 \
    --identity "$work/b.id" 2>"$work/said"; then
    fail "a name that is not the certificate's"
fi
grep -q 'node_name is "somebody-else" and the certificate' "$work/said" || fail "$(<"$work/said")"

echo "* a recorded handshake is worth nothing"
"$replay" record "${port[a]}" "$work/recorded" >"$work/proxy" &
pids+=($!)
proxy=$(first_line "$work/proxy" $!)
ctl b peer add "127.0.0.1:$proxy" >/dev/null || fail "no way through the proxy"
eventually test -s "$work/recorded"
size=$(stat -c %s "$work/recorded")
[ "$size" -gt 1000 ] || fail "only $size bytes were recorded"
peers() { ctl a -j peer show | tr '}' '\n' | grep -c '"id"' || true; }
before=$(peers) told=$(wc -l <"$work/a.log") began=$SECONDS
timeout 280 "$replay" play "${port[a]}" "$work/recorded" "${REPLAYS:-1000}" >"$work/played" || fail "the replay does not end"
tail -n 1 "$work/played"
no_more() { [ "$(peers)" -le "$before" ]; }
eventually no_more
# By the address, for another peer may connect anew at any time.
sed -n 's/^from \(.*\)$/at \1 is up/p' "$work/played" >"$work/replays"
[ "$(wc -l <"$work/replays")" = "${REPLAYS:-1000}" ] || fail "the replay does not say from where"
tail -n "+$((told + 1))" "$work/a.log" >"$work/since"
! grep -F -f "$work/replays" "$work/since" || fail "a replayed handshake made a peer"
# Ten a minute are told, and how many more there were.
[ "$(grep -c 'tls.handshake' "$work/since")" -lt $((20 * (1 + (SECONDS - began) / 60))) ] || fail "the log tells each replay"

echo "* a new certificate and a new CA under load lose nothing, and nobody is cut off"
ups=$(grep -c 'is up, accepted' "$work/a.log")
(
    for ((i = 0; ; i++)); do
        ctl b fetch "$uri" -o "$work/again" 2>"$work/again.said" || { echo "$i: $(<"$work/again.said")" >>"$work/lost"; }
        cmp -s "$work/shared" "$work/again" || echo "$i: other bytes" >>"$work/lost"
        echo "$i" >>"$work/fetches"
    done
) &
load=$!
pids+=("$load")
make_ca "$work/next" cluster-2
eventually test -s "$work/fetches"
for ((round = 0; round < 3; round++)); do
    cp "$work/next/ca.crt" "$work/a.id/trust/next.crt"
    cp "$work/next/ca.crt" "$work/b.id/trust/next.crt"
    ctl a reload >/dev/null
    ctl b reload >/dev/null
    make_certificate "$work/a.id" "$work/next" node-a
    make_certificate "$work/b.id" "$work/next" node-b
    ctl a reload >/dev/null
    kill -HUP "${pid_of[b]}"
done
was=$(tail -n 1 "$work/fetches")
more() { [ "$(tail -n 1 "$work/fetches")" -gt $((was + 3)) ]; }
eventually more
kill "$load"
wait "$load" 2>/dev/null || true
[ ! -e "$work/lost" ] || fail "lost: $(<"$work/lost")"
[ "$(grep -c 'is up, accepted' "$work/a.log")" = "$ups" ] || fail "a connection that was good has ended"

echo "* a CA that is trusted no more ends its connections; files that cannot be used change nothing"
# Both are up by certificates of the first CA, and would connect anew by those of the second.
rm "$work/a.id/revoked.crl" "$work/a.id/trust/ca.crt"
ctl a reload >/dev/null || fail "reload without the first CA"
eventually has "$work/b.log" 'node-a at .* is gone: .*after a reload'
let_in() { ctl b peer add "127.0.0.1:${port[a]}" >/dev/null 2>&1; }
let_in || fail "by the second CA: $(ctl b peer add "127.0.0.1:${port[a]}" 2>&1)"
mv "$work/a.id/trust/next.crt" "$work/next.crt"
cp "$work/other/ca.crt" "$work/a.id/trust/other.crt"
ctl a reload >/dev/null || fail "reload without both CAs"
eventually is_alone a
eventually is_without b node-a # or it would be told that it has this peer already
known=$(audits a tls.unknown_ca)
refused b "${port[a]}" 'does not trust the CA'
more_told() { [ "$(audits a tls.unknown_ca)" -gt "$known" ]; }
eventually more_told # more than once: what b had of a it tries to have again by itself
mv "$work/next.crt" "$work/a.id/trust/next.crt"
echo "no certificate" >"$work/a.id/trust/broken.crt"
if ctl a reload >"$work/said" 2>&1; then fail "a broken file was taken"; fi
grep -q 'broken.crt' "$work/said" || fail "$(<"$work/said")"
ctl a status | grep -q 'WARNING: .*broken.crt' || fail "$(ctl a status)"
rm "$work/a.id/trust/broken.crt"
eventually let_in
rm -r "$work/a.id"
if ctl a reload >"$work/said" 2>&1; then fail "an identity that is gone"; fi
refused plain "${port[a]}" 'talks TLS only' # it does not fall back to clear
