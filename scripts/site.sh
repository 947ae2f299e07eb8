#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# scripts/site.sh [DIR]
#
# Makes a web site of the README, docs/ and the manual pages, and leaves it in DIR (build/site), in place of what was
# there. It is static files with relative links: any web server has it, and a browser shows it from the disk. The
# manual pages are those of a build (RDMAD_BUILD, default build), which is brought up to date unless RDMAD_SITE_BUILD
# is no. What is needed is installed first; that takes root.
set -euo pipefail

cd "$(dirname "$0")/.."
. scripts/deps.sh

[ $# -le 1 ] || { echo "usage: scripts/site.sh [DIR]" >&2; exit 2; }
build=${RDMAD_BUILD:-build}
out=${1:-$build/site}
need_packages "${SITE_PACKAGES[@]}"
if [ "${RDMAD_SITE_BUILD:-}" != no ]; then
    if [ ! -f "$build/build.ninja" ]; then
        need_packages "${BUILD_PACKAGES[@]}"
        cmake -S . -B "$build" -G Ninja >/dev/null
    fi
    cmake --build "$build" --target man man_api >/dev/null || die "cannot make the manual pages: cmake --build $build --target man man_api"
fi
version=$(sed -n 's/^project(rdmad VERSION \([^ ]*\).*/\1/p' CMakeLists.txt)

# Only what was a site is taken away.
if [ -e "$out" ] && [ ! -f "$out/style.css" ] && [ -n "$(ls -A "$out")" ]; then
    die "$out has files, and is no site: name another directory"
fi
new=$out.new
rm -rf "$new"
PYTHONDONTWRITEBYTECODE=1 python3 docs/site/make.py . "$build/docs" "$new" "$version"
rm -rf "$out"
mv "$new" "$out"
echo "$out/index.html"
