#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# scripts/busy.sh
#
# Prints what "On a busy machine" of the README shows: top and doctor of a daemon of the build tree (RDMAD_BUILD, default
# build) while four users move bytes, with something wrong. As root, in namespaces of its own. The numbers are those of
# this machine at this moment, so nothing compares them; test_tour runs this and compares heads and names.
set -euo pipefail
export LC_ALL=C

[ "$(id -u)" = 0 ] || { echo "busy.sh: only root can be several users" >&2; exit 1; }
if [ -z "${BUSY_ENTERED:-}" ]; then
    cd "$(dirname "$0")/.."
    build=$(cd "${RDMAD_BUILD:-build}" && pwd)
    BUSY_ENTERED=$build exec unshare --mount --net --pid --fork --kill-child --propagation private --mount-proc "$PWD/scripts/busy.sh"
fi
ip link set lo up
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/rdmad /run/work
cd /run/work
# Not every user can look into the build tree.
cp "$BUSY_ENTERED/daemon/rdmad" "$BUSY_ENTERED/rdmactl/rdmactl" .
PATH=/run/work:$PATH

# An address that no interface has, little memory, a user with another weight (nobody) and one with a rate (daemon).
cat >settings.json <<'JSON'
{"listen": "192.0.2.1:7471", "peer": {"insecure": true},
 "limits": {"pool_bytes": 70000000, "pool_bytes_per_uid": 60000000, "pool_bytes_per_session": 60000000},
 "policy": {"users": [{"match": {"uid": 65534}, "weight": 300}, {"match": {"uid": 1}, "bytes_per_second": 50000000}]}}
JSON
rdmad --config settings.json 2>rdmad.log &
daemon=$!

# until_has FILE TEXT: it is in there.
until_has() {
    local tries
    for ((tries = 0; tries < 200 * ${RDMAD_TEST_PATIENCE:-1}; tries++)); do
        ! grep -q "$2" "$1" 2>/dev/null || return 0
        sleep 0.05
    done
    echo "busy.sh: no $2 in $1" >&2
    cat ./*.log >&2
    exit 1
}
# as UID COMMAND...: rdmactl, as that user.
as() { setpriv --reuid="$1" --regid=65534 --clear-groups rdmactl "${@:2}"; }
# sessions COUNT: so many are there.
sessions() {
    local tries
    for ((tries = 0; tries < 200 * ${RDMAD_TEST_PATIENCE:-1}; tries++)); do
        [ "$(rdmactl -j session show | grep -o '"pid":' | wc -l)" -lt "$1" ] || return 0
        sleep 0.05
    done
    echo "busy.sh: there are no $1 sessions" >&2
    cat ./*.log >&2
    exit 1
}

until_has rdmad.log 'serves clients'
seq 1000000 >numbers
rdmactl share numbers --ttl 10m >/dev/null 2>share.log &
as 33 bench serve --span 40M --ttl 10m >uri 2>serve.log &
until_has uri '^rdmad:'
uri=$(head -n 1 uri)
as 65534 bench read --size 256K --depth 16 --span 4M --duration 60 "$uri" >/dev/null 2>read.log &
sessions 3
as 34 bench write --size 64K --depth 16 --duration 60 "$uri" >/dev/null 2>write.log &
as 1 bench read --size 8K --depth 4 --duration 60 "$uri" >/dev/null 2>rate.log &
as 5 bench read --size 64 --duration 60 "$uri" >/dev/null 2>small.log &
sessions 6
sleep 2

# shellcheck disable=SC2016 # as it is typed
echo '$ rdmactl top -b -n 1'
rdmactl top -b -n 1 | sed 's/ *$//'
# shellcheck disable=SC2016
printf '\n%s\n' '$ rdmactl doctor'
# doctor ends with 1, for something is bad. Long lines go on below, as in docs/TOUR.md.
{ rdmactl doctor || true; } | awk '{
    for (most = 118; length($0) > most; most = 118) {
        for (i = most; i > 60 && substr($0, i, 1) != " "; i--);
        print substr($0, 1, i - 1)
        $0 = "        " substr($0, i + 1)
    }
    print
}'
kill $daemon
