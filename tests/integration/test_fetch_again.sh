#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A fetch whose own daemon, or that of the lease's owner, is replaced goes on by itself, within a bounded
# time, and ends with the right bytes; one that would get other contents ends with a sentence.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"
# shellcheck source=tests/integration/sharing.sh
. "$(dirname "$0")/sharing.sh"

declare -A port_of daemon_of
for name in a b; do
    keep_port
    port_of[$name]=$port
    mv "$work/port" "$work/port.$name"
done
start() { # NAME
    mkdir -p "$work/$1"
    "$rdmad" --runtime-dir "$work/$1" --listen "127.0.0.1:${port_of[$1]}" 2>>"$work/$1.log" &
    pids+=($!)
    daemon_of[$1]=$!
    await_daemon "$1" $!
}
rate() { ctl b limit set "uid:$(id -u)" "bytes_per_second=$1" >/dev/null; }
end() { # NAME: at once
    kill -KILL "${daemon_of[$1]}"
    wait "${daemon_of[$1]}" 2>/dev/null || true
}
# begin OPTIONS...: a fetch to $work/out, of which a piece has come when this returns, and which is not over for long;
# sets $fetcher.
begin() {
    rm -rf "$work/out"*
    rate "${begin_rate:-3000000}"
    "$rdmactl" -d "$work/b" "$@" fetch "$uri" -o "$work/out" >"$work/said" 2>&1 &
    fetcher=$!
    pids+=("$fetcher")
    eventually some_has_come
}
some_has_come() { [ "$(du -sk "$work"/out*.part 2>/dev/null | cut -f1)" -ge 1024 ]; } 2>/dev/null
is_good() {
    rate 0
    wait "$fetcher" || fail "the fetch ended with $?: $(<"$work/said")"
    cmp "$work/file" "$work/out" || fail "other bytes"
}
all_has_come() {
    ctl b -j session show | python3 -c 'import json, sys
s = json.load(sys.stdin)["sessions"][0]
sys.exit(s["ops_inflight"] + s["ops_in_rings"])'
}
# It waits for the next daemon twice as long as for an answer, and says so.
expect_over() {
    if wait "$fetcher"; then fail "a fetch without a daemon"; fi
    grep -q 'trying again for 6.0 s' "$work/said" || fail "it did not say that it waits: $(<"$work/said")"
    grep -qE '(none has come at .* in 6000 ms|no rdmad listens .*) \(tried again for [0-9.]+ s\)' "$work/said" || fail "$(<"$work/said")"
    [ "$(grep -c 'trying again' "$work/said")" = 1 ] || fail "it says it more than once: $(<"$work/said")"
}

start a
start b
head -c 30000000 /dev/urandom >"$work/file"

echo "* the fetch's own daemon is killed, and is back"
share "$work/file"
begin
end b
eventually grep -q 'trying again for 30' "$work/said"
start b
is_good

echo "* the owner's daemon is killed, and is back, of a lease by its key"
begin
end a
start a
is_good
unshare_it

echo "* and of one by its name, which is another lease afterwards"
share "$work/file" --name again
begin
end a
start a
is_good

echo "* both"
begin
end a
end b
start a
start b
is_good

echo "* of other contents under that name the fetch says so"
begin
end a # before the program, or the daemon would say that the owner has gone
kill -KILL "$sharer"
start a
head -c 30000000 /dev/urandom >"$work/other"
share "$work/other" --name again
if wait "$fetcher"; then fail "a file of two halves"; fi
grep -q 'what is shared as .*/again now is not what this fetch began with' "$work/said" || fail "$(<"$work/said")"
grep -q 'with a new URI of the same contents, fetch -o ' "$work/said" || fail "$(<"$work/said")"
[ ! -e "$work/out" ] || fail "a file of two halves is there"
unshare_it

echo "* it ends when told to, and when its time is over"
share "$work/file"
begin
end b
eventually grep -q 'trying again' "$work/said"
kill -INT "$fetcher"
began=$SECONDS
if wait "$fetcher"; then fail "it was over before it was interrupted"; fi
grep -q 'interrupted after [0-9]* of 30000000 bytes' "$work/said" || fail "$(<"$work/said")"
[ $((SECONDS - began)) -lt $((10 * ${RDMAD_TEST_PATIENCE:-1})) ] || fail "it was interrupted and went on for $((SECONDS - began)) s"
start b
unshare_it
truncate -s 300M "$work/long"
share "$work/long"
# Until what it may post at once has come it waits 0.4 s at this rate, and longer beside others: it may not give up over
# that.
begin_rate=20000000 begin --timeout 3
end b
began=$SECONDS
expect_over
grep -q 'kept in .*part' "$work/said" || fail "$(<"$work/said")"
[ $((SECONDS - began)) -lt $((30 * ${RDMAD_TEST_PATIENCE:-1})) ] || fail "it tried for $((SECONDS - began)) s"
start b

echo "* and so it does when it asks for nothing before its daemon has gone"
mkfifo "$work/slow"
exec 5<>"$work/slow"
"$rdmactl" -d "$work/b" --timeout 3 fetch "$uri" -o "$work/slow" 2>"$work/said" &
fetcher=$!
head -c 100000 <&5 >/dev/null
eventually all_has_come
end b
sleep 0.5 # and it has noticed
cat <&5 >/dev/null &
pids+=($!)
expect_over
start b

echo "* a session that is kicked stays so"
begin
session=$(ctl b -j session show | python3 -c 'import json, sys
print(next(s["id"] for s in json.load(sys.stdin)["sessions"] if s["pid"] == int(sys.argv[1])))' "$fetcher")
ctl b session kick "$session" --why 'not tonight' >/dev/null
if wait "$fetcher"; then fail "a fetch by a session that was ended"; fi
if grep -q 'trying again' "$work/said"; then fail "$(<"$work/said")"; fi
unshare_it
