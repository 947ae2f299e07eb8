#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Metrics of real daemons: OpenMetrics to the letter, clean for promtool, monotonic, and by HTTP no
# more than they have to be, whoever comes. What dashboard and alerts name is there.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

here=$RDMAD_SOURCE/tests/integration
rules=$RDMAD_SOURCE/deploy/prometheus/rdmad.rules.yml
promtool=$(command -v promtool || echo "$RDMAD_SOURCE/build/tools/promtool")
a() { "$rdmactl" -d "$work/a" "$@"; }
b() { "$rdmactl" -d "$work/b" "$@"; }
metrics() { "$here/metrics_text.py" "$work/$1" "${@:2}"; }

# with_door NAME WHERE: a daemon that answers GET /metrics.
with_door() {
    mkdir "$work/$1"
    echo "{\"metrics\": {\"listen\": \"$2\"}}" >"$work/$1.json"
    "$rdmad" --config "$work/$1.json" --runtime-dir "$work/$1" --listen 127.0.0.1:0 2>"$work/$1.log" &
    pids+=($!)
    await_daemon "$1" $!
}
with_door a 127.0.0.1:0
with_door b unix
with_door both "unix,127.0.0.1:0"

# at NAME: where that one says that it answers.
at() { "$rdmactl" -d "$work/$1" -j status | python3 -c 'import json, sys; print(json.load(sys.stdin)["metrics_at"])'; }

echo "* where they are answered"
[[ $(at a) == 127.0.0.1:[1-9]* && $(at a) != *,* ]] || fail "metrics at $(at a)"
[ ! -e "$work/a/metrics.sock" ] || fail "a socket beside the port that was asked for"
[ "$(at b)" = "$work/b/metrics.sock" ] || fail "metrics at $(at b)"
[[ $(at both) == 127.0.0.1:[1-9]*", $work/both/metrics.sock" ]] || fail "metrics at $(at both)"
[ "$(stat -c %a "$work/b/metrics.sock")" = 660 ] || fail "metrics.sock is for others, too"
for where in 0.0.0.0:9471 192.0.2.1:9471 localhost:9471 '[::]:9471' 127.0.0.1 unix,0.0.0.0:9471; do
    echo "{\"metrics\": {\"listen\": \"$where\"}}" >"$work/bad.json"
    if "$rdmad" --check-config --config "$work/bad.json" 2>"$work/said"; then fail "$where is taken"; fi
    grep -q 'metrics.listen' "$work/said" || fail "$where: $(cat "$work/said")"
done

echo "* a port that somebody has keeps nobody else from being served"
python3 -c 'import socket, time
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
time.sleep(600)' >"$work/port" &
holder=$!
pids+=("$holder")
port=$(first_line "$work/port" "$holder")
with_door late "127.0.0.1:$port"
[ -z "$(at late)" ] || fail "metrics at $(at late), where another listens"
eventually grep -q "metrics.listen: cannot listen on 127.0.0.1 port $port: Address already in use" "$work/late.log"
sleep 5 # it is looked at every two, and not once only
kill "$holder"
wait "$holder" || true
at_port() { [ "$(at late)" = "127.0.0.1:$port" ]; }
soon at_port
python3 -c 'import sys, urllib.request
sys.exit(b"rdmad_sessions" not in urllib.request.urlopen(sys.argv[1]).read())' "http://127.0.0.1:$port/metrics" ||
    fail "no metrics there"

echo "* what is in them"
head -c 3000000 /dev/urandom >"$work/file"
bytes=$((3000000 + 12 * 16 + 72)) # with a checksum of each of its pieces, and the footer
a share "$work/file" >"$work/uri" 2>/dev/null &
pids+=($!)
uri=$(first_line "$work/uri" $!)
b fetch "$uri" >"$work/out"
cmp -s "$work/file" "$work/out" || fail "other bytes"
# A wrong secret is a refusal.
if b fetch "${uri%=*}=00000000000000000000000000000000" >/dev/null 2>"$work/said"; then fail "fetched"; fi
# A session ends a moment after its program.
none_left() { b metrics >"$work/b1" && [ "$(metrics b1 --value rdmad_limit_used resource=sessions)" = 0 ]; }
eventually none_left
metrics b1
[ "$(metrics b1 --value rdmad_read_bytes_total)" = "$bytes" ] || fail "bytes that were read"
[ "$(metrics b1 --value rdmad_user_read_bytes_total uid="$(id -u)")" = "$bytes" ] || fail "bytes of the user, who has gone"
[ "$(metrics b1 --value rdmad_peer_read_bytes_total)" = "$bytes" ] || fail "bytes of the peer"
[ "$(metrics b1 --value rdmad_op_latency_seconds_count op=read route=link)" -ge 1 ] || fail "no latency"
[ "$(metrics b1 --value rdmad_audit_events_total event=refused cause=secret)" -ge 1 ] || fail "no refusal"
[ "$(metrics b1 --value rdmad_limit resource=sessions)" = 4096 ] || fail "the limit of sessions"

echo "* the page has each of them, and no other"
metrics b1 --manual "$RDMAD_SOURCE/docs/man/rdmad-metrics.7.scd"
page=$work/page
sed 's/^\*rdmad_wakeups_total\*, //' "$RDMAD_SOURCE/docs/man/rdmad-metrics.7.scd" >"$page"
if metrics b1 --manual "$page" >/dev/null 2>&1; then fail "one is missing in the page"; fi
sed 's/^\*rdmad_wakeups_total\*, /&*rdmad_no_such_total*, /' "$RDMAD_SOURCE/docs/man/rdmad-metrics.7.scd" >"$page"
if metrics b1 --manual "$page" >/dev/null 2>&1; then fail "the page has one too many"; fi
sed 's/^\*rdmad_user_sessions\*{_uid_}/*rdmad_user_sessions*{_peer_}/' "$RDMAD_SOURCE/docs/man/rdmad-metrics.7.scd" >"$page"
if metrics b1 --manual "$page" >/dev/null 2>&1; then fail "the page has another label"; fi

echo "* sums only grow, with sessions and without"
b fetch "$uri" >"$work/out"
b metrics >"$work/b2"
[ "$(metrics b2 --value rdmad_user_read_bytes_total uid="$(id -u)")" = $((2 * bytes)) ] || fail "bytes of both sessions"
[ "$(metrics b2 --value rdmad_peer_read_bytes_total)" = $((2 * bytes)) ] || fail "bytes of both links"

echo "* failures by error, of a user and of a peer, also when the session has ended"
a bench serve --ttl 100s >"$work/uri.serve" 2>/dev/null &
pids+=($!)
mkfifo "$work/orders"
RDMAD_RUNTIME_DIR=$work/b "$RDMAD_BUILD/tests/integration/failing_ops" "$(first_line "$work/uri.serve" $!)" <"$work/orders" >"$work/failed" &
pids+=($!)
program=$!
exec 7>"$work/orders"
first_line "$work/failed" "$program" >/dev/null
failures() { # WHEN: the user has had both, the peer what has gone to it
    b metrics >"$work/b3"
    metrics b3 # no more than it may
    [ "$(metrics b3 --value rdmad_user_op_failures_total uid="$(id -u)" cause=RDMAD_E_RANGE)" = 3 ] || fail "of the user, $1"
    [ "$(metrics b3 --value rdmad_user_op_failures_total uid="$(id -u)" cause=RDMAD_E_TIMEOUT)" = 2 ] || fail "of the user, in time, $1"
    [ "$(metrics b3 --value rdmad_peer_op_failures_total cause=RDMAD_E_TIMEOUT)" = 2 ] || fail "of the peer, $1"
    ! grep -q '^rdmad_peer_op_failures_total.*RDMAD_E_RANGE' "$work/b3" || fail "of the peer, to which it never went, $1"
}
echo 3 1000000000000 1000 >&7
hang "${pids[0]}" # the owner's daemon
echo 2 0 100 >&7
eventually grep -q '^RDMAD_E_TIMEOUT$' "$work/failed"
kill -CONT "${pids[0]}"
grep -q '^RDMAD_E_RANGE$' "$work/failed" || fail "they did not fail so: $(cat "$work/failed")"
failures 'while it goes on'
exec 7>&-
wait "$program" || fail "the program whose ops fail"
gone() { lacks failing_ops b -j session show; }
eventually gone
failures 'when it has ended'

echo "* the older format, and promtool"
b metrics -f prometheus >"$work/old"
grep -q '^# TYPE rdmad_ops_total counter$' "$work/old" || fail "names of families"
! grep -q '^# EOF' "$work/old" || fail "an end where there is none"
if b metrics -f xml >/dev/null 2>"$work/said"; then fail "another format"; fi
if [ -x "$promtool" ]; then
    "$promtool" check metrics <"$work/old" >"$work/said" 2>&1 || fail "promtool: $(cat "$work/said")"
    [ ! -s "$work/said" ] || fail "promtool: $(cat "$work/said")"
    "$promtool" check config "$RDMAD_SOURCE/deploy/prometheus/prometheus.yml" >"$work/said" 2>&1 ||
        fail "promtool: $(cat "$work/said")"
    grep -q 'SUCCESS: 1[0-9] rules found' "$work/said" || fail "promtool: $(cat "$work/said")"
    python3 - "$RDMAD_SOURCE/deploy/kubernetes/metrics/agent.yaml" >"$work/agent.yml" <<'PYTHON' || fail "the agent has no settings"
import sys
import yaml
print([d for d in yaml.safe_load_all(open(sys.argv[1])) if d["kind"] == "ConfigMap"][0]["data"]["prometheus.yml"])
PYTHON
    "$promtool" check config --agent "$work/agent.yml" >"$work/said" 2>&1 || fail "promtool: $(cat "$work/said")"
    sed "s|RULES|$rules|" "$here/alerts_test.yml" >"$work/alerts_test.yml"
    "$promtool" test rules "$work/alerts_test.yml" >"$work/said" 2>&1 || fail "promtool: $(cat "$work/said")"
else
    echo "skipped: there is no promtool; ./check has it from the package prometheus"
fi

echo "* each alert has a test, and dashboard and alerts name what there is"
while read -r alert; do
    grep -A 2 "alertname: $alert\$" "$here/alerts_test.yml" | grep -q exp_alerts || fail "no test makes $alert fire"
done < <(sed -n 's/^ *- alert: //p' "$rules")
metrics b1 --names "$rules" "$here/alerts_test.yml" "$RDMAD_SOURCE/deploy/grafana/rdmad.json"
echo 'rate(rdmad_no_such_total[5m])' >"$work/wrong"
if metrics b1 --names "$work/wrong" >/dev/null 2>&1; then fail "a name that there is not"; fi

echo "* what the dashboard asks is asked rightly"
board=$RDMAD_SOURCE/deploy/grafana/rdmad.json
# rules_of DASHBOARD: promtool reads each of its queries.
rules_of() {
    "$here/dashboard_rules.py" "$1" >"$work/dashboard.yml" || fail "a dashboard that cannot be read"
    "$promtool" check rules "$work/dashboard.yml" >"$work/said" 2>&1
}
if [ -x "$promtool" ]; then
    rules_of "$board" || fail "promtool: $(cat "$work/said")"
    grep -q 'SUCCESS: [2-9][0-9] rules found' "$work/said" || fail "promtool: $(cat "$work/said")"
    sed 's/histogram_quantile(0.99, /&0.5, /' "$board" >"$work/board.json"
    if rules_of "$work/board.json"; then fail "promtool likes a query with an argument too many"; fi
else
    "$here/dashboard_rules.py" "$board" >/dev/null
    echo "skipped: there is no promtool"
fi

echo "* by HTTP, however somebody behaves"
"$here/metrics_http.py" "$(at both | sed 's/,.*//')" "$work/both/metrics.sock"

echo "* for a scraper on another machine, by the units that docs/OPERATIONS.md has"
proxy=$(sed -n 's/^ExecStart=//p' "$RDMAD_SOURCE/deploy/prometheus/rdmad-metrics.service")
if command -v systemd-socket-activate >/dev/null && [ -x "${proxy%% *}" ]; then
    keep_port
    # shellcheck disable=SC2086 # a command with options
    systemd-socket-activate -l "127.0.0.1:$port" ${proxy/\/run\/rdmad/$work/both} 2>"$work/proxy.log" &
    pids+=($!)
    scraped() {
        python3 -c 'import sys, urllib.request; sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1]).read())' \
            "http://127.0.0.1:$port/metrics" >"$work/scraped" 2>/dev/null && grep -q '^rdmad_sessions ' "$work/scraped"
    }
    eventually scraped
else
    echo "skipped: there is no systemd-socket-proxyd"
fi

echo "* with it off there is no door"
start_daemon c
[ ! -e "$work/c/metrics.sock" ] || fail "a socket that nobody asked for"
[ "$(at c)" = "" ] || fail "it listens"

echo "* descriptors are counted rightly, and what a scrape costs is measured"
c=${pids[-1]}
counted() {
    "$rdmactl" -d "$work/c" -j status >"$work/said"
    [ "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["objects"]["fds"])' "$work/said")" = \
        "$(find "/proc/$c/fd" -mindepth 1 | wc -l)" ]
}
eventually counted
if [ -x "$RDMAD_BUILD/bench/bench_idle" ]; then
    "$RDMAD_SOURCE/bench/scrape" -j --build "$RDMAD_BUILD" --sessions 40 --rounds 1 --seconds 0.1 >"$work/scrape" ||
        fail "bench/scrape"
    python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
sys.exit(not (d["many"]["control_ms"] > 0 and d["many"]["bytes"] > 5000 and d["calls"]["p99_us"]["ratio"] > 0))' \
        "$work/scrape" || fail "$(<"$work/scrape")"
else
    echo "skipped: bench_idle is not built (RDMAD_BENCH_PEERS)"
fi
