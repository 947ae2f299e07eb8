#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_verbs_start.sh: what keeps verbs from being used is said when the daemon starts, with the object
# that is wrong and the next step; rdmactl doctor says it too; and nothing falls back to TCP that was
# told not to. In the guest of tests/vm only: it takes its devices away and gives them back.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

patience=$((20 * ${RDMAD_TEST_PATIENCE:-1}))
without_lock=(setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock)

# says FILE WORD...: all of them are in one line of it.
says() {
    local file=$1 lines word
    shift
    eventually grep -qF -e "$1" "$file"
    lines=$(<"$file")
    for word in "$@"; do
        lines=$(grep -F -e "$word" <<<"$lines") || fail "no line says \"$*\" but: $(<"$file")"
    done
}

# refused CONFIG [OPTION...] -- WORD...: a daemon so told does not start, and says so.
refused() {
    local text=$1 options=() code=0
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    mkdir -p "$work/refused"
    echo "$text" >"$work/refused.json"
    timeout "$patience" "$rdmad" --runtime-dir "$work/refused" --listen 127.0.0.1:0 \
        --config "$work/refused.json" "${options[@]}" >"$work/said" 2>&1 || code=$?
    [ "$code" = 1 ] || fail "exit code $code instead of 1 with $text ${options[*]}: $(<"$work/said")"
    says "$work/said" "$@"
    [ ! -e "$work/refused/rdmad.sock" ] || fail "left its socket behind"
}

# with NAME CONFIG [OPTION...]: a daemon so told starts; its log is $work/NAME.log.
with() {
    local name=$1 text=$2 tries
    shift 2
    mkdir -p "$work/$name"
    echo "$text" >"$work/$name.json"
    "${prefix[@]}" "$rdmad" --runtime-dir "$work/$name" --listen 127.0.0.1:0 \
        --config "$work/$name.json" "$@" 2>"$work/$name.log" &
    pids+=($!)
    last=$!
    for ((tries = 0; tries < 20 * patience; tries++)); do
        ! "$rdmactl" -d "$work/$name" -j status >/dev/null 2>&1 || return 0
        kill -0 "$last" 2>/dev/null || fail "daemon $name ended while starting"
        sleep 0.05
    done
    fail "daemon $name does not answer"
}
prefix=()

stop() { # PID
    kill -TERM "$1"
    wait "$1" || fail "a daemon ended with $?"
}

fabric_is() { # NAME FABRIC
    "$rdmactl" -d "$work/$1" -j status | grep -q "\"fabric\": *{\"name\": *\"$2\"" ||
        fail "$1 does not use $2: $("$rdmactl" -d "$work/$1" status)"
}

# doctor NAME CODE WORD...
doctor() {
    local name=$1 want=$2 code=0
    shift 2
    "$rdmactl" -d "$work/$name" doctor >"$work/said" 2>&1 || code=$?
    [ "$code" = "$want" ] || fail "doctor ends with $code instead of $want: $(<"$work/said")"
    [ $# = 0 ] || says "$work/said" "$@"
}

lessee_cannot() { # NAME FILE WORD...: share FILE by daemon NAME fails, with these words
    local name=$1 file=$2
    shift 2
    if timeout "$patience" "$rdmactl" -d "$work/$name" share "$file" --once >"$work/said" 2>&1; then
        fail "share works on $name"
    fi
    says "$work/said" "$@"
}

await_ports() {
    local tries
    for ((tries = 0; tries < 100; tries++)); do
        rdma link show | grep -q 'state DOWN' || return 0
        sleep 0.05
    done
    fail "ports stay down: $(rdma link show)"
}

echo "* a device that is there"
with good '{"verbs": {"device": "rxe1"}}' --require-rdma
fabric_is good verbs
says "$work/good.log" 'fabric verbs' rxe1
doctor good 0 rxe1
"$rdmactl" -d "$work/good" -j device show -v >"$work/said" || fail "device show"
"$RDMAD_SOURCE/tests/integration/schemas.py" "$RDMAD_SOURCE/rdmactl/schema" device-show <"$work/said" ||
    fail "device show is not what its schema says: $(<"$work/said")"

echo "* its port goes down under the daemon, and comes back"
trouble_is() { # EXPRESSION of t: what status has
    "$rdmactl" -d "$work/good" -j status >"$work/status"
    python3 -c 'import json, sys
t = json.load(open(sys.argv[1]))["fabric"]["trouble"]
sys.exit(not eval(sys.argv[2]))' "$work/status" "$1"
}
event_of() { "$rdmactl" -d "$work/good" events --kind device >"$work/said" && grep -q "$1" "$work/said"; }
trouble_is 't is None' || fail "trouble with a port that is up: $(<"$work/status")"
ip link set vb down
eventually trouble_is 't and "port 1 is DOWN" in t and "ip link set vb up" in t'
"$rdmactl" -d "$work/good" status >"$work/said" || fail "status"
says "$work/said" 'WARNING: nothing goes over it now' 'port 1 is DOWN'
event_of 'port down.*rxe1 cannot be used now: .*port 1 is DOWN' || fail "no event: $(<"$work/said")"
doctor good 1 'rxe1, over which nothing goes now' 'ip link set vb up'
ip link set vb up
await_ports
eventually trouble_is 't is None'
event_of 'port up.*rxe1 port 1 can be used again' || fail "no event: $(<"$work/said")"
doctor good 0 rxe1
stop "$last"

echo "* a device, port or GID that is not there"
refused '{"fabric": "verbs", "verbs": {"device": "mlx5_7"}}' -- mlx5_7 'verbs.device' rxe0 rxe1
refused '{"verbs": {"device": "mlx5_7"}}' --require-rdma -- mlx5_7 'verbs.device'
refused '{"fabric": "verbs", "verbs": {"port": 9}}' -- rxe0 'verbs.port' 9
refused '{"fabric": "verbs", "verbs": {"device": "rxe0", "gid": "192.0.2.7"}}' -- rxe0 192.0.2.7 'verbs.gid' 10.77.0.1
refused '{"fabric": "verbs", "verbs": {"device": "rxe0", "gid": "77"}}' -- rxe0 '"77"' 'verbs.gid'

echo "* a port that is down"
ip link set va down
refused '{"fabric": "verbs", "verbs": {"device": "rxe0"}}' -- rxe0 'port 1' 'ip link set va up'
refused '{"verbs": {"device": "rxe0"}}' --require-rdma -- rxe0 'port 1' DOWN
with down '{}' # the other end of the cable is down too
fabric_is down tcp
says "$work/down.log" 'fabric tcp' 'rxe0: port 1' 'rxe1: port 1' 'ip link set vb up'
doctor down 0
stop "$last"
ip link set va up
await_ports

echo "* an address that is gone"
ip address del 10.77.0.1/24 dev va
refused '{"fabric": "verbs", "verbs": {"device": "rxe0", "gid": "10.77.0.1"}}' -- rxe0 10.77.0.1 'verbs.gid'
with other '{}' # another device is better than TCP
fabric_is other verbs
says "$work/other.log" 'fabric verbs' rxe1
stop "$last"
ip address add 10.77.0.1/24 dev va

echo "* too little memory may be locked"
head -c 4000000 /dev/urandom >"$work/file"
prefix=(prlimit --memlock=65536:65536 "${without_lock[@]}")
with poor '{"fabric": "verbs"}'
poor=$last
lessee_cannot poor "$work/file" 'cannot be registered' '64 KiB' LimitMEMLOCK
doctor poor 1 'locked memory' RLIMIT_MEMLOCK
stop "$poor"
prefix=()

echo "* on-demand paging that the device lacks"
if ibv_devinfo -v -d rxe0 | grep -A1 'general_odp_caps' | grep -q ODP_SUPPORT; then
    echo "  skipped: this kernel's rxe0 has it"
else
    with odp '{"fabric": "verbs", "verbs": {"odp": true}}'
    "$rdmactl" -d "$work/odp" share "$work/file" --once >"$work/odp.uri" 2>"$work/share.log" &
    pids+=($!)
    uri=$(first_line "$work/odp.uri" $!)
    says "$work/odp.log" 'verbs.odp is on' 'rxe0 has no on-demand paging' 'pinned'
    "$rdmactl" -d "$work/odp" fetch "$uri" -o "$work/odp.file" >"$work/said" 2>&1 || fail "fetch: $(<"$work/said")"
    cmp "$work/file" "$work/odp.file" || fail "other bytes"
fi

echo "* no permission on the device"
chmod 600 /dev/infiniband/uverbs*
chmod 755 "$work"
mkdir "$work/poor2"
chown nobody:nogroup "$work/poor2"
prefix=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
# shellcheck disable=SC2016
"${prefix[@]}" test -x "$rdmad" || { cp "$rdmad" "$work/rdmad"; rdmad=$work/rdmad; }
if "${prefix[@]}" "$rdmad" --version >/dev/null 2>&1; then
    echo '{"fabric": "verbs"}' >"$work/poor2.json"
    if timeout "$patience" "${prefix[@]}" "$rdmad" --runtime-dir "$work/poor2" --listen 127.0.0.1:0 \
        --config "$work/poor2.json" >"$work/said" 2>&1; then
        fail "nobody opened a device"
    fi
    says "$work/said" /dev/infiniband/uverbs 'ermission'
else
    echo "  skipped: nobody cannot run $rdmad"
fi
prefix=()

echo "* a peer without RDMA"
with tcp '{"fabric": "tcp"}'
with strict '{"fabric": "verbs", "peer": {"fallback_tcp": false}}'
with verbs '{"fabric": "verbs"}'
"$rdmactl" -d "$work/tcp" share "$work/file" >"$work/uri" 2>"$work/share.log" &
pids+=($!)
uri=$(first_line "$work/uri" $!)
if timeout "$patience" "$rdmactl" -d "$work/strict" fetch "$uri" -o "$work/none" >"$work/said" 2>&1; then
    fail "fetched over tcp, which is forbidden"
fi
says "$work/said" 'only tcp' 'only verbs' 'peer.fallback_tcp'
"$rdmactl" -d "$work/verbs" fetch "$uri" -o "$work/fetched" >"$work/said" 2>&1 || fail "fetch: $(<"$work/said")"
cmp "$work/file" "$work/fetched" || fail "other bytes"
says "$work/said" 'fabric tcp'
says "$work/verbs.log" 'agreed on tcp instead of verbs' 'the setting fabric is "tcp"'
fabric_is tcp tcp
fabric_is verbs verbs

echo "* a peer's share, which nobody holds over verbs, is not set without a word"
unnamed='peer:*unnamed*'
"$rdmactl" -d "$work/verbs" limit set "$unnamed" attaches=9 >"$work/said" || fail "$(<"$work/said")"
! grep -q '^note:' "$work/said" || fail "a limit that is held has a note: $(<"$work/said")"
"$rdmactl" -d "$work/verbs" limit set "$unnamed" bytes_per_second=1000000 >"$work/said" || fail "$(<"$work/said")"
says "$work/said" 'note: over verbs the device serves peers' 'bytes_per_second'
"$rdmactl" -d "$work/verbs" limit show "$unnamed" >"$work/said"
says "$work/said" 'note: over verbs'
noted() { # SCHEMA ARGUMENT...
    "$rdmactl" -d "$work/verbs" -j "${@:2}" >"$work/said"
    "$RDMAD_SOURCE/tests/integration/schemas.py" "$RDMAD_SOURCE/rdmactl/schema" "$1" <"$work/said" || fail "$1: $(<"$work/said")"
    grep -q '"note": *"over verbs' "$work/said" || fail "$1: $(<"$work/said")"
}
noted limit-show limit show
noted limit-set limit set "$unnamed" weight=90
"$rdmactl" -d "$work/tcp" limit set "$unnamed" weight=90 >"$work/said" || fail "$(<"$work/said")"
! grep -q '^note:' "$work/said" || fail "tcp holds shares: $(<"$work/said")"

echo "* no device at all"
with gone '{"fabric": "verbs", "verbs": {"device": "rxe0"}}'
timeout "$patience" rdma link delete rxe0 || fail "the daemon does not let go of rxe0"
timeout "$patience" rdma link delete rxe1 || fail "the daemon does not let go of rxe1"
head -c 100000 "$work/file" >"$work/small"
fabric_is gone verbs
doctor gone 1 'no RDMA device' 'rdma link add'
refused '{}' --require-rdma -- 'RDMA is required' 'no RDMA device' 'modprobe rdma_rxe'
refused '{"fabric": "verbs"}' -- 'fabric "verbs"' 'no RDMA device' 'modprobe rdma_rxe'
with auto '{}'
fabric_is auto tcp
says "$work/auto.log" 'fabric tcp' 'no RDMA device'
stop "$last"
rdma link add rxe0 type rxe netdev va
rdma link add rxe1 type rxe netdev vb
await_ports
with again '{}' --require-rdma
fabric_is again verbs
stop "$last"

echo "* a device that comes back is used again"
"$rdmactl" -d "$work/gone" share "$work/small" --once >"$work/uri2" 2>"$work/share.log" &
pids+=($!)
uri=$(first_line "$work/uri2" $!)
"$rdmactl" -d "$work/verbs" fetch "$uri" -o "$work/small2" >"$work/said" 2>&1 || fail "fetch: $(<"$work/said")"
cmp "$work/small" "$work/small2" || fail "other bytes"
echo "all is said"
