# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# daemons.sh: real daemons for tests that are scripts. To be sourced; what is started is stopped when
# the script ends. $work is a directory of the test.
set -euo pipefail

: "${RDMAD_BUILD:?run the test by ctest}"
rdmad=$RDMAD_BUILD/daemon/rdmad
rdmactl=$RDMAD_BUILD/rdmactl/rdmactl
export rdmad rdmactl
work=$(mktemp -d "${TMPDIR:-/tmp}/rdmad-test.XXXXXX")
pids=()

fail() {
    echo "FAILED: $*"
    tail -n 20 "$work"/*.log 2>/dev/null || true
    exit 1
}

stop_all() {
    local code=$? pid
    set +e
    for pid in "${pids[@]}"; do
        kill -TERM "$pid" 2>/dev/null
    done
    for pid in "${pids[@]}"; do
        wait "$pid" 2>/dev/null
    done
    rm -rf "$work"
    exit "$code"
}
trap stop_all EXIT
trap 'exit 1' INT TERM

# await_daemon NAME PID: returns when it answers.
await_daemon() {
    local tries
    for ((tries = 0; tries < 400 * ${RDMAD_TEST_PATIENCE:-1}; tries++)); do
        ! "$rdmactl" -d "$work/$1" -j status >/dev/null 2>&1 || return 0
        kill -0 "$2" 2>/dev/null || fail "daemon $1 ended while starting"
        sleep 0.05
    done
    fail "daemon $1 does not answer"
}

# eventually COMMAND...: it becomes true. soon: the same of what starts programs and takes its time.
eventually() {
    within 400 "$@"
}
soon() {
    within 80 "$@"
}
within() { # TRIES COMMAND...
    local most=$1 tries
    shift
    for ((tries = 0; tries < most * ${RDMAD_TEST_PATIENCE:-1}; tries++)); do
        ! "$@" || return 0
        sleep 0.05
    done
    fail "never: $*"
}

# start_daemon NAME [COMMAND PREFIX...]: in $work/NAME, on any port of loopback. Over verbs (in the guest
# of tests/vm) they use rxe0 and rxe1 in turns, and links bear a second of silence: a busy host makes its
# processors stand still for longer than by default.
start_daemon() {
    local name=$1 config=()
    shift
    mkdir "$work/$name"
    if [ "${RDMAD_TEST_FABRIC:-tcp}" != tcp ]; then
        config=(--config "$work/$name.json")
        echo "{\"fabric\": \"$RDMAD_TEST_FABRIC\", \"verbs\": {\"device\": \"rxe$((${#pids[@]} % 2))\", \"timeout\": 15}}" \
            >"$work/$name.json"
    fi
    "$@" "$rdmad" --runtime-dir "$work/$name" --listen 127.0.0.1:0 "${config[@]}" 2>"$work/$name.log" &
    pids+=($!)
    await_daemon "$name" $!
}

# start_as NAME IDENTITY SETTINGS: in $work/NAME, over tcp, with the identity in that directory if there is one, and
# with these settings (JSON); pid_of[NAME] is its process.
declare -A pid_of
start_as() {
    mkdir -p "$work/$1"
    echo "$3" >"$work/$1.json"
    "$rdmad" --config "$work/$1.json" --runtime-dir "$work/$1" --listen 127.0.0.1:0 --identity "$2" 2>>"$work/$1.log" &
    pids+=($!)
    # shellcheck disable=SC2034 # it is for who sources this
    pid_of[$1]=$!
    await_daemon "$1" $!
}

# ctl NAME ARGUMENT...: rdmactl of the daemon in $work/NAME.
ctl() {
    local name=$1
    shift
    "$rdmactl" -d "$work/$name" "$@"
}

# expect_refused WORDS COMMAND...: it fails, and says so in these words, a pattern of grep.
expect_refused() {
    local words=$1
    shift
    if "$@" >"$work/said" 2>&1; then fail "not refused: $*"; fi
    grep -q -- "$words" "$work/said" || fail "$*: not '$words' but: $(<"$work/said")"
}

# lacks WORDS COMMAND...: it succeeds, and prints nothing like these words, a pattern of grep.
lacks() {
    local words=$1
    shift
    "$@" >"$work/lacks" && ! grep -q -- "$words" "$work/lacks"
}

# is_stopped PID: each of its threads is (after SIGSTOP one may go on until it has the processor again).
is_stopped() {
    local states
    states=$(grep -h '^State:' /proc/"$1"/task/*/status) && ! grep -qv 'T (stopped)' <<<"$states"
}

# hang PID: it stands still when this returns.
hang() {
    kill -STOP "$1"
    eventually is_stopped "$1"
}

# catches PID: rdmactl has come so far that it hears signals by itself.
catches() { grep -qs '^sigmask:' /proc/"$1"/fdinfo/*; }

# first_line FILE PID: waits for the first line of what PID writes to FILE.
first_line() {
    local tries line last=0
    for ((tries = 0; tries < 400 * ${RDMAD_TEST_PATIENCE:-1}; tries++)); do
        if [ -e "$1" ] && IFS= read -r line <"$1"; then
            printf '%s\n' "$line"
            return
        fi
        [ "$last" = 0 ] || break
        kill -0 "$2" 2>/dev/null || last=1 # it may have written it since
        sleep 0.05
    done
    fail "$1: no line came"
}

# keep_port: sets port to one of loopback that is the test's until it ends, whether a daemon listens there or
# not (see keep_port in tests/support/harness.c).
keep_port() {
    python3 -c '
import signal, socket
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
signal.pause()' >"$work/port" &
    pids+=($!)
    # shellcheck disable=SC2034 # it is for who sources this
    port=$(first_line "$work/port" $!)
}
