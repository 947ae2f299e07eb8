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
# ends PID CODE: by itself, soon.
ends() {
    local began code=0
    began=$(date +%s%3N)
    wait "$1" || code=$?
    local took=$(($(date +%s%3N) - began))
    [ "$took" -lt "$patience" ] || fail "it ended after $took ms"
    [ "$code" = "$2" ] || fail "exit $code, not $2: $(<"$work/said")"
}

serve
for options in "write" "write -q 8" "read -q 8" "send" "send -q 8"; do
    echo "* $options: asked to stop"
    # shellcheck disable=SC2086 # words
    bench_of $options
    kill -TERM "$bench"
    ends "$bench" 0
    grep -q 'MsgRate' "$work/said" || fail "it says nothing of what it measured: $(<"$work/said")"

    echo "* $options: asked to stop, while its peer is stopped"
    # shellcheck disable=SC2086 # words
    bench_of $options
    hang "$other"
    sleep 0.3 # so that it waits for an answer
    kill -TERM "$bench"
    ends "$bench" "$([ "$options" = write ] && echo 0 || echo 1)"
    kill -CONT "$other"
    [ "$options" = write ] || grep -q 'what was under way did not end' "$work/said" || fail "no word why: $(<"$work/said")"
done

echo "* bench serve: asked to stop while its client's daemon is stopped"
bench_of write
hang "${pids[0]}"
kill -TERM "$server"
ends "$server" 0
kill -CONT "${pids[0]}"
wait "$bench" || true

echo "* the lease is lost"
for options in "write" "write -q 8" "send"; do
    serve
    # shellcheck disable=SC2086 # words
    bench_of $options
    kill -KILL "$server"
    ends "$bench" 1
    grep -qE 'lease|channel|session' "$work/said" || fail "no word why: $(<"$work/said")"
done
