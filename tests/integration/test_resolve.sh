#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Names of hosts are the system's: a name that /etc/hosts has learned since the daemon started leads
# there, on a machine without nameservers, too; and a name that nobody knows is told as that.
# In a mount namespace of its own, so that the machine's /etc/hosts is not touched.
set -euo pipefail

if [ "${RDMAD_TEST_OWN_MOUNTS:-}" = "" ]; then
    if ! unshare -m true 2>/dev/null; then
        echo "skipped: no mount namespace can be made here"
        exit 77
    fi
    RDMAD_TEST_OWN_MOUNTS=1 exec unshare -m "$0" "$@"
fi

# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

printf '127.0.0.1 localhost\n127.0.0.1 early.rdmad.test\n' >"$work/hosts"
: >"$work/resolv.conf"
echo 'hosts: files dns' >"$work/nsswitch.conf"
for file in hosts resolv.conf nsswitch.conf; do
    [ -e "/etc/$file" ] || continue
    mount --bind "$work/$file" "/etc/$file"
done

start_daemon a
start_daemon b
# Its log says where it listens.
eventually grep -q 'peers reach this daemon' "$work/b.log"
port=$(sed -n 's/.*peers reach this daemon at [^:]*:\([0-9]*\).*/\1/p' "$work/b.log")
[ -n "$port" ] || fail "the daemon does not say where it listens"

add() { timeout 20 "$rdmactl" -d "$work/a" peer add "$1:$port" >"$work/said" 2>&1; }

echo "* a name of /etc/hosts leads there"
add early.rdmad.test || fail "early: $(<"$work/said")"

echo "* and one that was added since"
echo '127.0.0.1 late.rdmad.test' >>"$work/hosts"
add late.rdmad.test || fail "late: $(<"$work/said")"

echo "* and one that has moved"
printf '127.0.0.1 localhost\n127.0.0.1 moved.rdmad.test\n' >"$work/hosts"
add moved.rdmad.test || fail "moved: $(<"$work/said")"

echo "* one that nobody knows is told as that"
if add nobody.rdmad.test; then fail "a peer with a name that nobody knows"; fi
grep -q '"nobody.rdmad.test" does not resolve: ' "$work/said" || fail "told: $(<"$work/said")"
