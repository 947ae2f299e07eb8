#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# rdmactl against two real daemons: every command once, as a user types it, and what must not happen:
# a second document after -j, bytes that differ. What no fabric has a part in is in test_rdmactl_calls.sh.
# shellcheck source=tests/integration/two_daemons.sh
. "$(dirname "$0")/two_daemons.sh"

fabric=${RDMAD_TEST_FABRIC:-tcp}
devices=$({ find /sys/class/infiniband -mindepth 1 2>/dev/null || true; } | wc -l)

echo "* the lists"
for noun in session pool lease peer link channel service; do
    has "d['${noun}s'] == []" "$(a -j "$noun" show)"
    code 0 a "$noun" show
done
code 0 a lease show --all
code 2 a session show --all
grep -q 'unknown option --all' "$work/said" || fail "of ended sessions: $(cat "$work/said")"
a help session show >"$work/said"
if grep -q -- --all "$work/said"; then fail "help offers ended sessions"; fi
has "d['fabric']['name'] == '$fabric' and d['fabric']['rdma'] == ('$fabric' == 'verbs') and
    len(d['fabric']['why']) > 8" "$(a -j status)"
code 0 a status
if [ "$fabric" = tcp ]; then text='RDMA over TCP, no RDMA hardware used'; else text='RDMA verbs'; fi
grep -q "fabric *$fabric ($text): " "$work/said" || fail "status hides the fabric or why"
eventually grep -q "fabric $fabric: " "$work/a.log"
code 0 a doctor
has 'd["healthy"] and len(d["checks"]) >= 18 and
    all(c["next"] for c in d["checks"] if c["result"] in ("warning", "bad"))' "$(a -j doctor)"
shm=$(mktemp -d /dev/shm/rdmad-test.XXXXXX)
mkdir "$work/on-disk"
for dir in "$work/on-disk" "$shm"; do # what is in memory goes when the machine is off
    case $(stat -f -c %T "$dir") in
    tmpfs | ramfs) warns=False ;;
    *) warns=True ;;
    esac
    has "any('node.secret' in c['text'] and c['result'] == 'warning' and '/run' in c['next'] for c in d['checks']) == $warns" \
        "$("$rdmactl" -d "$dir" -j doctor || true)"
done
rmdir "$shm"
has 'd["config"]["runtime_dir"].endswith("/a")' "$(a -j config show)"
rest() { # those of doctor have gone
    a -j session show >"$work/said" && python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["sessions"] != [])' "$work/said"
}
eventually rest
code 0 a top -b -n 1 -i 100ms
has 'd["sessions"] == d["users"] == []' "$(a -j top -i 100ms)"
code 0 a user show
has 'all(u["sessions"] == 0 for u in d["users"])' "$(a -j user show)"
a metrics >"$work/metrics"
grep -q '^rdmad_ops_total 0$' "$work/metrics" || fail "metrics"

echo "* devices"
has "len(d['devices']) == $devices and d['fabric'] == '$fabric' and
    all(x['why'] and g['why'] for x in d['devices'] for p in x['ports'] for g in p['gids']) and
    bool(d.get('why')) == (not any(x['chosen'] for x in d['devices'])) and
    sum(x['in_use'] for x in d['devices']) == ('$fabric' == 'verbs') and
    all(x['protection'] and x['self_test'] for x in d['devices'] if x['in_use']) and
    all('facts' not in x for x in d['devices'])" "$(a -j device show)"
has 'all(x["facts"]["max_qp"] for x in d["devices"] if x["ports"])' "$(a -j device show -v)"
has "d['devices'] == []" "$(a -j device show --where name=none)"
has "[x['in_use'] for x in d['devices']] == [True] * ('$fabric' == 'verbs')" "$(a -j device show --where in_use=yes)"
code 0 a device show --all
grep -q "fabric in use: $fabric" "$work/said" || fail "device show hides the fabric"
if [ "$fabric" = verbs ]; then
    code 0 a device show -v
    grep -q '^\* ' "$work/said" || fail "device show hides what was chosen"
    grep -q 'max_qp  ' "$work/said" || fail "device show -v hides facts"
fi

echo "* share and fetch"
: >"$work/empty"
head -c 5000001 /dev/urandom >"$work/file"
share "$work/file"
b fetch "$uri" >"$work/out" 2>/dev/null
cmp "$work/file" "$work/out" || fail "other bytes came to standard output"
report=$(b -j fetch "$uri" -o "$work/out2")
has 'd["bytes"] == 5000001 and d["route"] == "link"' "$report"
has "d['fabric'] == '$fabric'" "$report"
cmp "$work/file" "$work/out2" || fail "other bytes came into the file"
has 'd["route"] == "local"' "$(a -j fetch "$uri" -o "$work/out3")"
cmp "$work/file" "$work/out3" || fail "other bytes came on the local route"
has "any(x['op'] == 'read' and x['route'] == 'link' and 0 < x['lat_us']['p50'] <= x['lat_us']['p99'] and
    x['lat_us']['count'] > 0 for x in d['latency']) and d['failures'] == {} and
    d['lat_us']['count'] == sum(x['lat_us']['count'] for x in d['latency'])" "$(b -j status)"
code 0 b status
grep -qE '^read +link +[0-9]+ +[0-9.]+ [um]s ' "$work/said" || fail "status hides how long reads took"
if [ "$fabric" = tcp ]; then times=3; else times=1; fi # RDMA passes by the CPU
# The file, a checksum of 16 bytes for each of its twenty pieces, and the footer.
has "len(d['leases']) == 1 and d['leases'][0]['audit']['bytes_read'] == $times * (5000001 + 20 * 16 + 72)" \
    "$(a -j lease show)"
if [ "$fabric" = tcp ]; then holds=software; else holds='windows registrations'; fi
has "d['leases'][0]['protection'] in '$holds'.split()" "$(a -j lease show)"
if a -j lease show --all | grep -q "${uri#*key=}"; then fail "the secret is shown"; fi
has 'len(d["peers"]) == 1 and d["peers"][0]["direction"] == "out"' "$(b -j peer show)"
kill -INT "$sharer"
ended 0
code 1 b fetch "$uri" -o "$work/none"
[ ! -e "$work/none" ] || fail "a file appeared although nothing was fetched"

share "$work/file" --name thing
address=${uri#rdmad://}
b -j fetch "rdmad://${address%%/*}/thing" -o "$work/out4" >/dev/null
cmp "$work/file" "$work/out4" || fail "other bytes came by name"
a -j fetch rdmad:///thing -o "$work/out5" >/dev/null
code 1 a share "$work/empty" --name thing
code 1 b fetch "rdmad://${address%%/*}/nothing" -o "$work/none"
grep -q "published as \"nothing\" at $(uname -n)" "$work/said" ||
    fail "not told at which daemon: $(cat "$work/said")"
if grep -q 'a name alone' "$work/said"; then fail "HOST:PORT is there: $(cat "$work/said")"; fi
for name in thing rdmad:///thing; do # it is a's
    code 1 b fetch "$name" -o "$work/none"
    grep -q 'at another one it is rdmad://HOST:PORT/thing)' "$work/said" || fail "$name: $(cat "$work/said")"
done
has 'd["pools"][0]["number"] == 1 and d["pools"][0]["id"] > 1' "$(a -j pool show)"
code 0 a pool show
if grep -q 4294967296 "$work/said"; then fail "a pool's number is for no human: $(cat "$work/said")"; fi
code 0 a session show
grep -qE '[0-9] (ms|s|m [0-9]+ s)$' "$work/said" || fail "ages have no unit: $(cat "$work/said")"
code 0 b link show
grep -qE 'AGO +LAST ERROR$' "$work/said" || fail "a last error has no time: $(cat "$work/said")"
kill -TERM "$sharer"
ended 0

code 0 b status
grep -qE '^ops +[0-9]+ ended, [0-9]+ of them failed$' "$work/said" || fail "status: $(cat "$work/said")"
code 2 b share
grep -q -- '\[--raw\]$' "$work/said" || fail "usage of share: $(cat "$work/said")"
code 2 b fetch
grep -q -- '\[--no-resume\] .*\[--max-entries N\] .*\[--max-depth N\]$' "$work/said" || fail "usage of fetch: $(cat "$work/said")"

echo "* bench"
atomics=local # where the device's are not the CPU's, they go by it on one daemon, too
depths='1 32'
[ "$fabric" = tcp ] || atomics='link' depths=32 # each start of a program takes half a second there
rm -f "$work/uri"
"$rdmactl" -d "$work/a" bench serve --span 4M >"$work/uri" &
server=$!
pids+=("$server")
uri=$(first_line "$work/uri" "$server")
for op in nop read write send cas fadd; do
    for depth in $depths; do
        report=$(b -j bench "$op" -s 64 -n 300 -q "$depth" "$uri")
        has "d['op'] == '$op' and d['iterations'] == 300 and d['errors'] == 0" "$report"
        has "d['depth'] == $depth and d['lat_us']['p50'] <= d['lat_us']['max']" "$report"
        has "d['route'] == ('local' if '$op' == 'nop' else 'link')" "$report"
        has "d['bytes'] == {'nop': 0, 'cas': 8, 'fadd': 8}.get('$op', 64)" "$report"
        has "set(d) == {'schema', 'op', 'bytes', 'depth', 'iterations', 'fabric', 'route', 'bw_gbytes_s',
            'msg_rate_mops', 'lat_us', 'errors'}" "$report"
        has "list(d['lat_us']) == ['min', 'p50', 'p99', 'p999', 'max']" "$report"
        has "d['errors'] == 0 and d['route'] == ('$atomics' if '$op' in ('cas', 'fadd') else 'local')" \
            "$(a -j bench "$op" -n 50 -q "$depth" "$uri")"
    done
done
has 'd["bw_gbytes_s"] > 0' "$(b -j bench read -s 1M --span 4M -D 200ms -q 4 "$uri")"
has 'd["route"] == "local"' "$(a -j bench write --poll event -n 50 "$uri")"
has 'd["bytes"] == 0' "$(b -j bench write -s 0 -q 2 -n 10 "$uri")"
code 1 b bench read -s 8M "$uri"

# Not a pipe: grep ends before all is written.
channels_are() { # PATTERN
    a -j channel show >"$work/channels"
    grep -q "$1" "$work/channels"
}
none='"channels": *\[\]' heard='"messages_received": *[1-9]'

# While a client of b sends to one of a: each daemon shows its end, and what went by.
shows_a_channel() {
    eventually channels_are "$heard"
    has 'len(d["services"]) == 1 and d["services"][0]["accepted"] > 0' "$(a -j service show)"
    has 'len(d["channels"]) == 1 and all(c["state"] == "open" and c["side"] == "accepted" and
        c["kind"] == "reliable" and c["messages_received"] > 0 for c in d["channels"])' \
        "$(a -j channel show)"
    has "all(c['side'] == 'connected' and c['fabric'] == '$fabric' and c['messages_sent'] > 0 and
        c['service'] and c['peer_node'] and c['lost'] == 0 for c in d['channels'])" \
        "$(b -j channel show)"
    code 0 b channel show
    grep -q 'OTHER END' "$work/said" || fail "channel show: $(cat "$work/said")"
    code 0 a service show
    has 'd["objects"]["channels"] == 1 and d["objects"]["services"] == 1 and
        d["limits"]["channels"]["used"] == 1' "$(a -j status)"
    b metrics >"$work/metrics"
    grep -q '^rdmad_channels 1$' "$work/metrics" || fail "metrics hide the channel"
    b metrics >"$work/metrics"
    grep -q '^rdmad_messages_sent_total [1-9]' "$work/metrics" || fail "metrics hide the messages"
}

echo "* bench send: sizes, depths, and clients one after the other"
for depth in 1 4; do
    has 'd["bytes"] == 0 and d["iterations"] == 20' "$(b -j bench send -s 0 -q "$depth" -n 20 "$uri")"
    has 'd["bytes"] == 4194304 and d["errors"] == 0' "$(b -j bench send -s 4M -q "$depth" -n 5 "$uri")"
done
has 'd["depth"] == 4096 and d["iterations"] == 5000' "$(b -j bench send -q 4096 -n 5000 "$uri")"
has '0.1 < d["iterations"] * d["bytes"] / d["bw_gbytes_s"] / 1e9 < 20' \
    "$(b -j bench send -s 4K -q 8 -D 200ms "$uri")"
code 1 b bench send -s 4194305 "$uri"
grep -q 'larger -s' "$work/said" || fail "does not say what to do: $(cat "$work/said")"
for depth in 1 16; do
    eventually channels_are "$none"
    "$rdmactl" -d "$work/b" bench send -D 60 -q "$depth" "$uri" >/dev/null 2>&1 &
    shows_a_channel
    kill -KILL $!
    wait $! 2>/dev/null || true
    has 'd["errors"] == 0' "$(b -j bench send -n 50 -q 2 "$uri")"
    eventually channels_are "$none"
    "$rdmactl" -d "$work/b" bench send -D 60 -q "$depth" "$uri" >"$work/interrupted" 2>&1 &
    eventually channels_are "$heard"
    kill -INT $!
    wait $! || fail "an interrupted bench send ended with $?"
    grep -q "depth $depth" "$work/interrupted" || fail "an interrupted bench send reports nothing"
done
code 2 b bench send
code 2 b bench fadd
"$rdmactl" -d "$work/b" bench write -D 60 "$uri" >/dev/null 2>&1 &
sleep 0.5
kill -KILL $!
wait $! 2>/dev/null || true
has 'd["errors"] == 0' "$(b -j bench write -n 50 "$uri")"
pools_are() { # N
    [ "$(a -j status | python3 -c 'import json, sys; print(json.load(sys.stdin)["objects"]["pools"])')" = "$1" ]
}
eventually pools_are 1 # of what was for clients nothing is left
kill -TERM "$server"
wait "$server" || fail "bench serve ended with $?"

nothing_is_left
