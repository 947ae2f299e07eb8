#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_wakeups.sh: two busy sides make no system call. A loop of small local writes, client and
# daemon both under strace: wake-ups and blocking calls together are under 1 % of the operations.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/daemons.sh"

count=$((100000 * ${RDMAD_TEST_SCALE:-1}))

start_daemon d strace -f -c -o "$work/daemon.strace"
daemon=${pids[0]}
RDMAD_RUNTIME_DIR=$work/d strace -f -c -o "$work/client.strace" \
    "$RDMAD_BUILD/tests/integration/writes_loop" "$count" >"$work/client.out" || fail "the loop"
# strace passes no signal on: its child is the daemon.
pkill -TERM -P "$daemon" rdmad
wait "$daemon" || fail "the daemon's exit code"
pids=()

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
