# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# debootstrap.sh: makes a Debian, the one that this machine runs, from where this machine has its packages. To be
# sourced. Takes root, and debootstrap.

debian_suite() {
    # shellcheck source=/dev/null
    (. /etc/os-release && echo "${VERSION_CODENAME:-}")
}

# debian_make VARIANT DIR [OPTION...]: in DIR, which is not there yet, with lists of packages and the machine's proxy.
# What is said of it, and why it failed, is on standard output.
debian_make() {
    local variant=$1 made=$2 suite mirror
    shift 2
    suite=$(debian_suite)
    # shellcheck disable=SC2016 # apt-get expands it
    mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $suite" "Created-By: Packages" 2>/dev/null | head -n 1)
    debootstrap --variant="$variant" "$@" "$suite" "$made" ${mirror:+"$mirror"} 2>&1 || return
    apt-config dump | grep -E '^Acquire::https?::' >"$made/etc/apt/apt.conf.d/99machine" || true # a proxy, say
    debian_in "$made" apt-get clean && debian_in "$made" apt-get update -q 2>&1
}

# debian_in ROOT COMMAND...: there, as root, with the network of here.
debian_in() {
    chroot "$1" env -u TMPDIR PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "${@:2}" </dev/null
}
