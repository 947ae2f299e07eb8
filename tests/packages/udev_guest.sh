#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# udev_guest.sh ROOT: boots ROOT, which test_udev.sh has prepared, with the guest's kernel and devices, and a udev and
# a systemd of its own. The packages are installed there: udev gives the devices to the group rdmad, those that are
# there and those that come; the services use them, and a file goes from one to another over verbs; an upgrade under load
# is noticed by nobody. After a purge the devices are whose they were.
if [ ! -f /run/vm/init ]; then
    echo "skipped: not in the guest of tests/vm"
    exit 77
fi
# shellcheck source=tests/packages/root.sh
. tests/packages/root.sh
# shellcheck source=tests/integration/daemons.sh
. tests/integration/daemons.sh
trap 'code=$?; set +e; root_close; (exit "$code"); stop_all' EXIT

root=$1
devices=(/dev/infiniband/uverbs0 /dev/infiniband/uverbs1)
step() { echo "* $*"; }
quiet() { "$@" >"$work/said.log" 2>&1 || fail "$* fails"; }
verbs() { inside rdmactl -d "$1" -j status | grep -q '"fabric": *{"name": *"verbs"'; }
packets() { cat /sys/class/infiniband/rxe[01]/ports/1/hw_counters/sent_pkts | awk '{ n += $1 } END { print n }'; }
ports_up() { [ "$(rdma link show | grep -c 'state ACTIVE')" = 2 ]; }

# owned OWNER:GROUP MODE: both devices become that, when udev has done what there is to do.
owned() {
    local want="$1 $2 $1 $2 "
    is_so() { inside udevadm settle && [ "$(inside stat -c '%U:%G %a' "${devices[@]}" | tr '\n' ' ')" = "$want" ]; }
    for ((tries = 0; tries < 50; tries++)); do
        ! is_so || return 0
        sleep 0.2
    done
    fail "the devices are not $1 $2 but $(inside stat -c '%n %U:%G %a' "${devices[@]}" | tr '\n' ' ')"
}

# again: both devices go, and others come, as when a driver is loaded.
again() {
    rdma link delete rxe0
    rdma link delete rxe1
    rdma link add rxe0 type rxe netdev va
    rdma link add rxe1 type rxe netdev vb
    eventually ports_up
}

mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount --bind "$root" "$root" # a mount is what can be pivoted to
root_whole=whole
root_boot
quiet inside systemctl is-active systemd-udevd.service
again
owned root:root 666

step "install: udev gives the devices that are there to the daemon's group, and the service uses them"
quiet inside sh -c 'dpkg --install /packages/*.deb' # apt-get would read its lists for a minute
inside test -f /lib/udev/rules.d/91-rdmad.rules || fail "there is no rule"
owned root:rdmad 660
may_write() { inside setpriv --reuid=nobody --regid="$1" --clear-groups test -w "${devices[0]}"; }
may_write rdmad || fail "the group may not open devices"
if may_write nogroup; then fail "anybody may open devices"; fi
quiet inside systemctl is-active rdmad.socket rdmad.service
verbs /run/rdmad || fail "not by verbs: $(inside rdmactl status)"

step "devices that come are the group's, too, as after a boot, and services start with them"
quiet inside systemctl stop rdmad.service rdmad.socket
again
owned root:rdmad 660
inside mkdir -p /etc/rdmad/two
inside sh -c 'echo "{\"require_rdma\": true, \"verbs\": {\"device\": \"rxe0\"}}" >/etc/rdmad.json
    echo "{\"require_rdma\": true, \"verbs\": {\"device\": \"rxe1\"}, \"listen\": \"127.0.0.1:0\"}" >/etc/rdmad/two/rdmad.json'
quiet inside systemctl start rdmad.socket rdmad.service
quiet inside systemctl enable --now rdmad@two.service
verbs /run/rdmad || fail "rdmad.service: not by verbs: $(inside rdmactl status)"
verbs /run/rdmad-two || fail "rdmad@two.service: not by verbs: $(inside rdmactl -d /run/rdmad-two status)"

step "a plain user's file goes from one service to the other, by the devices"
head -c 4000000 /dev/urandom >"$root/packages/file"
chmod 644 "$root/packages/file"
before=$(packets)
plain rdmactl share /packages/file --once >"$work/uri" 2>"$work/share.log" &
share=$!
pids+=("$share")
uri=$(first_line "$work/uri" "$share")
inside install -d -m 777 /packages/out
plain rdmactl -d /run/rdmad-two fetch "$uri" -o /packages/out/file >"$work/fetch.log" 2>&1 || fail "fetch"
cmp "$root/packages/file" "$root/packages/out/file" || fail "other bytes"
wait "$share" || fail "share ends with $?"
sent=$(($(packets) - before))
[ "$sent" -ge $((4000000 / 4096)) ] || fail "the devices sent $sent packets, too few for 4000000 bytes"
echo "4000000 bytes went over verbs, in $sent packets of Soft-RoCE"

step "upgrade under load: the daemons become the next program, on the same devices, and programs see no error"
upgraded() { inside rdmactl -d "$1" -j status | grep -q '"upgraded": *{'; }
mkfifo "$work/end"
plain /packages/load /run/rdmad /run/rdmad-two <"$work/end" >"$work/load" 2>"$work/load.log" &
load=$!
pids+=("$load")
exec 7>"$work/end"
first_line "$work/load" "$load" >/dev/null
before=$(packets)
quiet inside sh -c 'dpkg --install /packages/*.deb'
for run in /run/rdmad /run/rdmad-two; do
    upgraded "$run" || fail "$run: not upgraded: $(<"$work/said.log")"
    verbs "$run" || fail "$run: no more by verbs: $(inside rdmactl -d "$run" status)"
done
kill -0 "$load" 2>/dev/null || fail "the load ended: $(<"$work/load.log")"
more_packets() { [ "$(packets)" -gt $((before + 100)) ]; }
eventually more_packets
exec 7>&-
wait "$load" || fail "a program noticed: $(<"$work/load.log")"
tail -n 1 "$work/load"
owned root:rdmad 660

step "purge: no rule is left, and devices, those that are there and those that come, are whose they were"
quiet inside dpkg --purge rdmad rdmactl librdmad0
lacks . inside find /lib/udev /etc/udev -name '*rdmad*' || fail "a rule is left, or not looked for: $(<"$work/lacks")"
owned root:root 666
again
owned root:root 666
echo "udev, systemd and the devices do what the packages tell them, and nothing more when they are gone"
