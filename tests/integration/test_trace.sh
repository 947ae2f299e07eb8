#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# rdmactl trace: each op once and as it was, each filter, each user its own; a tracer that does not read loses
# records and nobody else anything; how many may trace, and that a place is free when its tracer has left.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

raw=$RDMAD_SOURCE/tests/integration/trace_raw.py
chmod 755 "$work" # others look, too
b() { "$rdmactl" -d "$work/b" "$@"; }

# has FILE CONDITION: of d, the document in it.
has() {
    python3 - "$work/$1" "$2" <<'PYTHON' || fail "$1: not $2: $(head -c 2000 "$work/$1")"
import json, sys
d = json.load(open(sys.argv[1]))
sys.exit(not eval("(" + sys.argv[2] + ")", {"d": d, "any": any, "all": all, "len": len, "set": set, "sorted": sorted}))
PYTHON
}
# sees DAEMON CONDITION ARGUMENT...: of the ops that a trace with these shows.
sees() {
    "$rdmactl" -d "$work/$1" -j trace "${@:3}" >"$work/traced" || fail "trace ${*:3}: $(cat "$work/traced")"
    has traced "$2"
}
# raw_open DAEMON; raw_do STEP: a connection by trace_raw.py; what it said is in $work/answer.
raw_open() {
    mkfifo "$work/steps"
    "$raw" "$work/$1/control.sock" <"$work/steps" >"$work/answers" 2>"$work/raw.log" &
    raw_pid=$!
    pids+=("$raw_pid")
    exec 8>"$work/steps"
    rm "$work/steps"
    raw_steps=0
}
raw_said() { [ "$(wc -l <"$work/answers")" -ge "$raw_steps" ]; }
raw_do() {
    raw_steps=$((raw_steps + 1))
    echo "$*" >&8
    eventually raw_said
    sed -n "${raw_steps}p" "$work/answers" >"$work/answer"
}

start_daemon a
start_daemon b
"$rdmactl" -d "$work/a" bench serve --ttl 1h >"$work/uri" 2>/dev/null &
pids+=($!)
uri=$(first_line "$work/uri" $!)

echo "* each op is a line, as it ends"
rm -f "$work/lines" # first_line would read what one before has said
"$rdmactl" -d "$work/b" trace -n 50 -o write >"$work/lines" &
tracer=$!
pids+=("$tracer")
first_line "$work/lines" "$tracer" | grep -q '^TIME .* LATENCY$' || fail "no head: $(cat "$work/lines")"
b bench write -s 64 -n 100 "$uri" >/dev/null
wait "$tracer" || fail "trace -n"
[ "$(wc -l <"$work/lines")" = 51 ] || fail "not 50 ops: $(cat "$work/lines")"
# bench's first ones are of other sizes
[ "$(grep -cE '^[0-9:.]{15} +[0-9]+ +[0-9]+ [0-9]+ [^ ]+ +write +64 link  RDMAD_OK +[0-9.]+ [um]?s$' "$work/lines")" -ge 40 ] ||
    fail "not 40 such writes: $(cat "$work/lines")"

echo "* filters, beside a load of writes to a peer and one of nops"
"$rdmactl" -d "$work/b" bench write -s 64 -D 100 "$uri" >/dev/null 2>&1 &
pids+=($!)
writes=$!
"$rdmactl" -d "$work/b" bench nop -D 100 >/dev/null 2>&1 &
pids+=($!)
nops=$!
both() {
    b -j session show >"$work/sessions"
    python3 -c 'import json, sys
rows = json.load(open(sys.argv[1]))["sessions"]
sys.exit(not (len(rows) == 2 and any(s["bytes_written"] > 100000 for s in rows) and all(s["ops"] for s in rows)))' "$work/sessions"
}
eventually both
number_of() { # EXPRESSION of s, a row of sessions
    python3 -c 'import json, sys
print([s["id"] for s in json.load(open(sys.argv[1]))["sessions"] if eval(sys.argv[2])][0])' "$work/sessions" "$1"
}
writer=$(number_of 's["attaches"]')
nopper=$(number_of 'not s["attaches"]')
b -j peer show >"$work/peers"
peer=$(python3 -c 'import json, sys; print([p["id"] for p in json.load(open(sys.argv[1]))["peers"]
    if p["direction"] == "out"][0])' "$work/peers")
node=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["peers"][0]["node"])' "$work/peers")
sees b 'len(d["ops"]) == 4000 and {o["op"] for o in d["ops"]} >= {"write", "nop"} and d["schema"] == 1 and
    all(o["what"] == "ended" and o["status"] == "RDMAD_OK" and o["latency_us"] >= 0 for o in d["ops"])' -n 4000
sees b "all(o['session'] == $writer and o['peer'] == $peer and o['node'] == '$node' and o['route'] == 'link' and
    o['bytes'] == 64 and o['lease'] == 1 and o['op'] == 'write' for o in d['ops']) and len(d['ops']) == 50" -n 50 --session "$writer"
sees b "all(o['session'] == $nopper and o['op'] == 'nop' and o['peer'] is None for o in d['ops'])" -n 50 --session "$nopper"
sees b 'all(o["op"] == "nop" and o["route"] is None for o in d["ops"])' -n 50 --op cancel,nop
sees b 'all(o["op"] == "write" for o in d["ops"])' -n 50 --peer "$peer"
sees b 'all(o["op"] == "write" for o in d["ops"])' -n 50 --peer "$node"
sees b 'd["ops"] == [] and d["dropped"] == 0' --for 300ms --peer no.such.node
sees b 'len(d["ops"]) == 50' -n 50 --uid "$(id -u)"
sees b 'd["ops"] == [] and d["dropped"] == 0' --for 300ms --uid 54321
sees b 'all(o["latency_us"] > 2 for o in d["ops"]) and len(d["ops"]) == 20' -n 20 --slower 2
sees b 'd["ops"] == [] and d["dropped"] == 0' --for 300ms --slower 600000000
sees b 'd["ops"] == [] and d["dropped"] == 0' --for 300ms --failed
sees b 'set(o["what"] for o in d["ops"]) == {"begun", "ended"} and
    all(o["latency_us"] is None and o["status"] is None for o in d["ops"] if o["what"] == "begun")' -n 200 --begun --op write
expect_refused 'there is no op "writ"' b trace --op read,writ
expect_refused 'knows whether it fails' b trace --begun --failed
expect_refused 'say when it ends' b -j trace
expect_refused 'is out of range' b trace -n 0
for nobody in 1000x x @blue 1000@ -1 4294967295; do expect_refused 'names nobody' b trace "--uid=$nobody"; done
expect_refused 'no tenant "blue" has a socket here' b trace --uid 1000@blue
expect_refused '"tenant" goes with "uid"' python3 -c 'import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"trace\", \"params\": {\"tenant\": \"blue\"}}\n")
sys.exit(json.loads(s.makefile().readline())["error"]["data"]["text"])' "$work/b/control.sock"

kill -KILL "$writes" # it would wait for its own lease

echo "* who is interrupted, and who writes to nobody"
rm -f "$work/lines" # first_line would read what one before has said
"$rdmactl" -d "$work/b" trace --op read >"$work/lines" &
tracer=$!
pids+=("$tracer")
first_line "$work/lines" "$tracer" >/dev/null
kill -TERM "$tracer"
wait "$tracer" || fail "an interrupted trace"
b trace 2>/dev/null | head -n 3 >"$work/lines" || true
[ "$(wc -l <"$work/lines")" = 3 ] || fail "no three lines"
kill -KILL "$nops" # it would wait for another daemon at the end

echo "* who does not read loses records, and is told how many"
start_daemon c
lasts=${pids[-1]}
raw_open c
raw_do begin
has answer 'd == {"ops": [], "dropped": 0, "more": False}'
"$rdmactl" -d "$work/c" bench nop -n 40000 -q 64 >/dev/null || fail "a tracer that does not read holds up others"
raw_do more
has answer 'len(d["ops"]) == 512 and d["dropped"] > 10000 and d["more"]'
read_first=512
raw_do all
"$rdmactl" -d "$work/c" -j status >"$work/status"
ops=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["traffic"]["ops"])' "$work/status")
has answer "d['count'] + $read_first + d['dropped'] == $ops and d['in_order'] and d['sessions'] == 1"
"$rdmactl" -d "$work/c" bench nop -n 100 >/dev/null
raw_do all
has answer 'd["count"] >= 100'
raw_do begin
has answer '"has begun on this connection" in d["error"]'
raw_do flood
"$rdmactl" -d "$work/c" bench nop -n 1000 >/dev/null || fail "a tracer that floods holds up others"
"$rdmactl" -d "$work/c" -j status >/dev/null || fail "a tracer that floods holds up who looks"
raw_do dial
raw_do more
has answer '"no trace has begun" in d["error"]'

echo "* places: four, and free again when their tracers have left"
tracers=()
start_tracer() {
    "$rdmactl" -d "$work/c" trace >"$work/place$1" 2>"$work/place.said" &
    tracers+=($!)
    pids+=($!)
    first_line "$work/place$1" $! >/dev/null
}
for n in 1 2 3 4; do start_tracer "$n"; done
expect_refused '4 trace already' "$rdmactl" -d "$work/c" trace --for 1s
"$rdmactl" -d "$work/c" bench nop -n 10 >/dev/null
for n in 1 2 3 4; do
    shown() { grep -q ' nop ' "$work/place$n"; }
    eventually shown
done
kill -KILL "${tracers[@]}"
wait "${tracers[@]}" 2>/dev/null || true # so that each place is free before somebody asks for one
is_free() { "$rdmactl" -d "$work/c" trace --for 10ms >/dev/null 2>&1; }
eventually is_free
for n in 5 6 7 8; do start_tracer "$n"; done
kill -TERM "${tracers[@]:4}"
wait "${tracers[@]:4}" 2>/dev/null || true
# The daemon ends in order while somebody traces.
eventually is_free
start_tracer 9
kill -TERM "$lasts"
wait "$lasts" || fail "a daemon that is traced does not end in order"
wait "${tracers[-1]}" && fail "a trace ended well without its daemon"
grep -q 'rdmad closed the connection' "$work/place.said" || fail "no word why: $(cat "$work/place.said")"

[ "$(id -u)" = 0 ] || {
    echo "skipped: only root can be another user"
    exit 0
}
echo "* each sees what is its own"
echo '{"policy": {"users": [{"match": {"uid": 12345}, "admin": "all"}]}}' >"$work/seeing.json"
echo '{"policy": {"users": [{"match": {"uid": 12345}, "admin": "own"}]}}' >"$work/own.json"
cp "$work/own.json" "$work/d.json"
mkdir "$work/d"
"$rdmad" --runtime-dir "$work/d" --config "$work/d.json" --listen 127.0.0.1:0 2>"$work/d.log" &
pids+=($!)
daemon=$!
await_daemon d "$daemon"
other() { setpriv --reuid 12345 --regid 12345 --clear-groups "$rdmactl" -d "$work/d" "$@"; }
"$rdmactl" -d "$work/d" bench nop -D 100 >/dev/null 2>&1 &
pids+=($!)
nops=$!
moves() { "$rdmactl" -d "$work/d" trace -n 10 --for 1s | grep -q ' nop '; }
eventually moves
other -j trace --for 500ms >"$work/traced"
has traced 'd["ops"] == [] and d["dropped"] == 0'
other -j trace --for 500ms --session 1 >"$work/traced" 2>"$work/said"
has traced 'd["ops"] == [] and d["dropped"] == 0'
grep -q 'no session 1 is open here; session show lists them' "$work/said" || fail "not told: $(<"$work/said")"
"$rdmactl" -d "$work/d" trace --for 100ms --session 1 --peer nosuch >/dev/null 2>"$work/said"
[ "$(<"$work/said")" = 'rdmactl: no peer nosuch is connected now; peer show lists them' ] || fail "not told: $(<"$work/said")"
expect_refused 'you are uid 12345, and see your own' other trace --uid 0
expect_refused 'you are uid 12345, and see your own' other trace --uid root
expect_refused '"no.such.user" names nobody: write a UID or a user' other trace --uid no.such.user
expect_refused 'the ops of uid 12345@blue are shown' other trace --uid 12345@blue
rm -f "$work/lines" # first_line would read what one before has said
setpriv --reuid 12345 --regid 12345 --clear-groups "$rdmactl" -d "$work/d" trace >"$work/lines" 2>/dev/null &
pids+=($!)
tracer=$!
first_line "$work/lines" "$tracer" >/dev/null
expect_refused 'uid 12345 traces already' other trace --for 1s
other bench nop -n 100 >/dev/null
own() { [ "$(grep -c ' 12345 -  *nop ' "$work/lines")" -ge 100 ]; }
eventually own
[ "$(grep -vc ' 12345 ' "$work/lines")" = 1 ] || fail "ops of others: $(grep -v ' 12345 ' "$work/lines" | head)"
kill -TERM "$tracer"
wait "$tracer" || fail "another user's trace"
rm -f "$work/lines" # first_line would read what one before has said
"$rdmactl" -d "$work/d" trace --uid 12345 >"$work/lines" &
pids+=($!)
tracer=$!
first_line "$work/lines" "$tracer" >/dev/null
other bench nop -n 100 >/dev/null
eventually own
[ "$(grep -vc ' 12345 ' "$work/lines")" = 1 ] || fail "--uid: others: $(head "$work/lines")"
kill -TERM "$tracer"

echo "* who may see less than when the trace began"
cp "$work/seeing.json" "$work/d.json"
"$rdmactl" -d "$work/d" reload >/dev/null
rm -f "$work/lines" # first_line would read what one before has said
setpriv --reuid 12345 --regid 12345 --clear-groups "$rdmactl" -d "$work/d" trace >"$work/lines" 2>"$work/said" &
pids+=($!)
tracer=$!
others() { grep -q ' 0 -  *nop ' "$work/lines"; }
eventually others
cp "$work/own.json" "$work/d.json"
"$rdmactl" -d "$work/d" reload >/dev/null
ended() { ! kill -0 "$tracer" 2>/dev/null; }
eventually ended
wait "$tracer" && fail "it ended well, and saw less than it was asked for"
grep -q 'the policy has changed' "$work/said" || fail "no word why: $(cat "$work/said")"
kill -KILL "$nops"
