# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# root.sh: a clean Debian with a systemd of its own, in namespaces, for tests of packages. To be sourced by a script
# that root_enter has put into a mount namespace of its own; $work is a directory of the test.
#
# The system is made once by debootstrap and kept (~/.cache/rdmad-root; remove it to get a newer one). A test has an
# overlay over it, in memory. Nothing of it is seen outside, and it is gone when the test ends.

# What rdmad's packages, and its image, need is downloaded with it, and installed by the test.
root_packages=(ibverbs-providers libevent-core-2.1-7 libibverbs1 libjansson4 libmd0 librdmacm1 libssl3 libsystemd0)
[ "$(dpkg --print-architecture 2>/dev/null)" != amd64 ] || root_packages+=(libipsec-mb1)
# With which programs are built, and what runs those in Python.
root_packages+=(gcc libc6-dev man-db pkg-config python3 python3-cffi-backend)
root_has=systemd,systemd-sysv

root_skip() {
    echo "skipped: $*"
    exit 77
}

# root_enter SCRIPT ARGUMENT...: runs it again in a mount namespace, unless that was done.
root_enter() {
    [ -z "${RDMAD_ROOT_ENTERED:-}" ] || return 0
    [ "$(id -u)" = 0 ] || root_skip "only root can make a Debian in namespaces"
    unshare --mount --propagation private true 2>/dev/null || root_skip "no namespaces can be made here"
    RDMAD_ROOT_ENTERED=1 exec unshare --mount --propagation private "$@"
}

# root_make: the one that is kept, in $root_base; of several who come for it one makes it.
root_make() {
    # shellcheck source=scripts/debootstrap.sh
    . scripts/debootstrap.sh
    root_base=${XDG_CACHE_HOME:-$HOME/.cache}/rdmad-root/$(debian_suite)-4
    mkdir -p "${root_base%/*}"
    exec 8>"$root_base.lock"
    flock 8
    [ -d "$root_base" ] || root_debootstrap 8>&-
    exec 8>&- # or whatever is started would hold it
}

root_debootstrap() {
    local made=$root_base.new
    command -v debootstrap >/dev/null || root_skip "there is no debootstrap"
    rm -rf "$made"
    echo "making a Debian in $root_base, once"
    if ! debian_make minbase "$made" --include="$root_has" >"$made.log"; then
        rm -rf "$made"
        root_skip "no Debian can be made here: $(tail -n 2 "$made.log" | tr '\n' ' ')"
    fi
    debian_in "$made" apt-get install -q -y --no-install-recommends --download-only "${root_packages[@]}" >>"$made.log" 2>&1 ||
        root_skip "apt-get cannot run in a new root: $(tail -n 2 "$made.log" | tr '\n' ' ')"
    mv "$made" "$root_base"
    rm -f "$made.log"
}

# root_open: an overlay over it, in $root.
root_open() {
    : "${work:?is made by daemons.sh}"
    root=$work/root
    mkdir "$root" "$work/upper"
    mount -t tmpfs -o mode=755 tmpfs "$work/upper"
    mkdir "$work/upper"/{upper,work}
    mount -t overlay -o "lowerdir=$root_base,upperdir=$work/upper/upper,workdir=$work/upper/work" overlay "$root" ||
        root_skip "no overlay can be mounted here"
    # What such a system would do to the kernel that it shares.
    local unit
    for unit in systemd-{sysctl,modules-load,remount-fs,udevd,udev-trigger,journald-audit,tmpfiles-setup-dev}.service \
        systemd-journald-audit.socket {dev-hugepages,dev-mqueue,sys-kernel-debug,sys-kernel-tracing,sys-fs-fuse-connections}.mount; do
        ln -sf /dev/null "$root/etc/systemd/system/$unit"
    done
    printf 'force-unsafe-io\n' >"$root/etc/dpkg/dpkg.cfg.d/test"
}

# root_cgroup: a cgroup of the test's own (cgroup2), in $root_group, which is where systemd thinks that all begins.
root_cgroup() {
    local mounted own
    mounted=$(findmnt -n -o TARGET -t cgroup2 | head -n 1)
    own=$(sed -n 's/^0:://p' /proc/self/cgroup)
    root_group=${mounted:-/sys/fs/cgroup}${own%/}/rdmad-test.$$
    mkdir "$root_group" 2>/dev/null || root_skip "no cgroup (version 2) can be made here, and systemd needs one"
}

# root_boot: starts its systemd, whose process id is in $root_init, and waits until it is up. With root_whole=whole it
# has the network, the devices and the settings of the kernel, as a guest of tests/vm can give it.
root_boot() {
    local network=--net
    [ -z "${root_whole:-}" ] || network=
    root_cgroup
    # shellcheck disable=SC2016 # expands there
    env -i PATH="$PATH" container=other bash -c 'echo $$ >"$1/cgroup.procs" && exec unshare --mount --pid $3 --uts \
        --ipc --cgroup --fork --kill-child --propagation private tests/packages/boot.sh "$2" $4' \
        boot "$root_group" "$root" "$network" "${root_whole:-}" >"$work/systemd.log" 2>&1 &
    pids+=($!)
    root_started=$!
    eventually root_is_up
}

root_is_up() {
    local child
    kill -0 "$root_started" 2>/dev/null || fail "systemd has ended: $(tail -n 5 "$work/systemd.log")"
    child=$(pgrep -P "$root_started" | head -n 1) || return 1
    root_init=$child
    inside systemctl is-active --quiet multi-user.target 2>/dev/null
}

# inside COMMAND...: there, as root. plain COMMAND...: as nobody.
inside() { nsenter -t "$root_init" -m -u -i -n -p -C -- env -i PATH="$PATH" HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
plain() { inside setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"; }

# root_close: its processes, its files, its cgroup.
root_close() {
    local tries
    [ -z "${root_init:-}" ] || kill -KILL "$root_init" 2>/dev/null || true
    umount -l "$work/root" "$work/upper" 2>/dev/null || true
    [ -n "${root_group:-}" ] || return 0
    for ((tries = 0; tries < 50; tries++)); do
        find "$root_group" -depth -type d -exec rmdir {} + 2>/dev/null || true
        [ -d "$root_group" ] || return 0
        sleep 0.1
    done
    echo "a cgroup is left: $root_group"
}
