#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A daemon that is there and does not answer: each command of rdmactl says so after the time that it
# is given, with what the daemon's process looks like and what to do about it, and ends with 1. Those
# that hold something wait twice that for the next daemon when theirs is gone.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

start_daemon a
daemon=${pids[0]}
a() { "$rdmactl" -d "$work/a" "$@"; }
truncate -s 64M "$work/file"
share() {
    rm -f "$work/uri"
    a share "$work/file" >"$work/uri" 2>/dev/null &
    pids+=($!)
    uri=$(first_line "$work/uri" $!)
}
share
trap 'code=$?; set +e; kill -CONT "$daemon" 2>/dev/null; (exit "$code"); stop_all' EXIT

# hung SECONDS COMMAND...: it fails by itself, about then, and says why. Ten times the promise, at most.
hung() {
    local seconds=$1 got=0 began=$SECONDS
    shift
    timeout "$((10 * seconds * ${RDMAD_TEST_PATIENCE:-1}))" "$rdmactl" -d "$work/a" "$@" \
        >"$work/said" 2>&1 || got=$?
    [ "$got" = 1 ] || fail "exit $got instead of 1 after $((SECONDS - began)) s: $* ($(<"$work/said"))"
    grep -q 'does not answer' "$work/said" || fail "$*: $(<"$work/said")"
    grep -q "process $daemon is stopped" "$work/said" || fail "$* hides what it waits for: $(<"$work/said")"
    grep -q "kill -CONT $daemon" "$work/said" || fail "$* does not say what to do: $(<"$work/said")"
}

hang "$daemon"
changes=()
for command in reload "limit set uid:1 weight=5"; do
    # shellcheck disable=SC2086 # words
    a $command >"$work/said.${#changes[@]}" 2>&1 &
    changes+=($!)
done
echo "* the time is the user's"
for command in status "session show" "lease revoke 1" "peer add 127.0.0.1:1" metrics "config show" \
    "device show" "share $work/file" "fetch $uri -o $work/none" "bench nop -n 1" "bench serve" "top -b -n 1"; do
    # shellcheck disable=SC2086 # words
    hung 1 --timeout 300ms $command
    grep -q 'waited 300 ms' "$work/said" || fail "$command: $(<"$work/said")"
done
hung 1 status --timeout=1
hung 1 doctor --timeout 200ms
[ ! -e "$work/none" ] || fail "a file appeared"

echo "* -j says it in JSON"
hung 1 -j --timeout 200ms status
python3 -c 'import json, sys; assert json.load(sys.stdin)["error"]["code"] == "RDMAD_E_TIMEOUT"' \
    <"$work/said" || fail "$(<"$work/said")"
hung 1 -j --timeout 200ms share "$work/file"
python3 -c 'import json, sys; assert json.load(sys.stdin)["error"]["code"] == "RDMAD_E_TIMEOUT"' \
    <"$work/said" || fail "$(<"$work/said")"

echo "* a look has a time of its own, and what changes something more: it is not done after it is said to have failed"
hung 5 status

echo "* in the middle of a fetch, too"
kill -CONT "$daemon"
for n in 0 1; do wait "${changes[n]}" || fail "what changes something has failed: $(<"$work/said.$n")"; done
share # what was asked meanwhile was done now: the first lease is revoked
mkfifo "$work/slow"
exec 5<>"$work/slow"
# A busy machine must not make the daemon look as if it hung before it does.
"$rdmactl" -d "$work/a" --timeout 3s fetch "$uri" -o "$work/slow" 2>"$work/said" &
fetcher=$!
head -c 1000000 <&5 >/dev/null
hang "$daemon"
cat <&5 >/dev/null &
pids+=($!)
got=0
wait "$fetcher" || got=$?
[ "$got" = 1 ] || fail "fetch ended with $got: $(<"$work/said")"
grep -q "does not answer.*process $daemon is stopped" "$work/said" || fail "fetch: $(<"$work/said")"

echo "* what was fetched is good, though the lease is not taken back; of what is shared still, nobody says that it is not"
kill -CONT "$daemon"
head -c 200000 /dev/zero >"$work/piece"
"$rdmactl" -d "$work/a" -j --timeout 3s share "$work/piece" >"$work/out.share" 2>"$work/why.share" &
sharer=$!
pids+=("$sharer")
uri=$(first_line "$work/out.share" "$sharer" | python3 -c 'import json, sys; print(json.load(sys.stdin)["uri"])')
mkfifo "$work/piecemeal"
exec 6<>"$work/piecemeal"
"$rdmactl" -d "$work/a" -j --timeout 3s fetch "$uri" -o "$work/piecemeal" >"$work/out.fetch" 2>"$work/why.fetch" &
fetcher=$!
head -c 1000 <&6 >/dev/null # it has it all, for it is one piece
hang "$daemon"
cat <&6 >/dev/null &
pids+=($!)
kill -INT "$sharer"
for process in "fetch $fetcher 0" "share $sharer 1"; do
    read -r name process want <<<"$process"
    got=0
    wait "$process" || got=$?
    [ "$got" = "$want" ] || fail "$name ended with $got instead of $want: $(<"$work/out.$name") $(<"$work/why.$name")"
    [ "$(wc -l <"$work/out.$name")" = 1 ] || fail "$name says more than one document: $(<"$work/out.$name")"
    grep -q 'does not answer: waited 3.0 s for it to take the lease back' "$work/why.$name" || fail "$name: $(<"$work/why.$name")"
done

kill -CONT "$daemon"
echo "* and then it answers again"
a status >"$work/said" || fail "$(<"$work/said")"

echo "* a daemon that is gone, and does not come back"
ends=()
for command in "share $work/file" "bench serve"; do
    # shellcheck disable=SC2086 # words
    "$rdmactl" -d "$work/a" --timeout 3s $command >"$work/out.${#ends[@]}" 2>"$work/why.${#ends[@]}" &
    ends+=($!)
done
for n in 0 1; do first_line "$work/out.$n" "${ends[n]}" >/dev/null; done
kill -KILL "$daemon"
for n in 0 1; do
    got=0
    wait "${ends[n]}" || got=$?
    [ "$got" = 1 ] || fail "number $n ended with $got: $(<"$work/why.$n")"
    grep -q "none has come at $work/a/rdmad.sock in 6000 ms" "$work/why.$n" || fail "number $n: $(<"$work/why.$n")"
done
