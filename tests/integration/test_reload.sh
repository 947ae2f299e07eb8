#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Reading the settings again: who asks for it is told when it has happened, or what is wrong and where;
# the daemon goes on with what it had. The service's ExecReload is this very command.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

set_to() { echo "$1" >"$work/a.json"; }
a() { "$rdmactl" -d "$work/a" "$@"; }
shows() { a -j config show | grep -q "\"$1\": *$2[,}]" || fail "$1 is not $2: $(a -j config show)"; }

fabric=${RDMAD_TEST_FABRIC:-tcp}
set_to "{\"fabric\": \"$fabric\", \"lease\": {\"max_ttl_ms\": 60000}}"
mkdir "$work/a"
"$rdmad" --config "$work/a.json" --runtime-dir "$work/a" --listen 127.0.0.1:0 2>"$work/a.log" &
pids+=($!)
await_daemon a $!

echo "* good settings are in use when it answers"
set_to "{\"fabric\": \"$fabric\", \"lease\": {\"max_ttl_ms\": 70000}}"
a reload >"$work/said" 2>&1 || fail "reload: $(<"$work/said")"
shows lease.max_ttl_ms 70000
a events >"$work/said"
grep -q "admin reload (uid $(id -u)): uid $(id -u) has the settings read again" "$work/said" || fail "who reloads: $(<"$work/said")"
grep -q 'settings reloaded: lease.max_ttl_ms 60000 -> 70000$' "$work/said" || fail "what has changed: $(<"$work/said")"

echo "* what needs a restart is named"
set_to "{\"fabric\": \"$fabric\", \"workers\": 3, \"lease\": {\"max_ttl_ms\": 80000}}"
a reload >"$work/said" 2>&1 || fail "reload: $(<"$work/said")"
grep -q 'workers has changed and takes effect at the next start' "$work/said" || fail "$(<"$work/said")"
a events >"$work/said"
grep -q 'reloaded: workers 1 -> 3 at the next start, lease.max_ttl_ms 70000 -> 80000$' "$work/said" || fail "$(<"$work/said")"
a -j reload | grep -q '"needs_restart": *\["workers"\]' || fail "reload -j"
shows lease.max_ttl_ms 80000
shows workers 1

echo "* of rules it is told how many have changed, and where they begin; of what stays nothing"
# tells WORDS: the last reload has changed that.
tells() {
    a reload >"$work/said" 2>&1 || fail "reload: $(<"$work/said")"
    a events >"$work/said"
    [[ $(grep 'settings reloaded' "$work/said" | tail -n 1) = *"settings reloaded$1" ]] ||
        fail "not '$1' but: $(grep 'settings reloaded' "$work/said" | tail -n 1)"
}
# rules USERS PEERS
rules() {
    printf '{"fabric": "%s", "workers": 3, "lease": {"max_ttl_ms": 80000}, "policy": {\n"users": [%s],\n"peers": [%s]}}\n' \
        "$fabric" "$1" "$2" >"$work/a.json"
}
again="workers 1 -> 3 at the next start" # for as long as it has not begun anew
rules '{"match": {"uid": 4711}, "weight": 200}' ''
tells ": $again, policy.users 0 rules -> 1 rule from $work/a.json:2 on"
tells ": $again"
rules $'{"match": {"uid": 4711}, "weight": 200},\n{"match": {"uid": 4712}, "connect": false}' '{"match": {"name": "b"}, "attach": false}'
tells ": $again, policy.users 0 rules -> 1 rule from $work/a.json:3 on, policy.peers 0 rules -> 1 rule from $work/a.json:4 on"
rules $'{"match": {"uid": 4711}, "weight": 300},\n{"match": {"uid": 4712}, "connect": false}' '{"match": {"name": "b"}, "attach": true}'
tells ": $again, policy.users 1 rule -> 1 rule from $work/a.json:2 on, policy.peers 1 rule -> 1 rule from $work/a.json:4 on"
rules $'{"match": {"uid": 4712}, "connect": false},\n{"match": {"uid": 4711}, "weight": 300}' '{"match": {"name": "b"}, "attach": true}'
tells ": $again, policy.users 2 rules -> 2 rules from $work/a.json:2 on"
rules '{"match": {"uid": 4711}, "names": ["a.", "b."]}' ''
tells ": $again, policy.users 2 rules -> 1 rule from $work/a.json:2 on, policy.peers 1 rule -> 0 rules"
rules '{"match": {"uid": 4711}, "names": ["a.", "c."]}' ''
tells ": $again, policy.users 1 rule -> 1 rule from $work/a.json:2 on"
rules '' ''
tells ": $again, policy.users 1 rule -> 0 rules"

echo "* a broken file is a failure with its place, and changes nothing"
printf '{"lease": {"max_ttl_ms": 90000},\n "lissten": 1}\n' >"$work/a.json"
if a reload >"$work/said" 2>&1; then fail "a broken file was reloaded"; fi
grep -q "$work/a.json:2:2: unknown key \"lissten\"" "$work/said" || fail "$(<"$work/said")"
if a -j reload >"$work/said"; then fail "a broken file was reloaded"; fi
grep -q '"code": *"RDMAD_E_CONFIG"' "$work/said" || fail "$(<"$work/said")"
shows lease.max_ttl_ms 80000
a status >/dev/null || fail "the daemon did not go on"

echo "* who may not change anything may not reload"
if [ "$(id -u)" = 0 ]; then
    chmod 755 "$work"
    chmod 666 "$work/a/control.sock"
    if setpriv --reuid 12345 --regid 12345 --clear-groups "$rdmactl" -d "$work/a" reload >"$work/said" 2>&1; then
        fail "anybody may reload"
    fi
    grep -qi 'uid 12345' "$work/said" || fail "$(<"$work/said")"
else
    echo "skipped: this needs root"
fi
