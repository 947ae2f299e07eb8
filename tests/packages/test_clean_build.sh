#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_clean_build.sh: scripts/package.sh --clean builds the same packages in a Debian that has what Build-Depends
# says, and nothing else; it fails in words where Build-Depends lacks something, though this machine has it; and
# whether it ends by itself or is killed, of its mounts, processes and files none is left.
#
# Each build is a Debian made anew out of the network: minutes in all, so only tests/soak runs it.
# shellcheck source=tests/integration/daemons.sh
. tests/integration/daemons.sh

skip() {
    echo "skipped: $*"
    exit 77
}
[ "$(id -u)" = 0 ] || skip "only root can make a Debian in namespaces"
unshare --mount --pid --fork --propagation private true 2>/dev/null || skip "no namespaces can be made here"
command -v debootstrap >/dev/null || skip "there is no debootstrap"
here=$RDMAD_BUILD/packages-check # test_packages has built them, by what is installed here
compgen -G "$here/*.deb" >/dev/null || skip "no packages in $here: test_packages makes them"

mkdir "$work/tmp"
export TMPDIR=$work/tmp DEB_BUILD_OPTIONS="noautodbgsym ${DEB_BUILD_OPTIONS:-}"
step() { echo "* $*"; }

# nothing_left: neither mounts, in whatever namespace, nor processes that look at them.
nothing_left() { ! grep -lsF "$work/tmp/" /proc/[0-9]*/mountinfo >"$work/left" && ! pgrep -f "$work/tmp/" >>"$work/left"; }
no_files() { [ -z "$(ls -A "$work/tmp")" ] || fail "files are left: $(find "$work/tmp" -maxdepth 2 | head -n 5)"; }

# content PACKAGE: what is in it, what it depends on, how many probes its programs have.
content() {
    local name=${1##*/}
    echo "== $name"
    dpkg-deb -f "$1" Depends Pre-Depends Recommends
    dpkg-deb -c "$1" | awk '{ print $1, $2, $6, $7, $8 }' | sort
    rm -rf "$work/content"
    dpkg-deb -x "$1" "$work/content"
    find "$work/content" -type f -perm -100 -exec sh -c 'readelf -n "$1" 2>/dev/null | grep -c stapsdt' probes {} \; | sort
}

contents() { # DIRECTORY
    local package
    for package in "$1"/*.deb; do content "$package"; done
}

step "what a clean root builds is what this machine builds"
nice -n 19 scripts/package.sh --clean --tree "$work/out" >"$work/package.log" 2>&1 || {
    ! grep -q 'a clean root could not be made' "$work/package.log" || skip "$(tail -n 1 "$work/package.log")"
    fail "it does not build"
}
contents "$here" >"$work/here"
contents "$work/out" >"$work/clean"
[ "$(grep -c '^== ' "$work/clean")" = "$(grep -c '^Package: ' debian/control)" ] || fail "packages: $(grep '^== ' "$work/clean")"
diff -u "$work/here" "$work/clean" >"$work/diff.log" || fail "other packages than built here (+)"
[ -z "$(find "$work/out" ! -user "$(id -un)")" ] || fail "somebody else's files: $(ls -l "$work/out")"
no_files
nothing_left || fail "left: $(<"$work/left")"

step "a Debian to begin with a copy of"
# shellcheck disable=SC2016 # expands there
nice -n 19 bash -c '. scripts/debootstrap.sh; debian_make buildd "$1"' make "$work/base" >"$work/base.log" || fail "debootstrap fails"

# fails_without WORDS SED: with debian/control so changed it fails, and says these words.
fails_without() {
    rm -rf "$work/source"
    mkdir "$work/source"
    tar --exclude='./build*' --exclude=./.git -c . | tar -x -C "$work/source"
    sed -i "$2" "$work/source/debian/control"
    ! cmp -s debian/control "$work/source/debian/control" || fail "debian/control is as it was after $2"
    if GIT_CEILING_DIRECTORIES=$work nice -n 19 "$work/source/scripts/package.sh" --clean --base "$work/base" "$work/out" >"$work/said" 2>&1; then
        fail "it builds with $2"
    fi
    tail -n 1 "$work/said"
    tail -n 1 "$work/said" | grep -q "^package.sh: in a clean root .*$1.*Build-Depends in debian/control" ||
        tail -n 1 "$work/said" | grep -q "^package.sh: in a clean root .*Build-Depends in debian/control.*$1" ||
        fail "it does not say $1 but: $(tail -n 1 "$work/said")"
    no_files
    nothing_left || fail "left: $(<"$work/left")"
}

step "a module, a header, a part that could be left out, and a program that Build-Depends does not name"
fails_without "'jansson'" '/^ libjansson-dev,/d'
fails_without 'xxhash.h' '/^ libxxhash-dev,/d'
fails_without 'systemtap-sdt-dev' '/^ systemtap-sdt-dev,/d'
fails_without 'scdoc' '/^ scdoc,/d'

step "a package that nobody has"
fails_without 'libnobody-has-this-dev' 's/^ cmake (/ libnobody-has-this-dev,\n&/'

step "killed on the way it leaves nothing"
for signal in TERM INT KILL; do
    # A program that is started in the background does not hear SIGINT, unless it is told to.
    env --default-signal=INT scripts/package.sh --clean --tree "$work/out" >"$work/package.log" 2>&1 &
    killed=$!
    under_way() { grep -qs '^I: Retrieving' "$work"/tmp/rdmad-package.*/log; }
    eventually under_way
    if nothing_left; then fail "of what is under way nothing is seen"; fi
    kill -"$signal" $killed
    if wait $killed; then fail "killed by $signal it says that all is well"; fi
    eventually nothing_left
    if [ "$signal" = KILL ]; then
        # Nobody could clean up; what is in memory is gone, and of files there is the copy of the sources.
        [ -z "$(ls -A "$work"/tmp/rdmad-package.*/root)" ] || fail "the root is left"
    else
        no_files
    fi
done
echo "built with what Build-Depends says, and not without; nothing is left"
