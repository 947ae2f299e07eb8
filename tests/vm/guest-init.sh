# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154
#
# guest-init.sh: process 1 of the guest. Sourced by /run/vm/init, which run wrote: it sets command,
# directory, timeout, scripts (this directory), network and the environment.
#
# The command's standard output and error are pipes, each copied to a port to the host. Its exit status
# goes into /run/vm/status as the last thing before the guest turns itself off.

port() { # NAME: the device of a virtio port
    local name
    name=$(grep -lx "$1" /sys/class/virtio-ports/*/name)
    name=${name%/name}
    echo "/dev/${name##*/}"
}

say() {
    echo "tests/vm/run: $*" >&2
}

prepare() {
    ip link set lo up
    hostname guest
    ulimit -l unlimited
    ulimit -c 0
    if ! "$scripts/devices.sh" "${network[@]}"; then
        say "the guest has no RDMA devices; its kernel says:"
        dmesg | tail -n 20 >&2
        return 125
    fi
    cd "$directory" || return 125
}

# Just before the time-out: who is still there.
watch() {
    sleep "$timeout" >/dev/null 2>&1 # holding neither pipe: it is not killed with this
    say "after $timeout s; in the guest there run"
    ps --ppid 2 -p 2 -N -o pid,ppid,stat,etimes,wchan:24,args >&2 # all but the kernel's threads
    dmesg | tail -n 20 >&2
}

run_command() {
    local code=0 watcher
    prepare || return
    watch &
    watcher=$!
    SECONDS=0
    setsid -w timeout -k 10 $((timeout + 2)) "${command[@]}" </dev/null || code=$?
    if [ "$SECONDS" -gt "$timeout" ]; then
        wait "$watcher"
        code=124
    fi
    kill "$watcher" 2>/dev/null || true
    return "$code"
}

mkfifo /run/out /run/err
cat </run/out >"$(port out)" &
copiers=$!
cat </run/err >"$(port err)" &
copiers+=" $!"
status=0
run_command >/run/out 2>/run/err 8>&- || status=$?
# What the command left running may hold the pipes.
for ((tries = 0; tries < 20; tries++)); do
    # shellcheck disable=SC2086 # two
    kill -0 $copiers 2>/dev/null || break
    sleep 0.1
done
dmesg >/run/vm/dmesg
echo "$status" >/run/vm/status
busybox poweroff -f
