#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_udev.sh: the Debian packages on a machine with RDMA devices, a real udev and a real systemd: a guest of tests/vm
# that boots the clean Debian of root.sh. Here the Debian gets udev and what the packages depend on, for the guest has
# no network; udev_guest.sh is what happens there.
#
# It takes a guest of its own, for packages are not built yet when that of ./check starts: only tests/soak runs it.
# shellcheck source=tests/packages/root.sh
. tests/packages/root.sh
root_enter "$0"
# shellcheck source=tests/integration/daemons.sh
. tests/integration/daemons.sh
trap 'code=$?; set +e; root_close; (exit "$code"); stop_all' EXIT

packages=$RDMAD_BUILD/packages-check # test_packages has built them
compgen -G "$packages/rdmad_*.deb" >/dev/null || root_skip "no packages in $packages: test_packages makes them"
root_make
root_open
# What would do harm to the kernel of here is what this is about: there it has a kernel of its own.
find "$root/etc/systemd/system" -maxdepth 1 -lname /dev/null -delete
mkdir "$root/packages"
cp "$packages"/{rdmad,rdmactl,librdmad0}_*.deb "$root/packages"
cp "$RDMAD_BUILD/tests/integration/steady_load" "$root/packages/load"

step() { echo "* $*"; }
step "a Debian with udev, and with all that the packages depend on"
needs=$(for package in "$root"/packages/*.deb; do dpkg-deb -f "$package" Depends Pre-Depends | sed 's/^[A-Z][-A-Za-z]*: //'; done |
    tr ',' '\n' | grep -vE '^ *(rdmad|rdmactl|librdmad0)\b' | paste -s -d ,)
{
    debian_in "$root" apt-get update -q &&
        debian_in "$root" apt-get satisfy -q -y --no-install-recommends udev ibverbs-providers "$needs"
} >"$work/apt.log" 2>&1 || root_skip "apt-get cannot install udev: $(tail -n 2 "$work/apt.log" | tr '\n' ' ')"

export RDMAD_VM_BUILD=no RDMAD_TEST_PATIENCE=${RDMAD_TEST_PATIENCE:-10} RDMAD_VM_TIMEOUT=${RDMAD_VM_TIMEOUT:-1200}
tests/vm/run tests/packages/udev_guest.sh "$root"
