#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# install.sh: installs into an empty prefix and builds a program against it as others would: by
# pkg-config, shared and static, and by CMake's find_package. Then it is uninstalled, all but the settings.
set -euo pipefail
source=${RDMAD_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${RDMAD_BUILD:-$source/build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
consumer=$source/tests/abi/consumer

cmake --install "$build" --prefix "$prefix" >"$work/log" || { cat "$work/log"; exit 1; }
cp "$build/install_manifest.txt" "$work/manifest"
for header in rdmad.h abi.h ring.h wire.h rdmad.hpp rdmad_async.hpp; do
    [ -f "$prefix/include/rdmad/$header" ] || { echo "$header was not installed"; exit 1; }
done
# Another prefix than the configured one is obeyed by everything.
[ -f "$prefix/etc/rdmad.json" ] || { echo "the settings were not installed below $prefix"; exit 1; }
# The manual page says where the service looks for its settings.
unit=$prefix/lib/systemd/system/rdmad.service
config=$(sed -n 's/^ExecStart=.*--config //p' "$unit")
[ -n "$config" ] || { echo "rdmad.service names no settings"; exit 1; }
page=$prefix/share/man/man8/rdmad.8
if [ -f "$page" ]; then
    grep -qF "$config" <(sed 's/\\&//g' "$page") || { echo "rdmad(8) does not name $config"; exit 1; }
fi
libdir=$(dirname "$(find "$prefix" -name librdmad.so)")
version=$(sed -n 's/^project(rdmad VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")

answers() { # program
    local said
    said=$(LD_LIBRARY_PATH=$libdir "$1")
    [ "$said" = "$version" ] || { echo "$1 says version '$said', not $version"; exit 1; }
}

# The Python package works from where it is installed.
if [ -e "$build/python/rdmad/_declared.py" ]; then
    package=$(find "$prefix" -path '*/dist-packages/rdmad' -type d)
    said=$(cd / && PYTHONPATH=${package%/*} LD_LIBRARY_PATH=$libdir PYTHONDONTWRITEBYTECODE=1 \
        /usr/bin/python3 -c 'import rdmad, rdmad.aio; print(rdmad.version(), rdmad.__file__)')
    [ "$said" = "$version $package/__init__.py" ] || { echo "the Python package says '$said'"; exit 1; }
    [ -f "$package/py.typed" ] || { echo "py.typed was not installed"; exit 1; }
    [ -z "$(find "$package" -type l)" ] || { echo "links were installed, not files"; exit 1; }
fi

pc() { PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --define-variable=prefix="$prefix" "$@" rdmad; }
[ "$(pc --modversion)" = "$version" ]
read -ra cflags <<<"$(pc --cflags)"
read -ra libs <<<"$(pc --libs)"
read -ra static_libs <<<"$(pc --static --libs)"
cc -Wall -Werror "${cflags[@]}" "$consumer/consumer.c" -o "$work/shared" "${libs[@]}"
cc -Wall -Werror "${cflags[@]}" "$consumer/consumer.c" -o "$work/static" \
    -Wl,-Bstatic "${static_libs[@]}" -Wl,-Bdynamic
answers "$work/shared"
answers "$work/static"
[[ $(ldd "$work/shared") == *librdmad* ]] || { echo "shared is not"; exit 1; }
[[ $(ldd "$work/static") != *librdmad* ]] || { echo "static is not"; exit 1; }

{ cmake -G Ninja -S "$consumer" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DWANT_VERSION="$version" &&
    cmake --build "$work/cmake"; } >"$work/log" || { cat "$work/log"; exit 1; }
answers "$work/cmake/shared"
answers "$work/cmake/static"

doc=$prefix/share/doc/rdmad
for file in LICENSE examples/hello.c examples/versus/write_rdmad.c; do
    [ -f "$doc/$file" ] || { echo "$file was not installed"; exit 1; }
done
# What documents refer to is there.
links=0
while IFS=: read -r page link; do
    target=${link#](}
    target=${target%)}
    [ -e "${page%/*}/${target%%#*}" ] || { echo "${page#"$doc/"}: $target was not installed"; exit 1; }
    links=$((links + 1))
done < <(grep -roE --include='*.md' '\]\([A-Za-z./][^):]*\)' "$doc")
[ "$links" -ge 50 ] || { echo "only $links links were found in $doc"; exit 1; }
cmake -DMANIFEST="$work/manifest" -DKEEP="$prefix/etc" -P "$source/cmake/uninstall.cmake" >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
grep -q "left: $prefix/etc/rdmad.json" "$work/log" || { echo "it does not say what it leaves: $(<"$work/log")"; exit 1; }
left=$(find "$prefix" -type f -o -type l -o -path '*rdmad*' | sort)
[ "$left" = "$prefix/etc/rdmad.json" ] || { echo "uninstalled, there are still: $left"; exit 1; }
