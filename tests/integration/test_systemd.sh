#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_systemd.sh: rdmad as installed, under a real systemd: socket and service, an unprivileged
# client, a reload that is refused, wrong settings, a daemon that is killed and one that hangs.
# In the guest of tests/vm only: it installs into /usr/local and starts a systemd, which has process
# ids and mounts of its own. In ./check without what takes minutes there.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

if [ ! -f /run/vm/init ] || [ ! -x /lib/systemd/systemd ]; then
    echo "skipped: it needs the guest of tests/vm, and systemd"
    exit 77
fi
patience=$((30 * ${RDMAD_TEST_PATIENCE:-1}))

# until COMMAND...: it succeeds within the patience.
await() {
    local tries
    for ((tries = 0; tries < 5 * patience; tries++)); do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.2
    done
    fail "waited $patience s in vain: $*"
}

cmake --install "$RDMAD_BUILD" >"$work/install.log" 2>&1 || fail "install: $(tail -n 3 "$work/install.log")"
ldconfig
systemd-sysusers 2>/dev/null
rdmactl=/usr/local/bin/rdmactl
settings=/usr/local/etc/rdmad.json
cp "$settings" "$work/rdmad.json"
"$rdmactl" cluster init --name guest --address 127.0.0.1:7471 >"$work/said" 2>&1 || fail "cluster init: $(<"$work/said")"

# A drop-in, so that patience is the test's: of the watchdog short, of who waits for what does not end long.
mkdir -p /run/systemd/system/rdmad.service.d
printf '[Unit]\nDefaultDependencies=no\n' >/run/systemd/system/test.target
printf '[Service]\nWatchdogSec=4s\nTimeoutAbortSec=3s\nTimeoutStopSec=100s\n' >/run/systemd/system/rdmad.service.d/test.conf
# At its start it would empty /tmp, where this tree may be.
ln -sf /dev/null /run/systemd/system/systemd-tmpfiles-setup.service
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
# shellcheck disable=SC2016 # expands in there
env -i PATH="$PATH" container=other unshare --mount --pid --fork --kill-child --propagation slave bash -c '
    mount -t proc proc /proc
    exec /lib/systemd/systemd --system --unit=test.target --log-target=console --show-status=no' \
    >"$work/systemd.log" 2>&1 &
pids+=($!)
await test -S /run/systemd/private
init=$(pgrep -P "${pids[0]}")
# Nothing else ends it: it is a process 1.
trap 'code=$?; kill -KILL "$init" 2>/dev/null; (exit "$code"); stop_all' EXIT
systemd() { nsenter -t "$init" -m -p systemctl "$@"; }
await systemd list-units

property() { systemd show -P "$1" rdmad.service; }
answers() { "$rdmactl" -j status; }
main_pid() { nsenter -t "$init" -m -p systemctl show -P MainPID rdmad.service; }

echo "* socket and service"
systemd start rdmad.socket || fail "the socket does not start: $(tail -n 5 "$work/systemd.log")"
systemd start rdmad.service || fail "the service does not start: $(tail -n 20 "$work/systemd.log")"
[ "$(property ActiveState)" = active ] || fail "the service is $(property ActiveState)"
await answers
"$rdmactl" -j status | grep -q '"fabric": *{"name": *"verbs"' || fail "not by RDMA: $("$rdmactl" status)"
"$rdmactl" -j status | grep -q '"identity": *{.*"name": *"guest"' || fail "it has no identity: $("$rdmactl" -j status)"
[ "$(property MemoryMax)" != infinity ] || fail "the service may use all of the machine's memory"
[ "$(property OOMPolicy)" = stop ] || fail "OOMPolicy is $(property OOMPolicy)"

echo "* it runs as tight as it says"
exposure=$(nsenter -t "$init" -m -p systemd-analyze security --no-pager --threshold=16 rdmad.service 2>&1) ||
    fail "more exposed than 1.6: $(tail -n 3 <<<"$exposure")"
grep 'Overall exposure' <<<"$exposure"
process="/proc/$(pgrep -x rdmad | head -n 1)"
grep -q '^Seccomp:[[:space:]]*2$' "$process/status" || fail "no filter: $(grep Seccomp "$process/status")"
grep -q '^Max core file size *0 *0 ' "$process/limits" || fail "$(grep core "$process/limits")"
porter=$(pgrep -x rdmad-porter | head -n 1)
grep -q '^Seccomp_filters:[[:space:]]*[2-9]' "/proc/$porter/status" ||
    grep -q '^Seccomp_filters:[[:space:]]*[1-9][0-9]' "/proc/$porter/status" ||
    fail "the porter has no filter of its own: $(grep Seccomp "/proc/$porter/status")"

echo "* a client of another user, by the socket that systemd made"
head -c 1000000 /dev/urandom >"$work/file"
chmod -R a+rX "$work"
mkdir -m 777 "$work/out"
client=(setpriv --reuid=65532 --regid=65532 --clear-groups)
transfer() {
    local uri
    rm -f "$work/uri" "$work/out/file"
    "${client[@]}" "$rdmactl" share "$work/file" --once >"$work/uri" 2>"$work/share.log" &
    pids+=($!)
    uri=$(first_line "$work/uri" $!)
    "${client[@]}" "$rdmactl" fetch "$uri" -o "$work/out/file" >"$work/said" 2>&1 || fail "fetch: $(<"$work/said")"
    cmp "$work/file" "$work/out/file" || fail "other bytes"
}
transfer

echo "* a reload of wrong settings fails, and the daemon goes on"
systemd reload rdmad.service || fail "a reload of good settings fails: $(tail -n 5 "$work/systemd.log")"
echo '{"workers": "many"}' >"$settings"
! systemd reload rdmad.service 2>"$work/said" || fail "a reload of wrong settings succeeds"
await answers

echo "* wrong settings at start are not tried again and again"
! systemd restart rdmad.service 2>"$work/said" || fail "it starts with wrong settings"
await test "$(property ActiveState)" = failed
sleep 3
[ "$(property NRestarts)" = 0 ] || fail "it was started again $(property NRestarts) times"
cp "$work/rdmad.json" "$settings"
systemd restart rdmad.service || fail "it does not start when they are mended: $(tail -n 5 "$work/systemd.log")"
await answers

echo "* a daemon that is killed comes back"
before=$(main_pid)
nsenter -t "$init" -m -p kill -KILL "$before"
is_another() { [ "$(main_pid)" != "$before" ] && [ "$(main_pid)" != 0 ] && answers; }
await is_another

echo "* an upgrade is tried within the unit's walls, and is the same process"
before=$(main_pid)
"$rdmactl" upgrade >"$work/said" 2>&1 || fail "upgrade: $(<"$work/said")"
[ "$(main_pid)" = "$before" ] || fail "another process"
[ "$(property ActiveState)" = active ] || fail "after an upgrade the service is $(property ActiveState)"
echo '{"listen": "0.0.0.0:7471", "identity": {"dir": "/nonexistent"}}' >"$settings"
expect_refused 'so this rdmad goes on: .*is not loopback, and this node has no identity' "$rdmactl" upgrade
[ "$(main_pid)" = "$before" ] || fail "another process, of settings that are wrong"
cp "$work/rdmad.json" "$settings"

# What waits for systemd's own times, minutes of them in there, is for tests/soak verbs.
port_is_taken_or_it_hangs() {
    echo "* while somebody has its port it is started again and again, whoever knocks, and then serves"
    systemd stop rdmad.service
    python3 -c 'import socket, time
s = socket.create_server(("127.0.0.1", 7471))
print("here", flush=True)
time.sleep(100000)' >"$work/holder" &
    holder=$!
    pids+=("$holder")
    first_line "$work/holder" "$holder" >/dev/null
    # By the socket, which starts it.
    knocks() { while kill -0 "$holder" 2>/dev/null; do timeout 5 "${client[@]}" "$rdmactl" share "$work/file" >/dev/null 2>&1 || true; done; }
    knocks &
    pids+=($!)
    tried() { [ "$(property NRestarts)" -ge 6 ]; }
    await tried
    kill "$holder"
    await answers
    [ "$(systemd show -P ActiveState rdmad.socket)" = active ] || fail "the socket has given up"
    transfer

    echo "* a daemon that hangs is ended by the watchdog and comes back"
    before=$(main_pid)
    nsenter -t "$init" -m -p kill -STOP "$before"
    await is_another
    transfer
}

[ "${RDMAD_TEST_SCALE:-1}" = 1 ] || port_is_taken_or_it_hangs

echo "* an audit where the service may write"
echo '{"audit": {"file": "/var/log/rdmad/audit.json"}}' >"$settings"
systemd reload rdmad.service || fail "reload: $(tail -n 5 "$work/systemd.log")"
transfer
audited() { grep -q '"event":"granted","cause":"lease","uid":65532' /var/log/rdmad/audit.json; }
await audited
[ "$(stat -c '%U %a' /var/log/rdmad/audit.json)" = "rdmad 600" ] || fail "$(stat -c '%U %a' /var/log/rdmad/audit.json)"

echo "* only the service opens the devices, by its udev rule"
if command -v udevadm >/dev/null; then
    udevadm test "$(udevadm info -q path -n /dev/infiniband/uverbs0)" >"$work/said" 2>&1 || fail "udevadm test: $(tail -n 3 "$work/said")"
    [ "$(stat -c '%G %a' /dev/infiniband/uverbs0)" = "rdmad 660" ] || fail "$(stat -c '%G %a' /dev/infiniband/uverbs0)"
else
    # What the rule says, by hand: the daemon goes on by its group.
    chgrp rdmad /dev/infiniband/uverbs* && chmod 660 /dev/infiniband/uverbs*
    echo "skipped: there is no udevadm here; its rule was carried out by hand"
fi
! setpriv --reuid=65532 --regid=65532 --clear-groups test -w /dev/infiniband/uverbs0 || fail "anybody may open uverbs"
systemd restart rdmad.service || fail "it does not start: $(tail -n 5 "$work/systemd.log")"
await answers
"$rdmactl" -j status | grep -q '"fabric": *{"name": *"verbs"' || fail "not by RDMA: $("$rdmactl" status)"
transfer

close_is_held_up() {
    echo "* a close that a client holds up keeps no restart waiting"
    mkfifo "$work/hold"
    "$RDMAD_BUILD/tests/integration/held_doorbell" /run/rdmad <"$work/hold" >"$work/held" 2>&1 &
    pids+=($!)
    exec 9>"$work/hold"
    said=$(first_line "$work/held" $!)
    if [ "$said" = skipped ]; then
        echo "skipped: this kernel has no userfaultfd, or none for us"
    else
        [ "$said" = held ] || fail "nothing is held up: $(<"$work/held")"
        seconds=$SECONDS
        systemd restart rdmad.service || fail "it does not start: $(tail -n 5 "$work/systemd.log")"
        await answers
        took=$((SECONDS - seconds))
        echo "restarted in $took s"
        [ "$took" -lt 90 ] || fail "systemd waited for it"
    fi
    exec 9>&-
}

[ "${RDMAD_TEST_SCALE:-1}" = 1 ] || close_is_held_up

echo "* a stop is clean"
systemd stop rdmad.service rdmad.socket || fail "stop: $(tail -n 5 "$work/systemd.log")"
[ "$(property Result)" = success ] || fail "it ended with $(property Result)"
none_left() { ! pgrep rdmad; }
await none_left # the porter ends by itself
echo "under systemd all is well"
