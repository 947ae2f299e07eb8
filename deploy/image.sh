#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# deploy/image.sh [--packages DIR] [--base ROOT] [ARCHIVE]
#
# Makes an OCI image of rdmad, rdmactl and librdmad out of the Debian packages, without docker: a Debian by
# debootstrap, the packages (DIR; without it scripts/package.sh builds them), and tar. ARCHIVE is
# build/rdmad-image.tar if nothing else is said. Takes root, for debootstrap and chroot.
#
#     podman load -i build/rdmad-image.tar        skopeo copy oci-archive:build/rdmad-image.tar docker://...
#
# ROOT is a Debian that is there, to begin with a copy of it, and of its package lists, instead of a new one.
set -euo pipefail

cd "$(dirname "$0")/.."
. scripts/deps.sh

packages=
base=
while [ $# -gt 0 ]; do
    case $1 in
    --packages) packages=$(cd "${2:?}" && pwd) && shift ;;
    --base) base=${2:?} && shift ;;
    -*) die "usage: deploy/image.sh [--packages DIR] [--base ROOT] [ARCHIVE]" ;;
    *) break ;;
    esac
    shift
done
archive=${1:-build/rdmad-image.tar}
[ "$(id -u)" = 0 ] || die "only root can make a root file system"
need_packages debootstrap python3
mkdir -p "$(dirname "$archive")"
if [ -z "$packages" ]; then
    packages=$PWD/build/packages
    scripts/package.sh "$packages"
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/rdmad-image.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
root=$work/root
if [ -n "$base" ]; then
    cp -a "$base" "$root"
else
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    note "making a $suite"
    debootstrap --variant=minbase "$suite" "$root" >"$work/log" || { tail -n 5 "$work/log" >&2; die "debootstrap failed"; }
fi
mkdir "$root/packages"
cp "$packages"/{rdmad,rdmactl,librdmad0}_*.deb "$root/packages"
# Nobody starts services here: containers have one process. So there is no need of a systemd to make users.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
# shellcheck disable=SC2016 # expands there
chroot "$root" env DEBIAN_FRONTEND=noninteractive sh -ec '
    [ -x /usr/bin/systemd-sysusers ] || users=systemd-standalone-sysusers
    ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1 || apt-get update -q
    apt-get install -q -y --no-install-recommends $users ibverbs-providers /packages/*.deb
    apt-get clean' >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; die "the packages cannot be installed"; }
rm -rf "$root"/packages "$root"/usr/sbin/policy-rc.d "$root"/var/lib/apt/lists/* "$root"/var/log/* "$root"/var/cache/* \
    "$root"/usr/share/{doc,man,locale,info}/*
# Who runs the daemon is the runtime's to say; rdmactl would give an identity to a user of this name.
chroot "$root" userdel rdmad
# What would differ from image to image, and tell of the machine that made it.
rm -f "$root"/etc/{machine-id,resolv.conf,hostname} "$root"/etc/{passwd,group,shadow,gshadow}-
deploy/oci.py "$root" "$archive" rdmad:latest
