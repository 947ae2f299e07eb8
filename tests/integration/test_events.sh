#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# What two daemons remember of a bad night: links, peers, sessions that were ended, leases, refusals,
# settings, ops that failed; to whom they tell it, and what why says of each.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

chmod 755 "$work" # others look, too
a() { "$rdmactl" -d "$work/a" "$@"; }
b() { "$rdmactl" -d "$work/b" "$@"; }

# has FILE CONDITION: of d, the document in it.
has() {
    python3 - "$work/$1" "$2" <<'PYTHON' || fail "$1: not $2: $(head -c 3000 "$work/$1")"
import json, sys
d = json.load(open(sys.argv[1]))
assert d["schema"] == 1
sys.exit(not eval("(" + sys.argv[2] + ")", {"d": d, "any": any, "all": all, "sum": sum}))
PYTHON
}
# tells NAME WHAT CAUSE: the daemon comes to remember such an event.
tells() {
    "$rdmactl" -d "$work/$1" events >"$work/told" # not a pipe: grep would leave before the end
    grep -q "  $2 $3" "$work/told"
}
fails() { # WORDS COMMAND...
    local words=$1
    shift
    if "$@" >"$work/said" 2>&1; then fail "it went well: $*"; fi
    grep -qF -- "$words" "$work/said" || fail "$*: not '$words' but $(cat "$work/said")"
}

start_daemon a
start_daemon b
tells a daemon started || fail "the start is not remembered"

echo "* a link, a peer, a session that is ended"
"$rdmactl" -d "$work/a" bench serve --ttl 600s >"$work/uri" 2>/dev/null &
pids+=($!)
serve=$!
uri=$(first_line "$work/uri" "$serve")
"$rdmactl" -d "$work/b" events -f >"$work/followed" &
pids+=($!)
follower=$!
"$rdmactl" -d "$work/b" events -f --kind op >"$work/followed.ops" &
pids+=($!)
b bench write -s 64 -n 100 "$uri" >/dev/null
eventually tells b peer up
eventually tells b link up
eventually tells a admitted peer
eventually grep -q '  link up' "$work/followed"
b bench write -s 64 -D 600 -q 8 "$uri" >/dev/null 2>"$work/bench.log" &
pids+=($!)
bench=$!
busy() {
    b -j session show >"$work/told"
    grep -q '"ops_inflight": *[1-9]' "$work/told"
}
eventually busy
session=$(a -j session show | python3 -c 'import json, sys; print(json.load(sys.stdin)["sessions"][0]["id"])')
lease=$(a -j lease show | python3 -c 'import json, sys; print(json.load(sys.stdin)["leases"][0]["id"])')
a -j lease show --where id="$lease" >"$work/holders"
has holders 'len(d["leases"][0]["holders"]) >= 1 and all(h["peer"] == 1 and h["session"] is None and
    h["uid"] == '"$(id -u)"' and h["name"] and h["since_s"] >= 0 for h in d["leases"][0]["holders"])'
a -j why lease "$lease" >"$work/live"
has live 'd["object"] == "lease" and any("is live" in s for s in d["now"]) and
    any(e["what"] == "granted" for e in d["events"]) and d["next"] is None'
a session kick "$session" --why 'the night is bad' >/dev/null
wait "$bench" && fail "the bench went well without its memory"
wait "$serve" || true
eventually tells a session ended
closed() { # the event comes first
    a -j why session "$session" >"$work/session" && grep -q '"now": *\[\]' "$work/session"
}
eventually closed
has session 'd["now"] == [] and any(e["what"] == "session" and "the night is bad" in e["text"] for e in d["events"])'
a events --of "session:$session" >"$work/said"
grep -q "admin session.kick (uid $(id -u)): uid $(id -u) ends session $session: the night is bad" "$work/said" ||
    fail "who ended it, and why: $(cat "$work/said")"
a -j why lease "$lease" >"$work/lease"
has lease 'any("its owner is gone" in s for s in d["now"]) and any(e["cause"] == "ended" for e in d["events"]) and
    "start its owner" in d["next"]'

echo "* of leases with the same number at both: each where its owner is"
eventually tells b attach ended
b events --of "attach:$lease" >"$work/said"
grep -q "attached link .*: session [0-9]* is lessee of lease $lease of the daemon at 127.0.0.1:[0-9]*, by link" "$work/said" ||
    fail "that it attached: $(cat "$work/said")"
grep -q "attach ended .*: session [0-9]* is lessee of lease $lease of the daemon at 127.0.0.1:[0-9]* no more: " "$work/said" ||
    fail "that it is lessee no more: $(cat "$work/said")"
own=$(b -j events | python3 -c 'import json, sys
print([e["id"] for e in json.load(sys.stdin)["events"] if e["what"] == "granted"][0])')
[ "$own" = "$lease" ] || fail "b has no lease of the same number, $lease"
b -j why lease "$own" >"$work/own"
has own 'any(e["what"] == "granted" for e in d["events"]) and not any("is lessee of" in e["text"] for e in d["events"])'
session=$(b -j events | python3 -c 'import json, sys
print([e["session"] for e in json.load(sys.stdin)["events"] if e["what"] == "attach"][-1])')
b -j why session "$session" >"$work/session"
has session 'any(e["what"] == "attach" for e in d["events"])'
fails 'of another machine'"'"'s lease ask there' b why lease 4711
b -j why attach "$lease" >"$work/attach"
has attach 'd["object"] == "attach" and d["now"] == [] and any(e["what"] == "attach" for e in d["events"])'

echo "* ops that failed, when their session has gone, too"
eventually tells b op RDMAD_E_
b -j events >"$work/events"
op=$(python3 -c 'import json, sys
print([e["id"] for e in json.load(open(sys.argv[1]))["events"] if e["what"] == "op"][-1])' "$work/events")
b why op "$op" >"$work/said" || fail "why op"
grep -q "WRITE $op of session [0-9]* (64 bytes, lease [0-9]* of [^ ]*, .*ended with RDMAD_E_LEASE_" "$work/said" || fail "why op: $(cat "$work/said")"
grep -q '^->   ' "$work/said" || fail "why op does not say what to do: $(cat "$work/said")"

echo "* ops that fail in a session that goes on"
"$rdmactl" -d "$work/a" bench serve --ttl 600s >"$work/uri.long" 2>/dev/null &
pids+=($!)
serve=$!
uri=$(first_line "$work/uri.long" "$serve")
mkfifo "$work/orders"
RDMAD_RUNTIME_DIR=$work/b "$RDMAD_BUILD/tests/integration/failing_ops" "$uri" <"$work/orders" >"$work/failed" &
pids+=($!)
program=$!
exec 7>"$work/orders"
first_line "$work/failed" "$program" >/dev/null
session=$(b -j session show | python3 -c 'import json, sys
print([s["id"] for s in json.load(sys.stdin)["sessions"] if s["name"] == "failing_ops"][0])')
lacks . b events --kind op --of "session:$session" || fail "an op of it has failed already"
echo 3 1000000000000 1000 >&7
told_of() { # WORDS: in what is remembered of the session's ops
    b events --kind op --of "session:$session" >"$work/told" && grep -qF -- "$1" "$work/told"
}
eventually told_of '3 in the last '
grep -q "  op RDMAD_E_RANGE (uid $(id -u)): 3 in the last [0-9]* s, the last: WRITE [0-9]* of session $session (64 bytes, " "$work/told" ||
    fail "events of ops of a session that goes on: $(cat "$work/told")"
b -j events --since 1h >"$work/hour"
op=$(python3 -c 'import json, sys
print([e["id"] for e in json.load(open(sys.argv[1]))["events"] if e["what"] == "op"][-1])' "$work/hour")
has hour 'any(e["what"] == "op" and e["session"] == '"$session"' and (e["object"], e["id"]) == ("op", '"$op"') for e in d["events"])'
b -j why session "$session" >"$work/long"
has long 'any("is open" in s for s in d["now"]) and sum("RDMAD_E_RANGE" in s for s in d["now"]) == 3 and
    any(e["what"] == "op" and "the last: WRITE '"$op"' of" in e["text"] for e in d["events"])'
b -j why op "$op" >"$work/long"
has long 'any("WRITE '"$op"' of" in s for s in d["now"]) and any(e["id"] == '"$op"' for e in d["events"]) and
    d["next"].startswith("an op stays within the bytes of its pool")'
b why op "$op" >"$work/said"
grep -q '; from byte 1000000000000 of its lease on it reaches past the end of its pool or lease' "$work/said" ||
    fail "where the op begins: $(cat "$work/said")"
# While a session is its lessee, its own daemon says so, too.
lease=${uri##*/lease/}
lease=${lease%%\?*}
b -j why attach "$lease" >"$work/attach"
has attach 'len(d["now"]) == 1 and "session '"$session"' is lessee of it, rdmad://" in d["now"][0] and
    " bytes over " in d["now"][0] and "secret" not in d["now"][0] and "key=" not in d["now"][0]'
# More of the same are told after a minute, or when the program ends; of another kind at once.
hang "${pids[0]}" # the owner's daemon
echo 5 1000000000000 1000 >&7
echo 2 0 100 >&7
eventually grep -q '^RDMAD_E_TIMEOUT$' "$work/failed"
kill -CONT "${pids[0]}"
eventually told_of '2 in the last '
grep -q 'RDMAD_E_TIMEOUT .*2 in the last [0-9]* s, the last: WRITE [0-9]* of .*, lease [0-9]* of [^ ]*, by a link' "$work/told" || fail "time-outs: $(cat "$work/told")"
node=$(b -j peer show | python3 -c 'import json, sys; print(json.load(sys.stdin)["peers"][0]["node"])')
grep -q "RDMAD_E_TIMEOUT .* of $node, by a link" "$work/told" || fail "not the peer's name: $(cat "$work/told")"
b events --kind op --of "peer:$node" >"$work/said"
grep -q 'RDMAD_E_TIMEOUT' "$work/said" || fail "not among what concerns the peer"
lacks . b events --kind op --of "peer:${node}x" || fail "ops to another peer"
b -j peer show >"$work/peers"
has peers 'sum(p["failures"].get("RDMAD_E_TIMEOUT", 0) for p in d["peers"]) == 2 and
    all("RDMAD_E_RANGE" not in p["failures"] for p in d["peers"])'
b -j link show >"$work/links"
has links 'any(l["failures"].get("RDMAD_E_TIMEOUT") == 2 and l["ops_failed"] >= 2 for l in d["links"])'
exec 7>&-
wait "$program" || fail "the program whose ops fail"
last_word() { # all eight are told of by now
    b events --kind op --of "session:$session" >"$work/told"
    [ "$(awk '/ op RDMAD_E_RANGE / { sub(/.*\): /, ""); n += / in the last / ? $1 : 1 } END { print n + 0 }' "$work/told")" = 8 ]
}
eventually last_word

echo "* 8,000 of them are a few events, which count them all"
began=$SECONDS
awk 'BEGIN { while (n++ < 1000) print "8 1000000000000 1000" }' |
    RDMAD_RUNTIME_DIR=$work/b "$RDMAD_BUILD/tests/integration/failing_ops" "$uri" >"$work/failed" || fail "the flood"
# One a minute while it goes on, and one when it ends.
flood() {
    b -j events --since 1h >"$work/hour"
    python3 - "$work/hour" "$session" $(((SECONDS - began) / 60 + 2)) <<'PYTHON'
import json, re, sys
ops = [e for e in json.load(open(sys.argv[1]))["events"] if e["what"] == "op" and e["session"] and e["session"] > int(sys.argv[2])]
count = sum(int(m[1]) if (m := re.match("([0-9]+) in the last ", e["text"])) else 1 for e in ops)
print(len(ops), "events of", count, "ops; at most", sys.argv[3], "may be")
sys.exit(count != 8000 or len(ops) > int(sys.argv[3]))
PYTHON
}
flooded() { flood >"$work/said"; }
eventually flooded
cat "$work/said"
kill -TERM "$serve"

echo "* refusals, limits, settings"
fails 'there is no lease' b fetch "${uri%=*}=00000000000000000000000000000000"
eventually tells a refused secret
a limit set uid:12345 weight=50 >/dev/null
tells a admin limit.set
grep -q 'calls limit.set uid:12345 weight=50' "$work/told" || fail "a limit that was set"
a reload >/dev/null
tells a admin reload || fail "settings that were read again"

echo "* since, follow, and one document"
a -j events --since 1h >"$work/hour"
has hour 'len(d["events"]) > 5 and all(e["ago_s"] < 3600 and e["text"] for e in d["events"]) and
    [e["number"] for e in d["events"]] == sorted(e["number"] for e in d["events"])'
fails 'nothing to follow' a -j events -f
# Of a window in which nothing was there is nothing to show first, and no history afterwards.
quiet() { lacks . a events --since 1s; }
eventually quiet
"$rdmactl" -d "$work/a" events -f --since 1s >"$work/followed.new" &
pids+=($!)
sleep 1.2 # it looks twice a second
heard() { # it may begin later, on a busy machine
    a limit set uid:12345 weight=51 >/dev/null
    grep -q 'calls limit.set uid:12345 weight=51' "$work/followed.new"
}
eventually heard
lacks '  daemon started' cat "$work/followed.new" || fail "events -f --since 1s begins with $(head -n 2 "$work/followed.new")"

echo "* only some of them"
# shown CONDITION ARGUMENT...: of each event e that is shown with these, and there are some.
shown() {
    a -j events "${@:2}" >"$work/some"
    python3 - "$work/some" "$1" <<'PYTHON' || fail "events ${*:2}: not $1: $(head -c 2000 "$work/some")"
import json, sys
d = json.load(open(sys.argv[1]))["events"]
sys.exit(not (d and all(eval("(" + sys.argv[2] + ")", {"e": e}) for e in d)))
PYTHON
}
one=$(a -j events | python3 -c 'import json, sys
print([e["id"] for e in json.load(sys.stdin)["events"] if e["object"] == "session"][0])')
node=$(b -j peer show | python3 -c 'import json, sys; print(json.load(sys.stdin)["peers"][0]["node"])')
shown 'e["what"] == "refused"' --kind refused
shown 'e["what"] in ("refused", "daemon")' -k daemon,refused
shown 'e["object"] == "session"' --of session
shown "(e['object'] == 'session' and e['id'] == $one) or e['session'] == $one" --of "session:$one"
shown "e['object'] == 'session' and e['id'] == $one and e['what'] == 'admitted'" --of "session:$one" --kind admitted
shown "e['uid'] == $(id -u)" --of "uid:$(id -u)"
shown "e['object'] in ('peer', 'link', 'op') and '$node' in e['text']" --of "peer:$node"
for other in "${node}x" "${node%?}"; do
    lacks . a events --of "peer:$other" || fail "events of another peer, $other"
done
shown 'e["object"] == "peer" and e["id"] == 1' --of peer:1
for nothing in "--kind refused --of channel" "--of session:4711" "--of uid:54321" "--of peer:no.such.node"; do
    # shellcheck disable=SC2086 # words
    lacks . a events $nothing || fail "events $nothing shows some"
done
b events --kind link >"$work/lines"
grep -q '  link up' "$work/lines" || fail "no link"
grep -qv '  link ' "$work/lines" && fail "not links alone"
fails 'is no number' a events --of session:x
fails '--kind: there is no refuse; there are admitted, refused, ' a events --kind session,refuse
fails '--of: there is no bar; there are session, lease, ' a events --of bar:1
fails '--of: there is no sessio; ' a -j events --of sessio
# No kind that there is is one that --kind does not know by itself.
a -j events >"$work/events"
known=$(a events --kind none 2>&1 | sed 's/.*there are //; s/, / /g') || true
has events "all(e['what'] in '$known'.split() for e in d['events'])"
fails 'is not session, session:ID' a events --of :3
# What was followed begins with what was remembered already, so it is the head of what is remembered now:
# two events may have equal words in one second, so no line by itself tells whether it was told twice.
eventually grep -q '  op RDMAD_E_' "$work/followed"
eventually grep -q '  op RDMAD_E_' "$work/followed.ops"
grep -qv '  op ' "$work/followed.ops" && fail "events -f --kind op: $(cat "$work/followed.ops")"
kill -TERM "$follower"
wait "$follower" || fail "events -f ended badly"
b events >"$work/remembered"
b -j events >"$work/events"
has events 'd["events"][0]["number"] == 1' # none was pushed out
head -n "$(wc -l <"$work/followed")" "$work/remembered" >"$work/head"
diff "$work/head" "$work/followed" >"$work/said" ||
    fail "events -f told other than what is remembered: $(head -n 20 "$work/said")"

echo "* a channel and its link, while messages go by them"
for n in 2 3; do
    "$rdmactl" -d "$work/a" bench serve --ttl 100s >"$work/uri$n" 2>/dev/null &
    pids+=($!)
    serve=$!
    b bench "$([ "$n" = 2 ] && echo write || echo send)" -s 64 -D 100 -q 8 "$(first_line "$work/uri$n" "$serve")" >/dev/null 2>&1 &
    pids+=($!)
done
channel() { # b's end of it
    b -j channel show >"$work/channels"
    python3 -c 'import json, sys
c = json.load(open(sys.argv[1]))["channels"]
c and c[0]["messages_sent"] and print(c[0]["id"], c[0]["session"])' "$work/channels"
}
flows() { [ -n "$(channel)" ]; }
eventually flows
read -r end session < <(channel)
b -j why channel "$end" >"$work/channel"
has channel 'd["object"] == "channel" and d["id"] == '"$end"' and d["events"] == [] and d["next"] is None and
    len(d["now"]) == 1 and d["now"][0].startswith("channel '"$end of session $session"' is there; ")'
b -j link show >"$work/links"
link=$(python3 -c 'import json, sys
print([l["peer"] for l in json.load(open(sys.argv[1]))["links"] if l["channels"]][0])' "$work/links")
# stands CONDITION: what b says of that link meets it; s is what it says of it, in one text.
stands() {
    b -j why link "$link" >"$work/link" &&
        python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
sys.exit(not eval("(" + sys.argv[2] + ")", {"d": d, "s": " / ".join(d["now"]), "any": any}))' "$work/link" "$1"
}
up="d['object'] == 'link' and d['id'] == $link and '$node at 127.0.0.1:' in s and ' is up, ' in s and
    'and 1 channels' in s and any((e['what'], e['cause'], e['id']) == ('link', 'up', $link) for e in d['events'])"
stands "$up and d['next'] is None" || fail "why link: $(cat "$work/link")"
b why link "$link" >"$work/said"
grep -q '^now  *a link of worker [0-9]* to ' "$work/said" || fail "why link: $(cat "$work/said")"

kill -KILL "$serve" # the other end's program
over() {
    b -j why channel "$end" >"$work/channel" && grep -q '"what": *"channel"' "$work/channel"
}
eventually over
has channel 'any(e["what"] == "channel" and e["cause"] == "ended" and "channel '"$end of session $session"' ended: " in e["text"]
    for e in d["events"])'

echo "* a connection that nobody uses is closed, at both ends, and not lost"
start_daemon c
echo '{"peer": {"idle_ms": 300}}' >"$work/idle.json"
mkdir "$work/idle"
"$rdmad" --config "$work/idle.json" --runtime-dir "$work/idle" --listen 127.0.0.1:0 2>"$work/idle.log" &
pids+=($!)
await_daemon idle $!
"$rdmactl" -d "$work/c" share "$work/hour" --ttl 100s >"$work/uri4" 2>/dev/null &
pids+=($!)
"$rdmactl" -d "$work/idle" fetch "$(first_line "$work/uri4" $!)" -o "$work/fetched" >/dev/null || fail "fetch"
# The connection may have been closed and made anew before the file was there. Whose daemon it was closed to may
# not have read why, if the end came with it.
closed_last() { # NAME WHY
    local id
    tells "$1" peer closed || return
    id=$("$rdmactl" -d "$work/$1" -j events | python3 -c 'import json, sys
print([e["id"] for e in json.load(sys.stdin)["events"] if e["what"] == "peer"][-1])')
    "$rdmactl" -d "$work/$1" -j why peer "$id" >"$work/why"
    python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
said = d["events"][-1]["text"]
sys.exit(d["next"] is not None or "is closed, and made anew when it is needed: " not in said or sys.argv[2] not in said)' "$work/why" "$2"
}
for name in idle c; do
    if [ "$name" = idle ]; then why="nobody uses it"; else why=""; fi
    eventually closed_last "$name" "$why"
    ! grep -q '  peer lost' "$work/told" || fail "$name: it is called lost: $(cat "$work/told")"
done

echo "* a peer that dies, and its link"
kill -KILL "${pids[0]}"
# Who asks by the link hears that it is broken, or being made anew, and what to do.
eventually stands "' is up, ' not in s and 'rdmactl peer add' in (d['next'] or '') and (' is rebuilding, ' in s or
    any((e['what'], e['cause']) == ('link', 'broken') for e in d['events']))"
b -j peer show >"$work/peers"
eventually tells b peer '\(lost\|unreachable\)'
id=$(b -j events | python3 -c 'import json, sys
print([e["id"] for e in json.load(sys.stdin)["events"] if e["what"] == "peer"][0])')
b -j why peer "$id" >"$work/peer"
has peer 'any(e["what"] == "peer" and e["cause"] == "lost" for e in d["events"]) and
    "systemctl status rdmad" in d["next"]'

echo "* who asks for what there is not"
fails 'nothing is known of lease 4711' b why lease 4711
fails 'there is no why of "cow"' b why cow 1
fails 'is no number' b why lease x

echo "* who follows goes on with the daemon's next life, from its first event on"
start_daemon u
u() { "$rdmactl" -d "$work/u" "$@"; }
# happen FROM TO: an event each, of these weights.
happen() {
    local weight
    for ((weight = $1; weight <= $2; weight++)); do u limit set uid:12345 weight=$weight >/dev/null; done
}
followed() { grep -qF "calls limit.set uid:12345 weight=$1" "$work/followed.u"; }
# is_all: the end of what was followed is all that the daemon remembers, which is all that it ever told.
is_all() {
    u events >"$work/remembered"
    u -j events >"$work/events"
    has events 'd["life"] > 1 and d["events"][0]["number"] == 1'
    tail -n "$(wc -l <"$work/remembered")" "$work/followed.u" >"$work/tail"
    diff "$work/remembered" "$work/tail" >"$work/said" || fail "$1: events -f told other than there is: $(<"$work/said")"
}
"$rdmactl" -d "$work/u" events -f >"$work/followed.u" 2>"$work/followed.u.log" &
follower=$!
pids+=("$follower")
happen 11 40 # more than the next life will have had
eventually followed 40
u upgrade >/dev/null || fail "upgrade"
happen 41 41
eventually followed 41
is_all "fewer than before"
# One that looks late finds more of them than it has seen of the life before.
hang "$follower"
u upgrade >/dev/null || fail "upgrade again"
happen 42 70
kill -CONT "$follower"
eventually followed 70
is_all "more than before"
for ((weight = 11; weight <= 70; weight++)); do
    [ "$(grep -cF "calls limit.set uid:12345 weight=$weight" "$work/followed.u")" = 1 ] ||
        fail "not told once: weight=$weight: $(<"$work/followed.u")"
done
kill -TERM "$follower"
wait "$follower" || fail "events -f ended badly: $(<"$work/followed.u.log")"
# Whom a daemon hangs up on as it gives way asks once more, where the next one answers. Here: one that answers
# in the life of that number, and hangs up for 0.
mkdir "$work/way"
python3 - "$work/way/control.sock" 1 0 2 2 0 0 <<'PYTHON' &
import json, os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1] + ".new")
listener.listen()
os.rename(sys.argv[1] + ".new", sys.argv[1])
for life in map(int, sys.argv[2:]):
    there = listener.accept()[0].makefile("rw")
    after = json.loads(there.readline()).get("params", {}).get("after", 0)
    event = {"number": 1, "time": 0, "what": "daemon", "cause": "started", "text": f"life {life}"}
    if life:
        print(json.dumps({"id": 1, "result": {"life": life, "events": [event] * (after < 1)}}), file=there)
    there.close()
PYTHON
pids+=($!)
eventually test -S "$work/way/control.sock"
fails 'rdmad closed the connection' "$rdmactl" -d "$work/way" events -f
[ "$(sed -n 's/.*started: //p' "$work/said" | tr '\n' ';')" = "life 1;life 2;" ] || fail "not each once: $(<"$work/said")"

[ "$(id -u)" = 0 ] || {
    echo "skipped: only root can be another user"
    exit 0
}
echo "* each sees what is its own"
start_daemon a2
other2() { setpriv --reuid 12345 --regid 12345 --clear-groups "$rdmactl" -d "$work/a2" "$@"; }
"$rdmactl" -d "$work/a2" bench nop -n 10 >/dev/null
other2 bench nop -n 10 >/dev/null || fail "another user cannot use it"
eventually tells a2 session 'ended (uid 12345)'
other2 -j events >"$work/own"
has own 'd["events"] and all(e["uid"] == 12345 for e in d["events"])'
fails 'nothing is known of session 1' other2 why session 1
"$rdmactl" -d "$work/a2" -j events >"$work/all"
has all 'any(e["uid"] == 12345 for e in d["events"]) and any(e["uid"] == 0 for e in d["events"]) and
    any(e["uid"] is None for e in d["events"])'
