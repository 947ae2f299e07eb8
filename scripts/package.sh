#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# scripts/package.sh [--clean [--base ROOT]] [--tree | --commit COMMIT] [--version VERSION] [DIR]
#
# Builds the Debian packages and leaves them in DIR (build/packages), in place of those that were there. They are
# built from a clean copy: of the last commit, of COMMIT, or (--tree) of the files as they are, committed or not, but
# for those that git ignores. What building needs is installed first; that takes root.
#
# --clean: they are built in a Debian that is made for it, with nothing but build-essential and the Build-Depends of
# debian/control, and without a network (scripts/clean_build.sh). What is missing in Build-Depends ends it. On the
# machine itself only debootstrap and git are installed. Takes root, 2 GB of memory and some minutes. ROOT is a Debian
# that is there (debootstrap --variant=buildd), to begin with a copy of it instead of a new one.
#
# VERSION is for packages that are no release: it goes before or after that of debian/changelog, as dpkg compares.
set -euo pipefail

cd "$(dirname "$0")/.."
. scripts/deps.sh

usage() {
    echo "usage: scripts/package.sh [--clean [--base ROOT]] [--tree | --commit COMMIT] [--version VERSION] [DIR]" >&2
    exit 2
}
commit=HEAD
version=
clean=
base=
while [ $# -gt 0 ]; do
    case $1 in
    --clean) clean=1 ;;
    --base) base=$(cd "${2:?}" && pwd) && shift ;;
    --tree) commit= ;;
    --commit) commit=${2:?} && shift ;;
    --version) version=${2:?} && shift ;;
    -*) usage ;;
    *) break ;;
    esac
    shift
done
[ $# -le 1 ] || usage
[ -z "$base" ] || [ -n "$clean" ] || usage
mkdir -p "${1:-build/packages}"
target=$(cd "${1:-build/packages}" && pwd)

if [ -n "$clean" ]; then
    [ "$(id -u)" = 0 ] || die "only root can make a Debian to build in: sudo scripts/package.sh --clean"
    need_packages "${CLEAN_PACKAGES[@]}"
else
    need_packages "${PACKAGE_PACKAGES[@]}"
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/rdmad-package.XXXXXX")
builder=
# shellcheck disable=SC2317 # the trap reaches it
cleanup() {
    # Its namespaces, and the mounts and processes in them, end with it.
    [ -z "$builder" ] || { kill -KILL "$builder" && wait "$builder"; } 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM HUP
copy=$work/rdmad
mkdir "$copy"
if ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    # An unpacked archive: all of it is the clean copy.
    [ -z "$commit" ] || [ "$commit" = HEAD ] || die "no commits here, only files"
    tar --exclude='./build*' -c . | tar -x -C "$copy"
elif [ -n "$commit" ]; then
    git archive "$commit" | tar -x -C "$copy"
else
    git ls-files -z --cached --others --exclude-standard |
        while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
        tar --null -T - -c | tar -x -C "$copy"
fi
[ -f "$copy/debian/control" ] || die "no debian/ in $commit"

# build_here: by what is installed here.
build_here() {
    # Who has ccache builds the second time in seconds.
    if command -v ccache >/dev/null; then
        CCACHE_DIR=${CCACHE_DIR:-$(ccache -k cache_dir)}
        export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_DIR CCACHE_BASEDIR="$copy"
    fi
    cd "$copy"
    if ! dpkg-buildpackage -F -uc -us >"$work/log" 2>&1; then
        tail -n 60 "$work/log" >&2
        die "the packages do not build; what was said last is above"
    fi
}

# build_clean: in a Debian in namespaces, which are gone when it has ended, or this script, however that ends.
build_clean() {
    local code=0
    mkdir "$work/root"
    setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --propagation private \
        scripts/clean_build.sh "$work" "$base" >"$work/log" 2>&1 &
    builder=$!
    wait "$builder" || code=$?
    builder=
    if [ "$code" != 0 ]; then
        tail -n 60 "$work/log" >&2
        die "in a clean root $([ -s "$work/why" ] && cat "$work/why" || echo "nothing can be built"); what was said last is above"
    fi
}

if [ -n "$version" ]; then
    sed -i "1s/([^)]*)/($version)/" "$copy/debian/changelog"
fi
note "building $(sed -n '1s/^\([^ ]*\) (\(.*\)).*/\1 \2/p' "$copy/debian/changelog")"
if [ -n "$clean" ]; then
    build_clean
else
    build_here
fi
rm -f "$target"/*.deb "$target"/*.buildinfo "$target"/*.changes "$target"/*.dsc "$target"/*.tar.xz
mv "$work"/*.deb "$work"/*.buildinfo "$work"/*.changes "$work"/*.dsc "$work"/*.tar.xz "$target/"
mv "$work/log" "$target/build.log"
for package in "$target"/*.deb; do
    echo "$package"
done
