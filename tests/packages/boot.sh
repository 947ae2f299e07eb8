#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# boot.sh ROOT [whole]: becomes the systemd of ROOT (root.sh). It is the first process of namespaces of its own, and
# /proc/sys, /sys and the devices that could be anybody's are not its. whole: they are, the machine is its own.
set -euo pipefail

cd "$1"
mount -t proc proc proc
if [ "${2:-}" = whole ]; then
    mount -t sysfs sysfs sys
    mount --rbind /dev dev
else
    mount --bind proc/sys proc/sys
    mount -o remount,bind,ro proc/sys
    mount -t sysfs -o ro sysfs sys
    mount -t tmpfs -o mode=755 tmpfs dev
    for node in null zero full random urandom; do
        touch "dev/$node"
        mount --bind "/dev/$node" "dev/$node"
    done
    mkdir dev/shm dev/pts
    mount -t tmpfs -o mode=1777 tmpfs dev/shm
    ln -s /proc/self/fd dev/fd
    ip link set lo up
fi
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
pivot_root . mnt
exec chroot . /bin/sh -c 'umount -l /mnt && exec /lib/systemd/systemd --system --log-target=console --show-status=no'
