#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_container.sh: what a container gives its programs is enough to transfer: one mounted directory
# with the socket, namespaces of its own (user, mount, network, process ids), no device node, 64 KiB of
# memory that may be locked, no privilege.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

if [ "$(id -u)" != 0 ]; then
    echo "skipped: only root can make a container out of namespaces"
    exit 77
fi

# What the container's programs are run from must be readable to them.
mkdir -p "$work/image/bin" "$work/data"
cp "$rdmactl" "$RDMAD_BUILD"/libclient/librdmad.so* "$work/image/bin"
chmod -R a+rX "$work" && chmod 777 "$work/data"

# contained NAME COMMAND...: of the host there are files and the daemon's directory, and no device.
contained() {
    local runtime=$work/$1
    shift
    # shellcheck disable=SC2016 # expands in the container
    unshare --mount bash -c '
        [ ! -e /dev/infiniband ] || mount -t tmpfs none /dev/infiniband || exit 99
        [ -z "$(ls /dev/infiniband 2>/dev/null)" ] || exit 99
        export RDMAD_RUNTIME_DIR=$1 LD_LIBRARY_PATH=$2
        shift 2
        exec prlimit --memlock=65536:65536 setpriv --reuid=65532 --regid=65532 --clear-groups \
            --bounding-set=-all --no-new-privs unshare --user --map-user=1000 --map-group=1000 --net \
            --pid --fork --kill-child "$@"' contained "$runtime" "$work/image/bin" "$@"
}

start_daemon a
start_daemon b
size=$((64 << 20))
[ "${RDMAD_TEST_SCALE:-1}" = 1 ] || size=$((1 << 30))
[ "${RDMAD_TEST_FABRIC:-tcp}" = tcp ] || size=$((4 << 20))
head -c "$size" /dev/urandom >"$work/data/file"
chmod a+r "$work/data/file"

# Nothing but the socket leads out of there.
[ "$(contained a ip -o link show | grep -cv ' lo:')" = 0 ] || fail "a container has a network"
contained a "$work/image/bin/rdmactl" share "$work/data/file" --ttl 10m >"$work/uri" 2>"$work/share.log" &
pids+=($!)
uri=$(first_line "$work/uri" $!)
contained b "$work/image/bin/rdmactl" -j fetch "$uri" -o "$work/data/fetched" >"$work/said" 2>&1 ||
    fail "fetch in a container: $(<"$work/said")"
cmp "$work/data/file" "$work/data/fetched" || fail "other bytes came"
grep -q "\"fabric\": *\"${RDMAD_TEST_FABRIC:-tcp}\"" "$work/said" || fail "not by its fabric: $(<"$work/said")"
echo "$size bytes went from container to container over ${RDMAD_TEST_FABRIC:-tcp}"
