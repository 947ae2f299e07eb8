#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Before a daemon gives way to the next it has it tried: what would keep that from starting is said, and the
# daemon that runs goes on. What it has itself is in nobody's way.
set -euo pipefail

# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"
# shellcheck source=tests/support/certificates.sh
. "$(dirname "$0")/../support/certificates.sh"

# holds HOST: a port of it that another program listens on goes to port.
holders=0
holds() {
    holders=$((holders + 1))
    python3 -c 'import socket, sys, time
s = socket.create_server((sys.argv[1], 0))
print(s.getsockname()[1], flush=True)
time.sleep(600)' "$1" >"$work/port.$holders" &
    pids+=($!)
    port=$(first_line "$work/port.$holders" $!)
}

# settings [MEMBER...]: those of a, with all that a daemon may have, and with more or others behind them.
settings() {
    local more
    echo '{"runtime_dir": "'"$work"'/a", "listen": "127.0.0.1:0", "node_name": "node-a",
"identity": {"dir": "'"$work"'/a.id"}, "audit": {"file": "'"$work"'/audit.json"}, "metrics": {"listen": "unix"},
"sockets": [{"tenant": "blue"}, {"tenant": "red", "path": "'"$work"'/red.sock"}]}' >"$work/a.json"
    rm -rf "$work/a.json.d"
    mkdir "$work/a.json.d"
    local n=100
    for more in "$@"; do
        n=$((n + 1))
        echo "$more" >"$work/a.json.d/$n.json"
    done
}

asks() { ctl a -j status | sed -nE "s/.*\"$1\": *\"?([^\",}]*).*/\1/p" | head -n 1; }

# refuses WORDS: an upgrade, in these words, and the daemon that was there goes on.
refuses() {
    local life
    life=$(asks life)
    expect_refused "so this rdmad goes on: .*$1" ctl a upgrade
    [ "$(asks life)" = "$life" ] || fail "another life has begun"
}

make_ca "$work/ca" cluster
make_identity "$work/a.id" "$work/ca" node-a
settings
mkdir "$work/a"
"$rdmad" --config "$work/a.json" 2>"$work/a.log" &
daemon=$!
pids+=("$daemon")
await_daemon a "$daemon"

echo "* what the daemon has itself is in nobody's way"
for _ in first second; do ctl a upgrade >"$work/said" 2>&1 || fail "$(<"$work/said")"; done
"$rdmad" --check-config --config "$work/a.json" >"$work/said" 2>&1 || fail "by hand: $(<"$work/said")"
[ ! -s "$work/said" ] || fail "by hand it says: $(<"$work/said")"

echo "* an identity that cannot be used"
settings '{"node_name": "node-b"}'
refuses 'node_name is "node-b" and the certificate'
settings
mv "$work/a.id/node.key" "$work/node.key"
refuses 'node.key is missing'
mv "$work/node.key" "$work/a.id/node.key"

echo "* in clear beyond loopback"
settings '{"listen": "0.0.0.0:0", "identity": {"dir": "'"$work"'/none.id"}}'
refuses 'listen "0.0.0.0:[0-9]*" is not loopback, and this node has no identity'
expect_refused 'is not loopback, and this node has no identity' "$rdmad" --check-config --config "$work/a.json"

echo "* where peers reach it"
settings '{"listen": "no-such-host.invalid:7471"}'
refuses 'the name does not resolve'
holds 127.0.0.1
settings '{"listen": "127.0.0.1:'"$port"'"}'
refuses "cannot listen on 127.0.0.1:$port: .*another program has that port"
"$rdmad" --check-config --config "$work/a.json" || fail "by hand it may be the daemon's own port"

echo "* a fabric that is not to be had"
settings '{"fabric": "verbs", "verbs": {"device": "nosuch0"}}'
refuses 'fabric "verbs": '

echo "* the audit's file"
: >"$work/open.json"
chmod 666 "$work/open.json"
settings '{"audit": {"file": "'"$work"'/open.json"}}'
refuses 'open.json can be written by others'
settings '{"audit": {"file": "'"$work"'/a.id"}}'
refuses 'a.id cannot be opened'
settings '{"audit": {"file": "'"$work"'/other.json"}}'
"$rdmad" --check-config --config "$work/a.json" || fail "another file for the audit"
[ ! -e "$work/other.json" ] || fail "a check has made the audit's file"

echo "* the runtime directory"
start_daemon b
settings '{"runtime_dir": "'"$work"'/b"}'
refuses 'another rdmad runs in'
mkdir -m 777 "$work/open"
chmod 777 "$work/open"
settings '{"runtime_dir": "'"$work"'/open"}'
refuses 'everybody may write to'
mkdir -p "$work/full/rdmad.sock"
settings '{"runtime_dir": "'"$work"'/full"}'
refuses 'full/rdmad.sock: is in the way and is not a socket'
mv "$work/full/rdmad.sock" "$work/full/control.sock"
refuses 'full/control.sock: is in the way'
mv "$work/full/control.sock" "$work/full/metrics.sock"
refuses 'full/metrics.sock: is in the way'

echo "* the places of tenants' sockets"
settings '{"sockets": [{"tenant": "green", "path": "'"$work"'/a.json"}]}'
refuses 'a.json: is in the way and is not a socket'
settings '{"sockets": [{"tenant": "green", "path": "'"$work"'/t.sock"}, {"tenant": "grey", "path": "'"$work"'/t.sock"}]}'
refuses 'the socket of tenant green has the same path, '
settings '{"sockets": [{"tenant": "green"}, {"tenant": "grey", "path": "'"$work"'/a/tenants//green/rdmad.sock"}]}'
mkdir -p "$work/a/tenants/green"
refuses 'tenants green and grey cannot both have a socket at '
expect_refused 'tenants green and grey cannot both have' "$rdmad" --check-config --config "$work/a.json"
for own in rdmad control metrics; do
    settings '{"sockets": [{"tenant": "green", "path": "'"$work/a/$own.sock"'"}]}'
    refuses "tenant green cannot be at .*/a/$own.sock, where rdmad's own is"
done
settings '{"sockets": [{"tenant": "green", "path": "'"$work"'/b/rdmad.sock"}]}'
refuses 'b/rdmad.sock: somebody answers there'
settings '{"sockets": [{"tenant": "green", "path": "'"$work"'/missing/rdmad.sock"}]}'
refuses 'missing/rdmad.sock: cannot be bound: No such file'
settings '{"runtime_dir": "'"$work/$(printf 'd%.0s' {1..40})"'", "sockets": [{"tenant": "'"$(printf 'g%.0s' {1..60})"'"}]}'
refuses 'has a path that is too long'

echo "* a directory that is still to be made is not made by a trial, and is no reason to say no"
settings '{"runtime_dir": "'"$work"'/made"}'
"$rdmad" --check-config --config "$work/a.json" || fail "a directory that can be made"
[ ! -e "$work/made" ] || fail "a check has made the runtime directory"

echo "* a metrics' port that is somebody's is waited for"
settings '{"metrics": {"listen": "unix,127.0.0.1:'"$port"'"}}'
ctl a upgrade >"$work/said" 2>&1 || fail "$(<"$work/said")"
settings
ctl a upgrade >"$work/said" 2>&1 || fail "$(<"$work/said")"
kill -0 "$daemon" || fail "it is another process"
