#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# What rdmactl -j prints follows its schemas (rdmactl/schema): without a daemon, without anything on it,
# under load, with a peer that is lost, and afterwards. schemas.py judges it.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

schemas=$RDMAD_SOURCE/rdmactl/schema
judge=$RDMAD_SOURCE/tests/integration/schemas.py
when=''

# said WORDS CODE FILE: a line for schemas.py.
said() { printf '%s\t%s\t%s\t%s\n' "$when" "$1" "$2" "$(tr '\n\t' '  ' <"$3")" >>"$work/said"; }
# look NAME OBJECT [VERB] [-- ARGUMENT...]: one document of that daemon, whatever the exit code.
look() {
    local name=$1 words=() code=0
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        words+=("$1")
        shift
    done
    [ $# = 0 ] || shift
    "$rdmactl" -d "$work/$name" -j "${words[@]}" "$@" >"$work/document" 2>/dev/null || code=$?
    said "${words[*]}" "$code" "$work/document"
}
# good ...: as look, and it went well.
good() {
    look "$@"
    [ "$(tail -n 1 "$work/said" | cut -f 3)" = 0 ] || fail "$*: $(tail -n 1 "$work/said")"
}
looks() { # NAME
    local words
    for words in status 'session show' 'user show' 'pool show' 'lease show' 'peer show' 'link show' 'channel show' 'service show' \
        'policy show' 'limit show' events metrics 'config show'; do
        # shellcheck disable=SC2086 # two words
        good "$1" $words
    done
    good "$1" lease show -- --all
    good "$1" top -- -n 1 -i 100ms
    look "$1" doctor
}
# held NAME WORDS ARGUMENT...: prints its document at once and holds on; $last is its process.
held() {
    local name=$1 words said=$work/held.$1.${2%% *}
    read -r -a words <<<"$2"
    "$rdmactl" -d "$work/$name" -j "${words[@]}" "${@:3}" >"$said" 2>/dev/null &
    last=$!
    pids+=("$last")
    first_line "$said" "$last" >"$work/document"
    said "$2" 0 "$work/document"
}
value() { # EXPRESSION of d, the last document
    /usr/bin/python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$work/document" "$1"
}
# becomes NAME OBJECT [VERB] EXPRESSION: true of what that daemon says.
becomes() {
    "$rdmactl" -d "$work/$1" -j "${@:2:$#-2}" >"$work/document" 2>/dev/null && [ "$(value "${*: -1}")" = True ]
}
run() { # NAME LISTEN
    mkdir -p "$work/$1"
    "$rdmad" --runtime-dir "$work/$1" --identity "$work/$1.id" --listen "$2" 2>>"$work/$1.log" &
    pids+=($!)
    last=$!
    await_daemon "$1" $!
}

"$rdmactl" --help >"$work/usage"

echo "* without a daemon"
when='without a daemon'
mkdir "$work/none"
while read -r -a words; do
    # Without an argument these would make this machine's own identity, or look for one.
    [ "${words[0]}" = cluster ] || look none "${words[@]}"
done < <(grep -oE '^  [a-z]+( [a-z]+)?' "$work/usage")
look none cluster show -- --identity "$work/none"
look none cluster revoke -- beta --identity "$work/none"
echo '{}' >"$work/good.json"
good none config check -- "$work/good.json"
look none config check -- "$work/none.json"

echo "* a cluster, and nothing on it"
when='with nothing on it'
keep_port
mkdir "$work/a" "$work/b"
run clear 127.0.0.1:0
looks clear
good a cluster init -- --name alpha --identity "$work/a.id" --address "127.0.0.1:$port"
token=$(value 'd["token"]')
run a "127.0.0.1:$port"
a=$last
good b cluster join -- "127.0.0.1:$port" "$token" --name beta --identity "$work/b.id"
run b 127.0.0.1:0
good a cluster token -- --identity "$work/a.id"
looks a
looks b
good a device show
good a device show -- -v
good a peer add -- "127.0.0.1:$(becomes b status True && value 'd["listen"]["port"]')"

echo "* under load"
when='under load'
good a limit set -- uid:0 weight=50
good a limit set -- peer:beta weight=50
good a limit show -- peer:beta
good a policy show -- 0
held a 'bench serve' --ttl 300s
uri=$(value 'd["uri"]')
head -c 3000000 /dev/urandom >"$work/file"
held a share "$work/file" --name shared --ttl 300s
share=$last
shared=$(value 'd["uri"]')
lease=$(value 'd["lease"]')
for op in nop read write send cas fadd; do
    good b bench "$op" -- -n 100 "$uri"
done
for op in 'write -q 8' send read; do
    # shellcheck disable=SC2086 # words
    "$rdmactl" -d "$work/b" -j bench $op -s 64 -D 100 "$uri" >/dev/null 2>&1 &
    pids+=($!)
done
"$rdmactl" -d "$work/a" -j bench read -s 64 -D 100 "$uri" >/dev/null 2>&1 & # a lessee of the same daemon
pids+=($!)
eventually becomes b channel show 'any(c["state"] == "open" and c["messages_sent"] > 0 for c in d["channels"])'
eventually becomes b link show 'any(l["rtt_us"] is not None and l["lat_us"] for l in d["links"])'
eventually becomes a lease show 'any(h["session"] for l in d["leases"] for h in l["holders"])'
good b trace -- -n 200 --begun
looks a
looks b
good a why -- lease "$lease"
good b fetch -- "$shared" -o "$work/fetched"
cmp -s "$work/file" "$work/fetched" || fail "other bytes"
good a log -- debug
good a reload
becomes b session show True
session=$(value '[s["id"] for s in d["sessions"] if s["bytes_written"]][0]')
good b session pause -- "$session" --why 'a moment'
good b session show
good b session resume -- "$session"
holds() { # ops that are in flight when somebody looks
    good b drain -- --off
    [ "$(value 'len(d["holders"]) > 0')" = True ]
}
eventually holds
good b drain -- --wait 60s
good b drain -- --off
good b upgrade
good b status

echo "* after leases, sessions and a peer are gone"
when='after a loss'
good a lease revoke -- "$lease"
wait "$share" || true
held clear 'bench serve' --ttl 300s
uri=$(value 'd["uri"]')
"$rdmactl" -d "$work/clear" -j bench write -q 8 -D 100 "$uri" >"$work/failed" 2>/dev/null &
bench=$!
eventually becomes clear session show 'any(s["bytes_written"] for s in d["sessions"])'
good clear lease revoke -- 1
wait "$bench" && fail "bench write went well without its lease"
said 'bench write' 1 "$work/failed"
good a lease show -- --all
kill -KILL "$a"
eventually becomes b peer show 'not any(p["state"] == "up" for p in d["peers"])'
looks b
look b peer add -- 127.0.0.1:1
when='afterwards'
good a cluster show -- --identity "$work/a.id"
good a cluster revoke -- beta --identity "$work/a.id"
good a cluster show -- --identity "$work/a.id"
look b lease revoke -- 4711
look b why -- lease 4711
"$rdmactl" -d "$work/b" bench serve --ttl 60s >/dev/null 2>&1 & # those of before may have ended
server=$!
pids+=("$server")
eventually becomes b session show "any(s['pid'] == $server for s in d['sessions'])"
session=$(value "[s['id'] for s in d['sessions'] if s['pid'] == $server][0]")
good b session kick -- "$session"
looks b


# Nothing is left to be said, and clients would wait for a daemon that does not come back.
mapfile -t left < <(jobs -pr)
kill -KILL "${left[@]}"
"$judge" "$schemas" "$work/usage" "$work/said" || fail "see above"
echo "$(wc -l <"$work/said") documents"
