#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_wakeups.sh: two busy sides make no system call. A loop of small local writes, first the client
# and then the daemon under strace: wake-ups and blocking calls of both together are under 1 % of the
# operations. One side at a time, because a tracer needs a processor too: on two of them, two tracers
# and two spinning threads take turns, and what is counted then is the tracers' doing. And where
# somebody else wants the processors both sides sleep rather than spin (common/crowd.h), so nothing
# runs beside this, and one run in which nobody came is enough. Other virtual machines of the same
# host come often, and are not seen; so there are as many tries as fit into a minute and a half.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/daemons.sh"

count=$((100000 * ${RDMAD_TEST_SCALE:-1}))

loop=$RDMAD_BUILD/tests/integration/writes_loop

# calls FILE NAME...: how often these were made. The columns of strace -c are time, seconds, usecs per
# call, calls, errors if any, name.
calls() {
    local file=$1
    shift
    awk -v names=" $* " '$4 ~ /^[0-9]+$/ && index(names, " " $NF " ") { n += $4 } END { print n + 0 }' "$file"
}
blocking=(sendto sendmsg write writev recvfrom recvmsg read readv poll ppoll select pselect6
    epoll_wait epoll_pwait epoll_pwait2 futex nanosleep clock_nanosleep restart_syscall)

# once N: leaves in total what both sides called.
once() {
    local n yields side tracer
    rm -f "$work"/*.strace
    start_daemon "plain$1"
    RDMAD_RUNTIME_DIR=$work/plain$1 strace -f -c -o "$work/client.strace" "$loop" "$count" \
        >"$work/client.out" || fail "the loop"
    start_daemon "traced$1" strace -f -c -o "$work/daemon.strace"
    tracer=${pids[-1]}
    RDMAD_RUNTIME_DIR=$work/traced$1 "$loop" "$count" >"$work/client.out" || fail "the loop"
    # strace passes no signal on: its child is the daemon.
    pkill -TERM -P "$tracer" rdmad
    wait "$tracer" || fail "the daemon's exit code"
    unset 'pids[-1]'
    total=0
    for side in client daemon; do
        n=$(calls "$work/$side.strace" "${blocking[@]}")
        yields=$(calls "$work/$side.strace" sched_yield)
        echo "$side: $n wake-ups and blocking calls, $yields sched_yield, for $count writes"
        total=$((total + n))
    done
}

# Whether programs that are not ours are running: of 40 looks, in most.
busy_elsewhere() {
    local look running busy=0
    for ((look = 0; look < 40; look++)); do
        read -r _ _ _ running _ </proc/loadavg
        [ "${running%/*}" -le 1 ] || busy=$((busy + 1))
        sleep 0.05
    done
    [ "$busy" -gt 20 ]
}

for ((try = 1; SECONDS < 90; try++)); do
    once "$try"
    [ $((total * 100)) -ge "$count" ] || exit 0
done
if busy_elsewhere; then
    echo "skipped: other programs want this machine's processors"
    exit 77
fi
cat "$work"/*.strace
fail "$total wake-ups and blocking calls for $count writes, and no fewer than 1 % in $((try - 1)) tries"
