#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_wakeups.sh: two busy sides make no system call. A loop of small local writes, first the client
# and then the daemon under strace: wake-ups and blocking calls of both together are under 1 % of the
# operations. One side at a time, because a tracer needs a processor too: on two of them, two tracers
# and two spinning threads take turns, and what is counted then is the tracers' doing.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/daemons.sh"

count=$((100000 * ${RDMAD_TEST_SCALE:-1}))

loop=$RDMAD_BUILD/tests/integration/writes_loop
start_daemon plain
RDMAD_RUNTIME_DIR=$work/plain strace -f -c -o "$work/client.strace" "$loop" "$count" >"$work/client.out" ||
    fail "the loop"

start_daemon traced strace -f -c -o "$work/daemon.strace"
tracer=${pids[1]}
RDMAD_RUNTIME_DIR=$work/traced "$loop" "$count" >"$work/client.out" || fail "the loop"
# strace passes no signal on: its child is the daemon.
pkill -TERM -P "$tracer" rdmad
wait "$tracer" || fail "the daemon's exit code"
pids=("${pids[0]}")

# calls FILE NAME...: how often these were made. The columns of strace -c are time, seconds, usecs per
# call, calls, errors if any, name.
calls() {
    local file=$1
    shift
    awk -v names=" $* " '$4 ~ /^[0-9]+$/ && index(names, " " $NF " ") { n += $4 } END { print n + 0 }' "$file"
}
blocking=(sendto sendmsg write writev recvfrom recvmsg read readv poll ppoll select pselect6
    epoll_wait epoll_pwait epoll_pwait2 futex nanosleep clock_nanosleep restart_syscall)
total=0
for side in client daemon; do
    n=$(calls "$work/$side.strace" "${blocking[@]}")
    yields=$(calls "$work/$side.strace" sched_yield)
    echo "$side: $n wake-ups and blocking calls, $yields sched_yield, for $count writes"
    total=$((total + n))
done
if [ $((total * 100)) -ge "$count" ]; then
    cat "$work"/*.strace
    fail "$total wake-ups and blocking calls for $count writes: 1 % is the bound"
fi
