#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# rdmactl cluster: init, join, show, token and revoke on files, against the join service alone. What
# operators see is looked at: the join line, exit codes, JSON, modes, and that openssl reads what was
# written.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

export RDMAD_RUNTIME_DIR=$work/nobody # no daemon is asked
cluster() { "$rdmactl" cluster "$@"; }

# code WANTED COMMAND...: its exit code; what it says goes to $work/said.
code() {
    local wanted=$1 got=0
    shift
    "$@" >"$work/said" 2>&1 || got=$?
    [ "$got" = "$wanted" ] || fail "exit $got instead of $wanted: $* ($(cat "$work/said"))"
}
says() { grep -qF -- "$1" "$work/said" || fail "\"$1\" is not said: $(cat "$work/said")"; }
has() { # CONDITION of d, the document in $work/said
    python3 -c 'import json, sys
d = json.load(open(sys.argv[2]))
assert d["schema"] == 1 and eval("(" + sys.argv[1] + ")"), d' "$1" "$work/said" || fail "not $1"
}

echo "* init"
code 1 cluster show --identity "$work/ca"
says "has no identity; rdmactl cluster init makes"
code 2 cluster init --identity "$work/ca" --name "a b"
code 2 cluster init --identity "$work/ca" --name alpha --address nowhere
[ ! -e "$work/ca" ] || fail "a refused init made something"
code 0 cluster init --identity "$work/ca" --name alpha --address 127.0.0.1:1
tail -n 1 "$work/said" | grep -qE '^rdmactl cluster join 127.0.0.1:1 [A-Za-z0-9_][A-Za-z0-9_-]{85}$' ||
    fail "the last line is no join line: $(cat "$work/said")"
code 1 cluster init --identity "$work/ca" --name alpha
says "has an identity already"
for file in ca.key node.key; do
    [ "$(stat -c %a "$work/ca/$file")" = 600 ] || fail "$file can be read by others"
done
openssl verify -CAfile "$work/ca/ca.crt" -purpose sslserver "$work/ca/node.crt" >"$work/said" 2>&1 ||
    fail "openssl does not accept the certificate: $(cat "$work/said")"
openssl verify -CAfile "$work/ca/ca.crt" -purpose sslclient "$work/ca/node.crt" >/dev/null ||
    fail "the certificate is for one end only"
openssl crl -in "$work/ca/revoked.crl" -CAfile "$work/ca/ca.crt" -noout 2>&1 | grep -q 'verify OK' ||
    fail "openssl does not accept the list of revoked ones"

echo "* joining"
"$RDMAD_BUILD/tests/join_service" "$work/ca" >"$work/service" 2>"$work/service.log" &
pids+=($!)
port=$(first_line "$work/service" $!)
line() { # the words of a fresh join line
    cluster token --identity "$work/ca" --address "127.0.0.1:$port" "$@" | tail -n 1
}
token() { line "$@" | awk '{print $5}'; }

first=$(line)
[[ $first == "rdmactl cluster join 127.0.0.1:$port "* ]] || fail "another line: $first"
# shellcheck disable=SC2086 # as it is typed
code 0 cluster ${first#rdmactl cluster } --identity "$work/b" --name beta
says "Node beta has joined"
[ "$(cat "$work/b/ca.address")" = "127.0.0.1:$port" ] || fail "where the CA is was not kept"
[ "$(stat -c %a "$work/b/node.key")" = 600 ] || fail "the joined node's key can be read by others"
[ ! -e "$work/b/ca.key" ] || fail "the joined node has the CA's key"
openssl verify -CAfile "$work/ca/ca.crt" "$work/b/node.crt" >/dev/null || fail "not of the CA"

echo "* a token is good once, and until it expires"
# shellcheck disable=SC2086
code 1 cluster ${first#rdmactl cluster } --identity "$work/c" --name gamma
says "the token is not known"
[ ! -e "$work/c/node.crt" ] || fail "a refused node has a certificate"
short=$(token --ttl 1s)
sleep 1.1
code 1 cluster join "127.0.0.1:$port" "$short" --identity "$work/c" --name gamma
says "has expired"

echo "* of two that use one token at once one wins"
both=$(token)
for i in 1 2 3 4; do
    "$rdmactl" cluster join "127.0.0.1:$port" "$both" --identity "$work/race$i" --name "race$i" \
        >"$work/race$i.said" 2>&1 &
    racers[i]=$!
done
won=0
for i in 1 2 3 4; do
    ! wait "${racers[i]}" || won=$((won + 1))
done
[ "$won" = 1 ] || fail "$won of 4 have joined with one token"

echo "* names"
taken=$(token)
code 1 cluster join "127.0.0.1:$port" "$taken" --identity "$work/c" --name beta
says "belongs to a node with another key"
code 1 cluster join "127.0.0.1:$port" "$taken" --identity "$work/b" --name beta
says "--replace"
code 0 cluster join "127.0.0.1:$port" "$taken" --identity "$work/b" --name beta --replace

echo "* another cluster, nobody there, no token"
code 0 cluster init --identity "$work/other" --name other --address "127.0.0.1:$port"
tail -n 1 "$work/said" >"$work/other.line"
code 1 cluster join "127.0.0.1:$port" "$(awk '{print $5}' "$work/other.line")" --identity "$work/c" --name gamma
says "does not belong to the CA that the token names"
code 1 cluster join 127.0.0.1:1 "$taken" --identity "$work/c" --name gamma
says "must run and listen there"
code 2 cluster join "127.0.0.1:$port" "${taken%?}" --identity "$work/c" --name gamma
code 2 cluster join "127.0.0.1:$port"
says "TOKEN is missing"

echo "* the token from a file or standard input, and not where others read it"
cluster token --identity "$work/ca" --address "127.0.0.1:$port" >"$work/invitation"
code 2 cluster join "127.0.0.1:$port" - --token-file "$work/invitation" --identity "$work/f" --name phi
says "given twice"
code 1 cluster join "127.0.0.1:$port" --token-file "$work/nothing" --identity "$work/f" --name phi
says "No such file"
code 2 cluster join "127.0.0.1:$port" --token-file "$work/ca/node.crt" --identity "$work/f" --name phi
says "no whole token"
code 1 cluster join "127.0.0.1:$port" --token-file /dev/zero --identity "$work/f" --name phi
says "too long"
code 0 cluster join "127.0.0.1:$port" --token-file "$work/invitation" --identity "$work/f" --name phi
token >"$work/invitation"
code 0 cluster join "127.0.0.1:$port" - --identity "$work/g" --name chi <"$work/invitation"
secret=$(token)
python3 -c 'import socket, time
s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1], flush=True)
c = s.accept(); print("here", flush=True); time.sleep(600)' >"$work/mute" &
pids+=($!)
mute=$(first_line "$work/mute" $!)
"$rdmactl" cluster join "127.0.0.1:$mute" "$secret" --identity "$work/h" --name psi >/dev/null 2>&1 &
pids+=($!)
eventually grep -q here "$work/mute"
arguments=$(tr '\0' ' ' <"/proc/$!/cmdline")
[[ $arguments == *"127.0.0.1:$mute"* ]] || fail "it waits no more: $arguments"
[[ $arguments != *"${secret:0:20}"* ]] || fail "other users read the token while it waits: $arguments"
kill "$!"
code 1 cluster token --identity "$work/b"
says "has no CA"
! grep -qF "$taken" "$work/service" "$work"/*.log || fail "a token is in a log"

echo "* show"
open=$(token --ttl 1h)
code 0 "$rdmactl" -j cluster show --identity "$work/ca"
has 'd["node"]["name"] == "alpha" and d["ca"]["is_ca"] and len(d["trust"]) == 1 and d["revoked"] == [] and
     len(d["tokens"]) >= 1 and "beta" in [i["name"] for i in d["issued"]]'
code 0 "$rdmactl" -j cluster show --identity "$work/b"
has 'd["node"]["name"] == "beta" and "ca" not in d and "issued" not in d and len(d["trust"]) == 1'
code 0 cluster show --identity "$work/ca"
says "beta"
lacks "taken" cat "$work/said" || fail "a token is taken, and nobody joins"
id=$(python3 -c 'import base64, sys; print(base64.urlsafe_b64decode(sys.argv[1][:12])[:8].hex())' "$open")
mv "$work/ca/tokens/$id" "$work/ca/tokens/$id.taken" # as a crash of the daemon leaves it
code 0 "$rdmactl" -j cluster show --identity "$work/ca"
has '[t["taken"] for t in d["tokens"] if t["id"] == "'"$id"'"] == [True]'
code 0 cluster show --identity "$work/ca"
grep -q "^$id  until .*, taken: nobody else joins by it" "$work/said" || fail "it is not shown: $(<"$work/said")"
mv "$work/ca/tokens/$id.taken" "$work/ca/tokens/$id"
code 1 "$rdmactl" -j cluster show --identity "$work/none"
has 'd["error"]["code"] == "RDMAD_E_CONFIG"'

echo "* revoke"
code 1 cluster revoke --identity "$work/ca" nobody
code 1 cluster revoke --identity "$work/ca" alpha
code 2 cluster revoke --identity "$work/ca"
code 0 "$rdmactl" -j cluster revoke --identity "$work/ca" beta
has 'd["name"] == "beta" and d["revoked"] == 2 and d["reloaded"] is False'
code 0 "$rdmactl" -j cluster show --identity "$work/ca"
has 'len(d["revoked"]) == 2 and all(i["revoked"] for i in d["issued"] if i["name"] == "beta")'
! openssl verify -crl_check -CRLfile "$work/ca/revoked.crl" -CAfile "$work/ca/ca.crt" "$work/b/node.crt" \
    >"$work/said" 2>&1 || fail "openssl does not see that it is revoked"
says "revoked"
code 0 cluster join "127.0.0.1:$port" "$open" --identity "$work/d" --name beta # the name is free again
joined() { grep -q -- "^beta 0" <(tail -n 1 "$work/service"); }
eventually joined

echo "* without --identity no directory is taken for that of a daemon that does not answer"
code 1 "$rdmactl" -j cluster token --address 127.0.0.1:1
has 'd["error"]["code"] == "RDMAD_E_NO_DAEMON" and "--identity DIR" in d["error"]["text"]'
for verb in show init token "revoke nobody" "join 127.0.0.1:1 $open"; do
    # shellcheck disable=SC2086 # words
    code 1 cluster $verb
    says "no rdmad answers on $work/nobody/control.sock"
    says "--identity DIR"
    [ "$(wc -l <"$work/said")" = 1 ] || fail "said twice: $(<"$work/said")"
done
mkdir "$work/hung"
python3 -c 'import signal, socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print("here", flush=True)
signal.pause()' "$work/hung/control.sock" >"$work/hung.line" &
pids+=($!)
first_line "$work/hung.line" $! >/dev/null
code 1 "$rdmactl" -d "$work/hung" --timeout 1 cluster revoke nobody
says "rdmad does not answer on $work/hung/control.sock"
says "--identity DIR"
if [ ! -e /run/rdmad/control.sock ]; then # the machine's own, which does not run
    code 1 "$rdmactl" -d /run/rdmad cluster revoke nobody
    lacks "--identity DIR$" cat "$work/said" || fail "the machine's own directory is not looked at: $(<"$work/said")"
fi

echo "* the owner of the directory owns what root writes"
if [ "$(id -u)" = 0 ]; then
    mkdir -m 700 "$work/owned"
    chown 12345:12345 "$work/owned"
    code 0 cluster init --identity "$work/owned" --name owned
    [ -z "$(find "$work/owned" ! -uid 12345)" ] || fail "not its owner's: $(find "$work/owned" ! -uid 12345)"
fi
echo "all good"
