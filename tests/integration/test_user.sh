#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A plain user's rdmad needs no options: it is in $XDG_RUNTIME_DIR/rdmad, where his programs find it when
# the machine has none. Nobody is led to a daemon that is not his own. With a /run of its own.
set -euo pipefail

if [ "${RDMAD_TEST_OWN_MOUNTS:-}" = "" ]; then
    if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
        echo "skipped: this needs root, and a mount namespace"
        exit 77
    fi
    RDMAD_TEST_OWN_MOUNTS=1 exec unshare -m "$0" "$@"
fi

# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

mount -t tmpfs -o mode=755 tmpfs /run
chmod 755 "$work"
home=/run/user/12345
mkdir -p "$home" /run/user/666
chmod 700 "$home" /run/user/666
chown 12345:12345 "$home"
chown 666:666 /run/user/666
echo shared >"$work/file"

# user UID XDG_RUNTIME_DIR COMMAND...
user() {
    local uid=$1 xdg=$2
    shift 2
    env -u RDMAD_RUNTIME_DIR XDG_RUNTIME_DIR="$xdg" \
        setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"
}
start() { # UID XDG_RUNTIME_DIR: sets $started
    env -u RDMAD_RUNTIME_DIR XDG_RUNTIME_DIR="$2" setpriv --reuid "$1" --regid "$1" --clear-groups \
        "$rdmad" --listen 127.0.0.1:0 2>"$work/$1.log" &
    started=$!
    pids+=("$started")
    for ((tries = 0; tries < 400 * ${RDMAD_TEST_PATIENCE:-1}; tries++)); do
        ! user "$1" "$2" "$rdmactl" status >"$work/said" 2>&1 || return 0
        kill -0 "$started" 2>/dev/null || fail "uid $1's daemon does not start: $(<"$work/$1.log")"
        sleep 0.05
    done
    fail "uid $1's daemon is not found: $(<"$work/said")"
}

echo "* where there is none, both places are named"
for command in status "share $work/file"; do
    # shellcheck disable=SC2086 # words
    if user 12345 "$home" "$rdmactl" $command >"$work/said" 2>&1; then fail "$command of nobody"; fi
    for place in /run/rdmad "$home/rdmad"; do
        grep -q "$place" "$work/said" || fail "$place is not named: $(<"$work/said")"
    done
done

echo "* a user's daemon is where his programs look, though the machine has an identity that is not his"
mkdir -p /run/etc/{upper,work}
mount -t overlay -o lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work overlay /etc
mkdir -p /etc/rdmad
mkdir -m 700 /etc/rdmad/identity 2>/dev/null || chmod 700 /etc/rdmad/identity
start 12345 "$home"
eventually grep -q "serves clients at $home/rdmad/rdmad.sock" "$work/12345.log"
user 12345 "$home" "$rdmactl" share "$work/file" >"$work/uri" 2>"$work/said" &
pids+=($!)
uri=$(first_line "$work/uri" $!)
[ "$(user 12345 "$home" "$rdmactl" fetch "$uri" 2>/dev/null)" = shared ] || fail "not fetched"

echo "* nobody is led to a daemon that is not his"
start 666 /run/user/666
chmod 755 /run/user/666
for xdg in /run/user/666 user/666; do
    if user 12345 "$xdg" "$rdmactl" status >"$work/said" 2>&1; then fail "another's daemon was asked"; fi
    if user 12345 "$xdg" "$rdmactl" share "$work/file" --ttl 300ms >"$work/said" 2>&1; then
        fail "another's daemon was given a file"
    fi
    grep -q "/run/rdmad/rdmad.sock does not exist" "$work/said" || fail "$(<"$work/said")"
done
chmod 777 "$home/rdmad"
if user 12345 "$home" "$rdmactl" share "$work/file" --ttl 300ms >"$work/said" 2>&1; then
    fail "a directory that everybody may write was trusted"
fi
chmod 755 "$home/rdmad"

echo "* the machine's daemon comes first, and a name that is given is the only one"
"$rdmad" --listen 127.0.0.1:0 2>"$work/machine.log" &
pids+=($!)
answers() { "$rdmactl" status >/dev/null 2>&1; }
eventually answers
rm -f "$work/uri" # or the first line of the one before would be found
user 12345 "$home" "$rdmactl" share "$work/file" >"$work/uri" 2>"$work/said" &
pids+=($!)
uri=$(first_line "$work/uri" $!)
"$rdmactl" -j session show | grep -q '"uid": *12345' || fail "the machine's daemon has no session of his"
if user 12345 "$home" "$rdmactl" -d /run/none share "$work/file" --ttl 300ms >"$work/said" 2>&1; then
    fail "another directory than the one that was named"
fi
