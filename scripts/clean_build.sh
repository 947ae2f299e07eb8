#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# clean_build.sh WORK [BASE]: builds the packages of WORK/rdmad in a Debian that is made for it, and leaves them in WORK,
# as scripts/package.sh --clean, which calls this, would have them. If it fails, WORK/why says why in the middle of a
# sentence; what is printed is the log. BASE is a Debian to begin with a copy of.
#
# It is process 1 of namespaces of its own: processes and mounts end with it. The Debian is in memory, at WORK/root. In
# it are build-essential and what debian/control asks for (Build-Depends), and nothing of this machine but its package
# mirror. When that is installed an unprivileged user builds, and there is no network.
set -euo pipefail

work=$1
base=${2:-}
here=$(dirname "$0")
# shellcheck source=scripts/debootstrap.sh
. "$here/debootstrap.sh"

why() {
    echo "$*" >"$work/why"
    exit 1
}

# missing: the first line of a build's log that tells of something that is not there.
missing() {
    sed 's/^[ -]*//' "$work/build.log" | grep -oE "Package '[^']*',? .*not found|No package '[^']*' found|[^ ]*: fatal error: [^ ]*: No such file or directory|\
[^ ]+: (command )?not found|Could (not|NOT) find .*|No module named '[^']*'|.* not found \(Debian: [^)]*\)|\
dh: error: .*|dh_missing: error: .*|dh_install: warning: Cannot find .*" | sed -n 1p || true
}

mount -t tmpfs -o mode=755 tmpfs "$work/root"
root=$work/root/debian
if [ -n "$base" ]; then
    cp -a "$base" "$root"
else
    debian_make buildd "$root" || why "could not be made: debootstrap fails"
fi
mount -t proc proc "$root/proc"
mkdir "$root/build"
cp -a "$work/rdmad" "$root/build/rdmad"
debian_in "$root" apt-get build-dep -q -y --no-install-recommends /build/rdmad 2>&1 | tee "$work/depends.log" ||
    why "not all that Build-Depends in debian/control says can be installed:$(sed -n 's/.*Depends://p; s/^E://p' \
        "$work/depends.log" | head -n 1)"

debian_in "$root" chown -R nobody:nogroup /build
# shellcheck disable=SC2016 # expands there
unshare --net chroot --userspec=nobody:nogroup "$root" env -i PATH=/usr/bin:/bin HOME=/nonexistent LC_ALL=C.UTF-8 \
    DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-}" sh -c 'cd /build/rdmad && exec dpkg-buildpackage -F -uc -us' \
    </dev/null 2>&1 | tee "$work/build.log" || {
    it=$(missing)
    why "the packages do not build${it:+: $it. If a package has it, Build-Depends in debian/control has to say so}"
}
find "$root/build" -maxdepth 1 -type f -exec cp -t "$work" {} + # as root's own
