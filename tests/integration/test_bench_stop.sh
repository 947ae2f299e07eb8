#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# rdmactl bench ends within a second when it is asked to, though what it waits for never comes, and when its lease
# has ended. Fails at five times that: before, each waited for an op's deadline of ten.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

start_daemon a
start_daemon b
other=${pids[1]}
trap 'code=$?; set +e; kill -CONT "$other" 2>/dev/null; (exit "$code"); stop_all' EXIT
patience=$((5000 * ${RDMAD_TEST_PATIENCE:-1}))

# serve: bench serve at b; $uri, $server.
serve() {
    rm -f "$work/uri"
    "$rdmactl" -d "$work/b" bench serve >"$work/uri" 2>"$work/serve.log" &
    server=$!
    pids+=("$server")
    uri=$(first_line "$work/uri" "$server")
}
moves() { # it has answered some
    "$rdmactl" -d "$work/a" -j session show | python3 -c 'import json, sys
sys.exit(not any(s["ops"] > 2000 and s["bytes_written"] + s["bytes_read"] + s["channels"] for s in json.load(sys.stdin)["sessions"]))'
}
# bench_of OPTION...: at a, under way; $bench.
bench_of() {
    "$rdmactl" -d "$work/a" bench "$@" -s 64 -D 1000 "$uri" >"$work/said" 2>&1 &
    bench=$!
    pids+=("$bench")
    eventually moves
}
# Bench gives what is under way some tenths of a second, and in these the test stops its peer.
late='what was under way did not end'
# ends PID CODE [WORDS]: by itself, soon, and says so. False, and $wrong is why, where that is a matter of tenths of a
# second: it took too long, gave up what was under way, or nothing was.
ends() {
    local began code=0
    began=$(date +%s%3N)
    wait "$1" || code=$?
    local took=$(($(date +%s%3N) - began))
    wrong="exit $code, not $2, after $took ms: $(<"$work/said")"
    if [ "$code" = "$2" ] && { [ -z "${3:-}" ] || grep -qE "$3" "$work/said"; }; then
        [ "$took" -lt "$patience" ]
    elif [ "$code" = 1 ] && grep -q "$late" "$work/said"; then
        return 1
    else
        [ "$code ${3:-}" != "0 $late" ] || return 1
        fail "$wrong"
    fi
}
# once_in_five COMMAND...: on a busy machine it may not get the processor in time.
once_in_five() {
    local try
    for ((try = 0; try < 5; try++)); do
        ! "$@" || return 0
    done
    fail "$wrong"
}


stop() { # OPTION...
    bench_of "$@"
    kill -TERM "$bench"
    ends "$bench" 0 MsgRate # it says what it measured
}
stop_without_a_peer() { # OPTION...
    local right=0 expected=(1 "$late")
    [ "$*" != write ] || expected=(0) # nothing is under way between two of them
    bench_of "$@"
    hang "$other"
    sleep 0.3 # so that it waits for an answer
    kill -TERM "$bench"
    ends "$bench" "${expected[@]}" || right=1
    kill -CONT "$other"
    return "$right"
}
stop_server() {
    local right=0
    serve
    bench_of write
    hang "${pids[0]}"
    kill -TERM "$server"
    ends "$server" 0 || right=1
    kill -CONT "${pids[0]}"
    wait "$bench" || true
    return "$right"
}
lose_lease() { # OPTION...
    serve
    bench_of "$@"
    kill -KILL "$server"
    ends "$bench" 1 'lease|channel|session'
}

serve
for options in "write" "write -q 8" "read -q 8" "send" "send -q 8"; do
    echo "* $options: asked to stop"
    # shellcheck disable=SC2086 # words
    once_in_five stop $options
    echo "* $options: asked to stop, while its peer is stopped"
    # shellcheck disable=SC2086 # words
    once_in_five stop_without_a_peer $options
done
echo "* bench serve: asked to stop while its client's daemon is stopped"
once_in_five stop_server
echo "* the lease is lost"
for options in "write" "write -q 8" "send"; do
    # shellcheck disable=SC2086 # words
    once_in_five lose_lease $options
done
