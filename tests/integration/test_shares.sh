#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Two users of real daemons: what a hostile one and its storms leave the other, weights and rates that are changed
# while both are at work. The exact proofs are unit_op_share's, on a scripted clock. A busy machine must not fail
# what is here, so nothing is a speed: two users with full rings are compared over one and the same window, and
# beside a storm the worker's own processor time is what counts.
set -euo pipefail
if [ "$(id -u)" != 0 ]; then
    echo "skipped: this needs root, to be two users"
    exit 77
fi
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"
chmod 755 "$work"
crowd=$RDMAD_BUILD/tests/integration/shares_crowd
storm=$RDMAD_BUILD/tests/integration/shares_storm
victim=12345 hostile=12346

# What waits in a full ring waits for long.
echo '{"op": {"default_timeout_ms": 600000}}' >"$work/patient.json"
for name in owner lessee; do
    # shellcheck disable=SC2016 # expands there
    start_daemon $name sh -c 'exec "$@" --config "$0"' "$work/patient.json"
done
chmod 755 "$work/owner" "$work/lessee"
"$rdmactl" -d "$work/owner" bench serve --ttl 3600s --span 2MiB >"$work/uri" &
pids+=($!)
uri=$(first_line "$work/uri" $!)

# crowd_of UID DIR SESSIONS RINGS DEPTH BYTES SECONDS
crowd_of() {
    setpriv --reuid "$1" --regid "$1" --clear-groups \
        "$crowd" "$work/$2" "$uri" "$3" "$4" "$5" "$6" 33554432 "$7"
}
# crowd_starts FILE ...: in the background, until it is killed; sets $started
crowd_starts() {
    local file=$1
    shift
    rm -f "$file" # or the first line of the one before would be found
    crowd_of "$@" >"$file" 2>"$file.log" &
    started=$!
    pids+=("$started")
    [ "$(first_line "$file" "$started")" = ready ] || fail "no crowd: $(<"$file.log")"
}
# storm_starts DIR KIND: as the hostile user, until storm_ends
storm_starts() {
    rm -f "$work/storm.$1.$2"
    setpriv --reuid $hostile --regid $hostile --clear-groups \
        "$storm" "$work/$1" "$uri" "$2" >"$work/storm.$1.$2" 2>"$work/storm.log" &
    started=$!
    pids+=("$started")
    [ "$(first_line "$work/storm.$1.$2" "$started")" = ready ] || fail "no storm: $(<"$work/storm.log")"
}
storm_ends() {
    kill "$started" || fail "the storm ended by itself: $(<"$work/storm.log")"
    wait "$started" 2>/dev/null || true
}
is_gone() { # DIR PID
    "$rdmactl" -d "$work/$1" -j session show >"$work/sessions" && ! grep -q "\"pid\": *$2\b" "$work/sessions"
}
ends() { # DIR PID: until its sessions have ended
    kill "$2" || fail "it ended by itself: $(tail -n 2 "$work"/*.log)"
    wait "$2" 2>/dev/null || true
    eventually is_gone "$1" "$2"
}
# So much to do, 8 GiB, that a user who has to wait for a processor does not run dry meanwhile, in ops that are moved in
# one piece: what was moved is told op by op.
many="64 1 1024 131072"
one="1 16 4096 131072"
# window DIR: what both users wrote in one window of two seconds, as that daemon counts it. Sets $victims and
# $hostiles (bytes), $lasted (us, from before the first look until after the last) and $worked (us that the
# workers of the daemon had a processor).
window() {
    read -r victims hostiles lasted worked < <(python3 - "$rdmactl" "$work/$1" $victim $hostile <<'PYTHON'
import glob, json, subprocess, sys, time
rdmactl, where, *uids = sys.argv[1:]
def ask(*verb):
    return json.loads(subprocess.run([rdmactl, "-d", where, "-j", *verb], check=True, stdout=subprocess.PIPE).stdout)
def look():
    rows = ask("session", "show")["sessions"]
    return [sum(row["bytes_written"] for row in rows if row["uid"] == int(uid)) for uid in uids]
def worked():
    tasks = glob.glob(f"/proc/{ask('status')['process']['pid']}/task/*")
    return sum(int(open(task + "/schedstat").read().split()[0])
               for task in tasks if open(task + "/comm").read().startswith("rdmad-worker"))
cpu, begin = worked(), time.monotonic()
before = look()
time.sleep(2)
after, end = look(), time.monotonic()
print(*(b - a for a, b in zip(before, after)), int((end - begin) * 1e6), (worked() - cpu) // 1000)
PYTHON
    ) || fail "the daemon $1 does not tell what was written"
}
# shares_are DIR N: in one window the victim has N parts for each of the hostile user's, within a tenth.
shares_are() {
    window "$1"
    echo "  $victims bytes beside $hostiles, of which $2 for each were due"
    if ((hostiles == 0 || victims * 10 < hostiles * $2 * 9 || victims * 10 > hostiles * $2 * 11)); then
        fail "$victims bytes beside $hostiles: not $2 for each of them"
    fi
}
# rate_holds DIR RATE: it is never exceeded by more than a tenth; that it is reached is the machine's matter.
rate_holds() {
    window "$1"
    echo "  $victims bytes in $lasted us of $2 a second"
    [ "$victims" -gt 0 ] || fail "nothing is let through"
    [ "$victims" -le $(($2 * 11 * lasted / 10000000)) ] ||
        fail "the rate of $2 bytes/s is not held: $victims bytes in $lasted us"
}
is_above() { # DIR RATE: a window has half as much again as that rate lets through
    window "$1"
    [ "$victims" -gt $(($2 * 3 * lasted / 2000000)) ]
}

for where in owner lessee; do
    echo "* $where: a rate holds, is told, and can be taken away"
    "$rdmactl" -d "$work/$where" limit set uid:$victim bytes_per_second=20000000
    crowd_starts "$work/victim" $victim $where 1 1 16 262144 0
    steady=$started
    sleep 1
    rate_holds $where 20000000
    "$rdmactl" -d "$work/$where" -j session show >"$work/sessions"
    grep -q '"bytes_per_second": *20000000' "$work/sessions" || fail "the rate is not shown"
    grep -q '"throttled_s": *[0-9.]*[1-9]' "$work/sessions" || fail "nothing is shown as throttled"
    "$rdmactl" -d "$work/$where" top -b -n 1 >"$work/top"
    grep -q THROTTLED "$work/top" || fail "top does not tell of it"
    "$rdmactl" -d "$work/$where" limit set uid:$victim bytes_per_second=100000000
    sleep 1
    rate_holds $where 100000000
    "$rdmactl" -d "$work/$where" limit set uid:$victim bytes_per_second=0
    eventually is_above $where 20000000
    ends $where "$steady"

    echo "* $where: a storm leaves another user its part of the worker's time"
    # shellcheck disable=SC2086 # words
    crowd_starts "$work/victim" $victim $where $one 0
    steady=$started
    sleep 1
    window $where
    alone=$((victims / (worked / 1000)))
    echo "  $alone bytes for each ms of a worker's time, alone"
    kinds=(doorbell cancel)
    [ "${RDMAD_TEST_SCALE:-1}" = 1 ] || kinds+=(attach session request)
    for kind in "${kinds[@]}"; do
        storm_starts "$where" "$kind"
        sleep 1
        window $where
        beside=$((victims / (worked / 1000)))
        echo "  $beside beside a storm of kind $kind"
        [ $((beside * 100)) -ge $((alone * 45)) ] ||
            fail "beside a storm of kind $kind only $beside of $alone bytes are moved in a ms of the worker's time"
        storm_ends
    done

    echo "* $where: a user with 64 sessions has no more than another one with one, and by weight, changed at work"
    # shellcheck disable=SC2086 # words
    crowd_starts "$work/hostile" $hostile $where 64 4 256 131072 0
    rival=$started
    sleep 1
    shares_are $where 1
    "$rdmactl" -d "$work/$where" limit set uid:$victim weight=300
    shares_are $where 3
    ends $where "$rival"
    ends $where "$steady"
    # shellcheck disable=SC2086 # words
    crowd_starts "$work/hostile" $hostile $where $one 0
    rival=$started
    # shellcheck disable=SC2086 # words
    crowd_starts "$work/victim" $victim $where $many 0
    steady=$started
    sleep 1
    shares_are $where 3
    ends $where "$rival"
    ends $where "$steady"
    "$rdmactl" -d "$work/$where" limit set uid:$victim weight=100
done
echo "all good"
