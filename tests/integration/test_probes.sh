#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The scripts of deploy/bpftrace beside daemons that move bytes: each op of a load, and its lease, is in
# what they print, in each of its stages, once. Nobody looks before and after.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

here=$RDMAD_SOURCE/tests/integration
load=$RDMAD_BUILD/tests/integration/steady_load
fabric=${RDMAD_TEST_FABRIC:-tcp}
skip() {
    echo "skipped: $*"
    exit 77
}
command -v bpftrace >/dev/null || skip "there is no bpftrace; ./check has it from the package bpftrace"
[[ $(readelf -nW "$rdmad") == *"Provider: rdmad"* ]] || skip "rdmad was built without probes"

scripts=$work/scripts
mkdir "$scripts"
for script in "$RDMAD_SOURCE"/deploy/bpftrace/*.bt; do
    sed "s|@RDMAD_PROGRAM@|$rdmad|" "$script" >"$scripts/${script##*/}"
done

[ "$(id -u)" = 0 ] || skip "only root may look"
ulimit -l unlimited 2>/dev/null || true
for script in "$scripts"/*.bt; do
    bpftrace -d "$script" 1 >"$work/said" 2>&1 || fail "${script##*/}: $(grep -v '^open' "$work/said" | tail -n 3)"
done
[ -e /sys/bus/event_source/devices/uprobe/type ] || skip "this kernel has no uprobes"
bpftrace -e 'BEGIN { exit(); }' >"$work/said" 2>&1 || skip "this kernel runs nothing for bpftrace: $(tail -n 1 "$work/said")"

start_daemon a
start_daemon b
a=${pids[0]} b=${pids[1]}
probes_of() { sed -nE 's/^usdt:.*:rdmad:(\w+)$/\1/p' "$scripts/$1.bt"; }
watched() { # PID yes|no [PROBE...]
    "$here/watched.py" "$1" "$rdmad" "${@:2}" >"$work/said" 2>&1 || fail "$(cat "$work/said")"
}

# look NAME PID [ARGUMENT...]: what it prints is in NAME.out when unlook has ended it.
declare -A looking
look() {
    BPFTRACE_MAX_PROBES=512 bpftrace -B line -p "$2" "$scripts/$1.bt" "${@:3}" >"$work/$1.out" 2>"$work/$1.err" &
    looking[$1]=$!
    pids+=($!)
    local names
    mapfile -t names < <(probes_of "$1")
    watched "$2" yes "${names[@]}"
}
unlook() {
    kill -INT "${looking[$1]}"
    wait "${looking[$1]}" || fail "$1: $(cat "$work/$1.err")"
}

# rounds OWNER LESSEE: some of a WRITE and a READ each; sets n to how many.
rounds() {
    n=$(sleep "${RDMAD_TEST_PATIENCE:-0.3}" | "$load" "$work/$1" "$work/$2" | sed -nE 's/^([0-9]+) rounds\b.*/\1/p')
    [ "${n:-0}" -gt 0 ] || fail "no load"
}

# value SCRIPT 'KEY': what a map has there; sum SCRIPT 'KEY': how many a histogram has.
value() { awk -v key="$2: " 'index($0, key) == 1 { print substr($0, length(key) + 1) }' "$work/$1.out"; }
sum() {
    awk -v key="$2: " '/^@/ { on = index($0, key) == 1 } on && /\|/ { split($0, part, /[])] +/); n += part[2] } END { print n + 0 }' \
        "$work/$1.out"
}
equal() { # WHAT GOT WANTED
    [ "$2" = "$3" ] || { cat "$work"/*.out; fail "$1: $2, not $3"; }
}

echo "* nobody looks"
watched "$a" no
watched "$b" no
echo "  $(cat "$work/said") places, each a nop"

echo "* ops by their stages"
look op_stages "$b"
rounds a b
far=$n
rounds b b
near=$n
unlook op_stages
for stage in taken admitted posted part_done ended told; do
    equal "ops $stage" "$(value op_stages "@count[$stage]")" $((2 * far + 2 * near))
done
for opcode in 1 2; do
    equal "opcode $opcode to a peer" "$(sum op_stages "@op_us[$opcode, $fabric]")" "$far"
    equal "opcode $opcode here" "$(sum op_stages "@op_us[$opcode, local]")" "$near"
done
for stage in wait fabric settle; do
    equal "$stage, to a peer" "$(sum op_stages "@${stage}_us[$fabric]")" $((2 * far))
    equal "$stage, here" "$(sum op_stages "@${stage}_us[local]")" $((2 * near))
done
equal "ops that were admitted" "$(sum op_stages @admit_us)" $((2 * far + 2 * near))
published=$(sum op_stages @publish_us)
if [ "$published" -lt 1 ] || [ "$published" -gt $((2 * far + 2 * near)) ]; then fail "published $published times"; fi
echo "  $far rounds to a peer and $near here: each op in each stage, once"

echo "* the life of a lease"
look lease_life "$a"
rounds a b
eventually grep -q "has ended" "$work/lease_life.out" # what is told just before unlook may get lost
unlook lease_life
lease=$(sed -nE 's/^lease ([0-9]+) granted by session [1-9][0-9]* of uid [0-9]+: 65536 bytes for 3600000 ms$/\1/p' "$work/lease_life.out")
[ -n "$lease" ] || { cat "$work/lease_life.out"; fail "no lease was granted"; }
bytes=$((4096 * n)) accesses=$((2 * n))
# Over verbs the device does it, and nobody counts.
[ "$fabric" = tcp ] || bytes=0 accesses=
# Both sessions end with their process: the lessee's may be told of first, and be off the lease when that ends.
for line in "lease $lease attached by session 0, peer [1-9][0-9]*; attached 1 times now" \
    "lease $lease begins to end: -[1-9][0-9]*; [01] attached" \
    "lease $lease is taken out of reach of a lessee of peer [1-9][0-9]*: -[1-9][0-9]*" \
    "lease $lease has ended: -[1-9][0-9]*; 1 lessees read $bytes bytes and wrote $bytes"; do
    grep -qx "$line" "$work/lease_life.out" || { cat "$work/lease_life.out"; fail "no line: $line"; }
done
equal accesses "$(value lease_life "@accesses[$lease]")" "$accesses"
equal "times to stop" "$(sum lease_life @stop_us)" 1

echo "* slow ops"
look slow_ops "$b" 1
rounds a b
unlook slow_ops
grep -qE "^[0-9]+ +$fabric +[0-9]+ +[12] +4096 +[0-9]+ +[0-9]+ +0 +[0-9]+ +0$" "$work/slow_ops.out" ||
    { head -n 5 "$work/slow_ops.out"; fail "no op took a microsecond"; }

echo "* nobody looks again"
watched "$a" no
watched "$b" no
rounds a b
