#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A program with a session is checkpointed to files by CRIU, ends, and is restored from them: it goes on
# with the daemon that is there then, with its pool's bytes, its lease, its handle and its rings. CRIU takes
# no socket whose other end is not in the checkpoint, so the program is stopped first and its daemon lets go
# of it: by an upgrade, or because it dies.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

skip() {
    echo "skipped: $*"
    exit 77
}
[ "$(id -u)" = 0 ] || skip "CRIU needs root"
command -v criu >/dev/null || skip "CRIU is not there (Debian: criu)"
criu check >"$work/criu" 2>&1 ||
    skip "CRIU cannot checkpoint on this kernel, $(uname -r): $(grep -m 1 -v util.c "$work/criu" || true)"
program=$RDMAD_BUILD/tests/integration/checkpointed
keep_port

# start: the daemon, always at the same address, for a handle is of a lease there.
start() {
    "$rdmad" --runtime-dir "$work/a" --listen "127.0.0.1:$port" --config "$work/a.json" 2>>"$work/a.log" &
    daemon=$!
    pids+=("$daemon")
    await_daemon a "$daemon"
}
die_daemon() {
    kill -KILL "$daemon"
    { wait "$daemon" || true; } 2>/dev/null
}
rounds() { grep -c '^round' "$work/report" 2>/dev/null || true; }
# went_on FROM: ten more rounds.
went_on() {
    kill -0 "$pid" 2>/dev/null || fail "the program has ended: $(<"$work/out") $(tail -n 2 "$work"/criu.restore)"
    [ "0$(rounds)" -ge "$(($1 + 10))" ]
}
resumes() { [ "$(grep -c '^resumed' "$work/report")" = "$1" ]; }
holds_nothing() { lacks checkpointed "$rdmactl" -d "$work/a" session show; }

# checkpoint: of the stopped program, whose daemon has let go of it.
checkpoint() {
    mkdir -p "$work/images"
    criu dump -t "$pid" -D "$work/images" -o "$work/criu.dump" >"$work/criu" 2>&1 ||
        fail "criu dump: $(grep Error "$work/criu.dump" "$work/criu")"
    { wait "$pid" || true; } 2>/dev/null
    ! kill -0 "$pid" 2>/dev/null || fail "the program is still there"
}
restore() {
    criu restore -d -D "$work/images" -o "$work/criu.restore" >"$work/criu" 2>&1 ||
        fail "criu restore: $(grep Error "$work/criu.restore" "$work/criu")"
    rm -rf "$work/images"
    kill -CONT "$pid" # as it was stopped when it was dumped
}

mkdir "$work/a"
echo "{\"fabric\": \"${RDMAD_TEST_FABRIC:-tcp}\"}" >"$work/a.json"
start
setsid "$program" "$work/a" "$work/report" </dev/null >"$work/out" 2>&1 &
pid=$!
pids+=("$pid")
eventually went_on 0

echo "* an upgrade lets go of it, a later life of the daemon takes it back"
hang "$pid"
"$rdmactl" -d "$work/a" upgrade >"$work/said" 2>&1 || fail "upgrade: $(<"$work/said")"
checkpoint
eventually holds_nothing
die_daemon
start
done_before=$(rounds)
restore
eventually went_on "$done_before"
eventually resumes 1

echo "* the daemon dies, and the program is restored before there is another"
hang "$pid"
die_daemon
checkpoint
done_before=$(rounds)
restore
start
eventually went_on "$done_before"
eventually resumes 2
kill -KILL "$pid"
eventually holds_nothing
