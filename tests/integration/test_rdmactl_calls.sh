#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# rdmactl against two real daemons, what no fabric has a part in: filters, watching, the log's level; how
# share and fetch end: that no lease outlives its ttl, and no half-written file is left.
# shellcheck source=tests/integration/two_daemons.sh
. "$(dirname "$0")/two_daemons.sh"

: >"$work/empty"
head -c 5000001 /dev/urandom >"$work/file"

echo "* filters, watching, and the log"
"$rdmactl" -d "$work/a" bench serve --ttl 100s >"$work/uri" 2>/dev/null &
serve=$!
pids+=("$serve")
first_line "$work/uri" "$serve" >/dev/null
has "len(d['sessions']) == 1" "$(a -j session show --where uid="$(id -u)")"
has "d['sessions'] == []" "$(a -j session show --where uid=4711)"
has "len(d['leases']) == 2" "$(a -j lease show --where state=live)"
has "d['leases'] == []" "$(a -j lease show --where name=none)"
for key in bytes ops p99 memory queue; do code 0 a top -b -n 1 -i 100ms -s "$key"; done
grep -qE '^ *ID .* P50 +P99 +QUEUE +SHARE' "$work/said" || fail "top: $(cat "$work/said")"
code 2 a top -s cow
code 0 a top -b -n 1 -i 100ms --users
grep -qE '^ *UID .* QUEUE +SHARE +WEIGHT ' "$work/said" || fail "top of users: $(cat "$work/said")"
grep -qE "^ *$(id -u) +1 " "$work/said" || fail "top of users: $(cat "$work/said")"
code 2 a session show --where uid
code 2 a session show --where foo=1
grep -q 'there is no key foo; there are id, ' "$work/said" || fail "a key that is not: $(cat "$work/said")"
code 2 a lease show -w NAME=big
grep -q 'no key NAME; there are .*\bname\b' "$work/said" || fail "a key that is not: $(cat "$work/said")"
code 2 a limit show --where foo=1
code 0 a session show --where lat_us.p50=0
code 0 a session show --where tenant=blue
code 0 a channel show --where foo=1 # of no rows there is nothing to tell it by
code 2 a -j session show --watch 1s
for key in 'who=uid:4711' 'key=cow'; do has "d['limits'] == []" "$(a -j limit show --where "$key")"; done
has "len(d['limits']) == 1 and d['limits'][0]['value'] == 1024" \
    "$(a -j limit show "uid:$(id -u)" --where key=leases_per_session)"
code 2 a limit show --where uid
code 2 a -j device show --watch 1s
shown_twice() { [ "$(grep -c "$1" "$work/watched")" -ge 2 ]; }
for shows in 'lease ATTACHED' 'device ^fabric.in.use' 'limit ^WHO'; do
    "$rdmactl" -d "$work/a" "${shows% *}" show --watch 100ms >"$work/watched" &
    watch=$!
    pids+=("$watch")
    eventually shown_twice "${shows#* }"
    kill -TERM "$watch"
    wait "$watch" || fail "${shows% *} show --watch ended badly"
done
kill -TERM "$serve"
wait "$serve" || true
code 1 a log loud
! grep -q ' debug: ' "$work/a.log" || fail "the log said more before it was asked to"
code 0 a log debug
a session show >/dev/null
code 0 a bench nop -n 10
eventually grep -q ' debug: ' "$work/a.log"
code 0 a log info

echo "* what others are called is not obeyed by a terminal"
mkdir "$work/false"
python3 -c 'import json, socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print("here", flush=True)
while True:
    c = s.accept()[0]
    c.makefile().readline()
    c.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"node": "a\x9b2J\x1b\x7f \u20ac"}}).encode() + b"\n")
    c.close()' "$work/false/control.sock" >"$work/false.line" &
pids+=($!)
first_line "$work/false.line" $! >/dev/null
code 0 "$rdmactl" -d "$work/false" status
grep -qF 'on a?2J?? €, ' "$work/said" || fail "a terminal obeys a name: $(od -c "$work/said")"
code 0 "$rdmactl" -d "$work/false" -j status
LC_ALL=C grep -q $'[\x1b\x7f\x9b]' "$work/said" && fail "a terminal obeys a document: $(od -c "$work/said")"
has 'd["node"] == "a\x9b2J\x1b\x7f \u20ac"' "$(cat "$work/said")"

echo "* an empty file"
share "$work/empty" --once
has 'd["bytes"] == 0' "$(b -j fetch "$uri" -o "$work/out")"
[ "$(stat -c %s "$work/out")" = 0 ] || fail "the empty file is not empty"
ended 0

echo "* a URI that cannot be written is not held on to"
for json in "" -j; do
    for what in "share $work/file" "bench serve"; do
        got=0
        # shellcheck disable=SC2086 # words
        timeout $((10 * ${RDMAD_TEST_PATIENCE:-1})) "$rdmactl" -d "$work/a" $json $what >/dev/full 2>"$work/said" || got=$?
        [ "$got" = 1 ] || fail "$what ended with $got"
        grep -q "writing to standard output failed" "$work/said" || fail "$what: $(<"$work/said")"
    done
done

echo "* what goes on ends when nobody takes what it prints"
for what in "events -f" "top -b -i 100ms" "lease show --watch 100ms"; do
    got=0
    # shellcheck disable=SC2086 # words
    timeout $((10 * ${RDMAD_TEST_PATIENCE:-1})) "$rdmactl" -d "$work/a" $what >/dev/full 2>"$work/said" || got=$?
    [ "$got" = 1 ] || fail "$what ended with $got"
    [ "$(<"$work/said")" = "rdmactl: writing to standard output failed" ] || fail "$what: $(<"$work/said")"
done

echo "* a standard descriptor that is closed is no socket of ours"
share "$work/file"
for what in "fetch $uri" "bench nop -n 10" "status"; do
    got=0
    # shellcheck disable=SC2086 # words
    timeout $((20 * ${RDMAD_TEST_PATIENCE:-1})) "$rdmactl" -d "$work/b" $what >&- 2>"$work/said" || got=$?
    [ "$got" = 1 ] || fail "$what without standard output ended with $got: $(<"$work/said")"
    # shellcheck disable=SC2086 # words
    "$rdmactl" -d "$work/b" $what >/dev/null <&- 2>&- || fail "$what without the two others ended with $?"
done
code 0 a log info <&-
code 1 b share - <&-
for name in a b; do # what is printed goes into none
    has 'not [e for e in d["events"] if e["cause"] == "protocol"]' "$("$rdmactl" -d "$work/$name" -j events)"
done
kill -TERM "$sharer"
ended 0

echo "* what the daemon cannot be told, being no UTF-8, is refused and not left out"
no_text=$'a\xff'
for what in "limit show $no_text" "limit set $no_text weight=1" "limit set uid:1 $no_text=1" "metrics -f $no_text" \
    "policy show 0 --socket $no_text" "trace --for 10ms --op $no_text" "trace --for 10ms --peer=$no_text" \
    "session pause 1 --why $no_text" "session kick 1 -w$no_text" "log $no_text" "why $no_text 1" "peer add $no_text" \
    "events --of $no_text" "cluster show --identity $no_text" "session show --where $no_text=1"; do
    # shellcheck disable=SC2086 # words
    code 2 a $what
    grep -q 'a? *" is not UTF-8\|a?=1" is not UTF-8' "$work/said" || fail "$what: $(<"$work/said")"
done
cp "$work/file" "$work/$no_text" # a file may be called so
share "$work/$no_text"
code 0 b fetch "$uri" -o "$work/out $no_text"
cmp "$work/file" "$work/out $no_text" || fail "other bytes"
kill -TERM "$sharer"
ended 0

echo "* -j is no option's value, and no name is empty"
for what in "session kick 1 --why -j" "fetch $uri -o --json" "-d -j status"; do
    # shellcheck disable=SC2086 # words
    code 2 a $what
    has '"needs a value" in d["error"]["text"]' "$(<"$work/said")"
done
code 2 a share "$work/file" --name ""

echo "* with -j there is a document, too, when it is interrupted before there is anything to tell"
mkfifo "$work/endless"
for what in "share -" "top -i 1h"; do
    # shellcheck disable=SC2086 # words
    "$rdmactl" -d "$work/a" -j $what <>"$work/endless" >"$work/document" 2>"$work/said" &
    pids+=($!)
    eventually catches $!
    kill -INT $!
    got=0
    wait $! || got=$?
    [ "$got" = 1 ] || fail "$what ended with $got: $(<"$work/said")"
    has 'd["error"]["code"] == "RDMAD_E_CANCELED" and d["error"]["text"].startswith("interrupted ")' "$(<"$work/document")"
done

echo "* once, expiry, revocation"
share "$work/file" --once
b -j fetch "$uri" -o "$work/out" >/dev/null
ended 0
share "$work/file" --ttl 300ms
ended 0
code 1 b fetch "$uri" -o "$work/none"
grep -q 'expired' "$work/said" || fail "not told that it expired: $(cat "$work/said")"
share "$work/file"
id=${uri#*/lease/}
id=${id%%\?*}
code 0 a lease revoke "$id"
ended 1
code 1 a lease revoke "$id"
has 'd["leases"][-1]["reason"] == "RDMAD_E_LEASE_ADMIN"' "$(a -j lease show --all)"
code 1 a share "$work/file" --name 'not a name'
code 1 a share "$work/a/control.sock"

echo "* an interrupted or failed fetch leaves no file but its part, and with --no-resume nothing"
truncate -s 200M "$work/large"
share "$work/large"
mkdir "$work/here"
for signal in INT TERM KILL; do
    "$rdmactl" -d "$work/b" fetch --no-resume "$uri" -o "$work/here/file" >/dev/null 2>&1 &
    sleep 0.1
    kill "-$signal" $! 2>/dev/null || true
    wait $! 2>/dev/null || true
    [ -z "$(ls -A "$work/here")" ] || [ "$(stat -c %s "$work/here/file")" = 209715200 ] ||
        fail "SIG$signal leaves $(ls -A "$work/here")"
    rm -f "$work/here/file"
done
echo keep >"$work/here/file"
"$rdmactl" -d "$work/b" fetch "$uri" -o "$work/here/file" >/dev/null 2>&1 &
fetcher=$!
id=${uri#*/lease/}
sleep 0.05
code 0 a lease revoke "${id%%\?*}"
if ! wait "$fetcher"; then
    [ "$(cat "$work/here/file")" = keep ] || fail "a failed fetch replaced the file"
fi
rm -f "$work"/here/file.????????????????.part
[ "$(ls -A "$work/here")" = file ] || fail "a failed fetch leaves $(ls -A "$work/here")"
ended 1

nothing_is_left
