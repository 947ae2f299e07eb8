#!/bin/busybox sh
# SPDX-License-Identifier: MIT
# shellcheck shell=dash
#
# initrd-init.sh: /init of the initrd. Puts the guest's root together: the host's files, read-only over
# 9p, under a tmpfs that takes whatever is written; /run/vm is the run's directory on the host, the only
# one that can be written through. Then guest-init.sh is process 1.
b=/bin/busybox

give_up() {
    echo "initrd: $*"
    $b poweroff -f
}

$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
while read -r module; do
    $b insmod "$module" || give_up "cannot load $module"
done </lib/modules/boot

$b mkdir -p /lower /rw /root
$b mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose host /lower ||
    give_up "cannot mount the host's files"
$b mount -t tmpfs -o mode=755,size=80% rw /rw
$b mkdir /rw/upper /rw/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/rw/upper,workdir=/rw/work root /root ||
    give_up "cannot make the root file system"

for dir in proc sys dev; do
    $b mkdir -p /root/$dir
    $b mount --move /$dir /root/$dir
done
$b ln -s /proc/self/fd /root/dev/fd
$b ln -s fd/0 /root/dev/stdin
$b ln -s fd/1 /root/dev/stdout
$b ln -s fd/2 /root/dev/stderr
$b mkdir -p /root/run /root/tmp /root/dev/shm /root/dev/pts
$b mount -t tmpfs -o mode=755 run /root/run
$b mount -t tmpfs -o mode=1777 shm /root/dev/shm
$b mount -t devpts -o mode=620,ptmxmode=666 pts /root/dev/pts
$b mkdir -p /root/run/lock /root/run/tmp /root/run/vm
$b mount -t tmpfs -o mode=1777,size=80% tmp /root/run/tmp
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=none run /root/run/vm ||
    give_up "cannot mount the run's directory"
kernel=$($b uname -r)
$b mkdir -p "/root/lib/modules/$kernel"
$b cp -r "/lib/modules/$kernel/." "/root/lib/modules/$kernel/"
exec $b switch_root /root /bin/bash /run/vm/init
