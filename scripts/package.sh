#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# scripts/package.sh [--tree | --commit COMMIT] [--version VERSION] [DIR]
#
# Builds the Debian packages and leaves them in DIR (build/packages), in place of those that were there. They are
# built from a clean copy: of the last commit, of COMMIT, or (--tree) of the files as they are, committed or not, but
# for those that git ignores. What building needs is installed first; that takes root.
#
# VERSION is for packages that are no release: it goes before or after that of debian/changelog, as dpkg compares.
set -euo pipefail

cd "$(dirname "$0")/.."
. scripts/deps.sh

usage() {
    echo "usage: scripts/package.sh [--tree | --commit COMMIT] [--version VERSION] [DIR]" >&2
    exit 2
}
commit=HEAD
version=
while [ $# -gt 0 ]; do
    case $1 in
    --tree) commit= ;;
    --commit) commit=${2:?} && shift ;;
    --version) version=${2:?} && shift ;;
    -*) usage ;;
    *) break ;;
    esac
    shift
done
[ $# -le 1 ] || usage
mkdir -p "${1:-build/packages}"
target=$(cd "${1:-build/packages}" && pwd)

need_packages "${PACKAGE_PACKAGES[@]}"
work=$(mktemp -d "${TMPDIR:-/tmp}/rdmad-package.XXXXXX")
trap 'rm -rf "$work"' EXIT
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

# Who has ccache builds the second time in seconds.
if command -v ccache >/dev/null; then
    CCACHE_DIR=${CCACHE_DIR:-$(ccache -k cache_dir)}
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_DIR CCACHE_BASEDIR="$copy"
fi
cd "$copy"
if [ -n "$version" ]; then
    sed -i "1s/([^)]*)/($version)/" debian/changelog
fi
note "building $(dpkg-parsechangelog -S Source) $(dpkg-parsechangelog -S Version)"
if ! dpkg-buildpackage -F -uc -us >"$work/log" 2>&1; then
    tail -n 60 "$work/log" >&2
    die "the packages do not build; what was said last is above"
fi
rm -f "$target"/*.deb "$target"/*.buildinfo "$target"/*.changes "$target"/*.dsc "$target"/*.tar.xz
mv "$work"/*.deb "$work"/*.buildinfo "$work"/*.changes "$work"/*.dsc "$work"/*.tar.xz "$target/"
mv "$work/log" "$target/build.log"
for package in "$target"/*.deb; do
    echo "$package"
done
