#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# rdmactl top as a live view, on a terminal of its own, beside a load; and what of users, links and peers it tells.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

here=$RDMAD_SOURCE/tests/integration
start_daemon a
start_daemon b
mkfifo "$work/stop"
"$RDMAD_BUILD/tests/integration/steady_load" "$work/a" "$work/b" <"$work/stop" >"$work/load" 2>"$work/load.log" &
pids+=($!)
exec 9>"$work/stop"
[ "$(first_line "$work/load" $!)" = begun ] || fail "no load"

# More sessions than the terminal has rows.
for name in 1 2 3; do
    "$rdmactl" -d "$work/b" bench serve --ttl 1h >"$work/serve$name" 2>/dev/null &
    pids+=($!)
    first_line "$work/serve$name" $! >/dev/null
done

echo "* links and peers in a batch, and what they do not go with"
shows() { # PATTERN OPTION: of 200 ms in which the load has had the processor
    "$rdmactl" -d "$work/b" top -b "$2" -n 1 -i 200ms >"$work/said" || fail "top $2"
    grep -qE "$1" "$work/said"
}
soon shows "^ *[0-9]+ .* ${RDMAD_TEST_FABRIC:-tcp} +up +[1-9]" -l
soon shows "^ *[^ ]+ +[1-9][0-9]* +[1-9]" -p
for options in "-l -u" "-l -p" "-n 1 -j -p -u" "-p -n 2 -j"; do
    code=0
    # shellcheck disable=SC2086 # words
    "$rdmactl" -d "$work/b" top $options >"$work/said" 2>&1 || code=$?
    [ "$code" = 2 ] || fail "top $options: $code"
done

echo "* sessions, by what there was between two looks"
"$here/top_sessions.py" "$rdmactl" "$work/b" sleep "$((2 * ${RDMAD_TEST_PATIENCE:-1}))" || fail "see above"

echo "* users, by what there was between two looks"
start_daemon c
"$rdmactl" -d "$work/c" bench serve --ttl 1h >"$work/served" 2>/dev/null &
serve=$!
pids+=("$serve")
uri=$(first_line "$work/served" "$serve")
"$here/top_users.py" "$rdmactl" "$work/c" "$rdmactl" -d "$work/c" bench write -n 100 "$uri" || fail "see above"
kill "$serve"
wait "$serve" 2>/dev/null || true
all_counted() { # each op that was done, when all sessions have gone
    "$rdmactl" -d "$work/c" -j user show >"$work/said"
    python3 -c 'import json, sys
u, = json.load(open(sys.argv[1]))["users"]
sys.exit(not (u["sessions"] == 0 and u["ops"] >= 200 and u["lat_us"]["count"] == u["ops"] - u["ops_failed"] ==
              sum(b["count"] for b in u["lat_buckets"])))' "$work/said"
}
soon all_counted

echo "* links and peers, by what there was between two looks"
start_daemon d
"$here/top_peers.py" "$rdmactl" "$work/d" "$rdmactl" -d "$work/d" bench write -n 100 "$(head -n 1 "$work/serve1")" || fail "see above"

echo "* the queue, with what a program has submitted and the daemon has not taken"
session=$("$rdmactl" -d "$work/b" -j session show | python3 -c 'import json, sys
print(max(json.load(sys.stdin)["sessions"], key=lambda s: s["ops"])["id"])')
"$rdmactl" -d "$work/b" session pause "$session" --why "a look at its rings"
in_rings() { # the one op that it has
    "$rdmactl" -d "$work/b" -j top -n 1 -i 100ms >"$work/said"
    python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
s, = [s for s in d["sessions"] if s["id"] == int(sys.argv[2])]
u, = d["users"]
sys.exit(not (s["ops_inflight"] == u["ops_inflight"] == 0 and s["ops_in_rings"] == u["ops_in_rings"] == 1))' "$work/said" "$session"
}
if grep -q '^VmLck:[[:space:]]*0 kB' "/proc/${pids[1]}/status"; then
    echo "skipped: rdmad may lock no memory here, so it does not look at rings"
else
    soon in_rings
    "$rdmactl" -d "$work/b" metrics >"$work/said"
    grep -q "^rdmad_user_ops_in_rings{uid=\"$(id -u)\"} 1$" "$work/said" ||
        fail "ops in rings, in the metrics: $(grep rdmad_user_ops "$work/said")"
fi
"$rdmactl" -d "$work/b" why session "$session" >"$work/said"
grep -q "^now  uid $(id -u) paused the session: a look at its rings; nothing is taken from its rings until rdmactl session resume $session$" \
    "$work/said" || fail "why a paused session: $(cat "$work/said")"
"$rdmactl" -d "$work/b" session resume "$session"

echo "* keys"
"$here/top_keys.py" "$rdmactl" "$work/b" "${RDMAD_TEST_FABRIC:-tcp}" >"$work/keys" 2>&1 &
keys=$!
pids+=("$keys")
last_of() { [ "$(tail -n 1 "$work/keys")" = last ] || ! kill -0 "$keys" 2>/dev/null; }
eventually last_of
kill "${pids[1]}" # the daemon that top looks at
wait "$keys" || fail "$(cat "$work/keys")"
