#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Nobody reads the daemon's standard error any more: it starts, serves and stops all the same, and what
# it had to say meanwhile comes when somebody reads again.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

mkfifo "$work/pipe"
exec 9<>"$work/pipe"
head -c 65536 /dev/zero >&9 # it is full
mkdir "$work/a"
"$rdmad" --runtime-dir "$work/a" --listen 127.0.0.1:0 2>"$work/pipe" 9>&- &
daemon=$!
pids+=("$daemon")
await_daemon a "$daemon"

head -c 3000001 /dev/urandom >"$work/file"
"$rdmactl" -d "$work/a" share "$work/file" >"$work/uri" 2>/dev/null 9>&- &
pids+=($!)
uri=$(first_line "$work/uri" $!)
for ((n = 0; n < 20; n++)); do
    timeout $((30 * ${RDMAD_TEST_PATIENCE:-1})) "$rdmactl" -d "$work/a" fetch "$uri" -o "$work/got" 9>&- >"$work/said" 2>&1 ||
        fail "a fetch: $(<"$work/said")"
    cmp "$work/file" "$work/got"
done

dd bs=65536 count=1 status=none <&9 >/dev/null
timeout $((10 * ${RDMAD_TEST_PATIENCE:-1})) sed -n '/session 1 begins/q' <&9 || fail "what was said meanwhile does not come"

head -c 65536 /dev/zero >&9 & # as much of it as there is room for; the rest waits as the daemon does
pids+=($!)
sleep 0.2
kill -TERM "$daemon"
timeout $((20 * ${RDMAD_TEST_PATIENCE:-1})) tail --pid "$daemon" -f /dev/null || fail "it does not stop"
wait "$daemon" || fail "it stopped with $?"
echo "a log that nobody reads holds nobody up"
