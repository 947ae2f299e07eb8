#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Two users of real daemons: what a hostile one and its storms leave the other, weights and rates that are changed
# while both are at work. The exact proofs are unit_op_share's, on a scripted clock; here the bounds are
# wide, for a busy machine must not fail them.
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

start_daemon owner
start_daemon lessee
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
number() { # KEY FILE
    sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" "$2"
}
speed() { # UID DIR: bytes a second of one session
    crowd_of "$1" "$2" 1 1 16 262144 1 >"$work/speed" 2>"$work/speed.log" || fail "$(<"$work/speed.log")"
    number bytes_per_s "$work/speed"
}

for where in owner lessee; do
    echo "* $where: a user with 64 sessions leaves another one its part"
    alone=$(speed $victim $where)
    crowd_starts "$work/hostile.$where" $hostile $where 64 4 64 1048576 0
    beside=$(speed $victim $where)
    echo "  $alone bytes/s alone, $beside beside it"
    [ $((beside * 22)) -ge "$alone" ] || fail "beside a hostile user only $beside of $alone bytes/s are left"
    kill "$started"
    wait "$started" 2>/dev/null || true

    kinds=(doorbell cancel)
    [ "${RDMAD_TEST_SCALE:-1}" = 1 ] || kinds+=(attach session request)
    for kind in "${kinds[@]}"; do
        echo "* $where: a storm of kind $kind leaves another user its part"
        storm_starts "$where" "$kind"
        beside=$(speed $victim "$where")
        echo "  $beside bytes/s beside it"
        [ $((beside * 22)) -ge "$alone" ] || fail "beside a storm of kind $kind only $beside of $alone bytes/s are left"
        storm_ends
    done

    echo "* $where: by weight, changed while both are at work"
    crowd_starts "$work/rival.$where" $hostile $where 64 4 64 1048576 0
    "$rdmactl" -d "$work/$where" limit set uid:$victim weight=10
    light=$(speed $victim $where)
    "$rdmactl" -d "$work/$where" limit set uid:$victim weight=1000
    heavy=$(speed $victim $where)
    echo "  $light bytes/s with weight 10, $heavy with weight 1000"
    [ "$heavy" -ge $((light * 2)) ] || fail "weights have no effect: $light and $heavy bytes/s"
    kill "$started"
    wait "$started" 2>/dev/null || true

    echo "* $where: a rate holds, is told, and can be taken away"
    "$rdmactl" -d "$work/$where" limit set uid:$victim weight=100 bytes_per_second=20000000
    limited=$(speed $victim $where)
    echo "  $limited bytes/s of 20000000"
    [ "$limited" -le 40000000 ] || fail "the rate of 20000000 bytes/s is not held: $limited"
    [ "$limited" -ge 2000000 ] || fail "much less than the rate is let through: $limited"
    crowd_starts "$work/shown.$where" $victim $where 1 1 16 262144 0
    sleep 1
    "$rdmactl" -d "$work/$where" -j session show >"$work/sessions"
    grep -q '"bytes_per_second": *20000000' "$work/sessions" || fail "the rate is not shown"
    grep -q '"throttled_s": *[0-9.]*[1-9]' "$work/sessions" || fail "nothing is shown as throttled"
    "$rdmactl" -d "$work/$where" top -b -n 1 >"$work/top"
    grep -q THROTTLED "$work/top" || fail "top does not tell of it"
    kill "$started"
    wait "$started" 2>/dev/null || true
    "$rdmactl" -d "$work/$where" limit set uid:$victim bytes_per_second=0
    free=$(speed $victim $where)
    [ "$free" -ge 60000000 ] || fail "without a rate only $free bytes/s"
done
echo "all good"
