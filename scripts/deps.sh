# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# deps.sh: what the scripts of this tree need from the system. To be sourced.
#
# need_packages installs what is missing and says so; it asks nothing of a machine that has it all,
# not even to be root or to be online.

# shellcheck disable=SC2034 # used by those who source this
BUILD_PACKAGES=(gcc libc6-dev cmake ninja-build pkg-config libevent-dev libjansson-dev libmd-dev libssl-dev libsystemd-dev libxxhash-dev systemtap-sdt-dev
    libibverbs-dev librdmacm-dev ibverbs-providers)
if [ "$(dpkg --print-architecture 2>/dev/null || true)" = amd64 ]; then
    BUILD_PACKAGES+=(libipsec-mb-dev) # without it OpenSSL does all that is encrypted
fi
# shellcheck disable=SC2034 # used by those who source this
CHECK_PACKAGES=("${BUILD_PACKAGES[@]}" g++ libcriterion-dev libnanopb-dev clang clang-format clang-tidy git
    llvm libclang-rt-14-dev libfabric-dev ucx-utils libucx-dev iperf3 strace python3 python3-cffi
    python3-numpy pyflakes3 mypy libatomic1 iproute2 openssl procps scdoc mandoc man-db shellcheck nftables
    debhelper dh-python dpkg-dev lintian debootstrap abigail-tools python3-yaml python3-prometheus-client
    python3-jsonschema cmark-gfm bpftrace binutils)
if [ "$(dpkg --print-architecture 2>/dev/null || true)" = amd64 ]; then
    CHECK_PACKAGES+=(librpma-dev) # docs/MIGRATION.md has code of it
fi
# shellcheck disable=SC2034
VM_PACKAGES=(gcc libc6-dev qemu-system-x86 busybox-static criu kmod cpio xz-utils iproute2 procps ibverbs-providers
    ibverbs-utils rdmacm-utils perftest)

# shellcheck disable=SC2034
PACKAGE_PACKAGES=(debhelper dh-python dpkg-dev git "${BUILD_PACKAGES[@]}" python3-cffi scdoc)
# shellcheck disable=SC2034 # what a clean root is made by; the rest is installed there
CLEAN_PACKAGES=(debootstrap git)

# shellcheck disable=SC2034
SITE_PACKAGES=(cmake ninja-build scdoc python3 mandoc cmark-gfm)

die() {
    echo "${0##*/}: $*" >&2
    exit 1
}

note() {
    echo "${0##*/}: $*" >&2
}

missing_packages() {
    local installed package
    # One question for all: in the guest of tests/vm every process is dear.
    installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
    for package in "$@"; do
        grep -qxF "$package installed" <<<"$installed" || echo "$package"
    done
}

need_packages() {
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        note "not a Debian system: make sure that it has what these packages hold: $*"
        return
    fi
    local missing
    mapfile -t missing < <(missing_packages "$@")
    [ "${#missing[@]}" -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ]; then
        die "missing packages; as root run: apt-get install ${missing[*]}"
    fi
    note "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q >&2 </dev/null || note "apt-get update failed; trying with the lists that are there"
    apt-get install -q -y --no-install-recommends "${missing[@]}" >&2 </dev/null ||
        die "cannot install ${missing[*]}; apt-get says why above"
}

# need_program NAME PACKAGE PATH DIRECTORY: one program of a package that would bring much more, and a service: it
# is taken out of the package into DIRECTORY, and nothing is installed. What needs it is skipped where it cannot be had.
need_program() {
    local name=$1 package=$2 path=$3 directory=$4 scratch
    ! command -v "$name" >/dev/null && [ ! -x "$directory/$name" ] && command -v apt-get >/dev/null || return 0
    note "taking $name out of package $package"
    scratch=$(mktemp -d)
    mkdir -p "$directory"
    if (cd "$scratch" && apt-get download -q "$package" && dpkg-deb -x ./*.deb out) >&2 </dev/null; then
        mv "$scratch/out/$path" "$directory/$name"
    else
        note "there is no $name: what asks it is skipped"
    fi
    rm -rf "$scratch"
}
