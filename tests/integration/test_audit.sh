#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The audit of real daemons: who was admitted, granted, attached, refused, revoked and throttled, and
# what an administrator did, as lines of JSON and in the log; a file that was moved away; a flood.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

a() { "$rdmactl" -d "$work/a" "$@"; }

# event EVENT CAUSE [KEY=VALUE...]: how many such lines there are, in $file, all lines of which are JSON.
file=$work/audit.json
event() {
    python3 - "$file" "$@" <<'PYTHON'
import json, sys
want = dict(zip(("event", "cause"), sys.argv[2:4]), **dict(w.split("=") for w in sys.argv[4:]))
lines = [json.loads(line) for line in open(sys.argv[1], encoding="ascii")]
print(sum(all(str(line.get(k)) == v for k, v in want.items()) for line in lines))
PYTHON
}
# sees N EVENT...: so many of them come.
sees() {
    local tries least=$1
    shift
    for ((tries = 0; tries < 200 * ${RDMAD_TEST_PATIENCE:-1}; tries++)); do
        [ "$(event "$@")" -lt "$least" ] || return 0
        sleep 0.05
    done
    fail "no $least events $*: $(cat "$file")"
}

echo "{\"audit\": {\"file\": \"$file\"}, \"limits\": {\"leases_per_session\": 3}}" >"$work/a.json"
mkdir "$work/a"
"$rdmad" --config "$work/a.json" --runtime-dir "$work/a" --listen 127.0.0.1:0 2>"$work/a.log" &
pids+=($!)
await_daemon a $!
start_daemon b

echo "* admitted, granted, attached, here and from another daemon"
head -c 100000 /dev/urandom >"$work/file"
"$rdmactl" -d "$work/a" share "$work/file" --ttl 600s >"$work/uri" 2>"$work/share.log" &
sharer=$!
pids+=("$sharer")
uri=$(first_line "$work/uri" $sharer)
[ "$(stat -c %a "$file")" = 600 ] || fail "mode $(stat -c %a "$file")"
sees 1 admitted session uid="$(id -u)" pid=$sharer object=session
sees 1 granted lease uid="$(id -u)" pid=$sharer object=lease
a fetch "$uri" -o "$work/out" >/dev/null
sees 1 attached local
"$rdmactl" -d "$work/b" fetch "$uri" -o "$work/out" >/dev/null
sees 1 attached peer peer=
sees 1 admitted peer object=peer
eventually grep -q 'audit=granted cause=lease .*object=lease' "$work/a.log"

echo "* a stranger that goes away is called one, whether it closes or resets"
python3 - "$(a -j status | python3 -c 'import json, sys; print(json.load(sys.stdin)["listen"]["port"])')" <<'PYTHON'
import socket, struct, sys, time
for reset in False, True:
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    time.sleep(0.1)  # so that it is accepted; what is reset before that nobody sees
    if reset:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
PYTHON
sees 2 refused peer object=peer
for how in 'was closed' 'broke: Connection reset by peer'; do
    eventually grep -qE "a connection from 127.0.0.1:[0-9]+ that never said who it is $how" "$file"
done
! grep -q 'no peer at .*the daemon at 127' "$work/a.log" || fail "a stranger is called a daemon: $(<"$work/a.log")"

echo "* a wrong secret is refused, from here and from there"
wrong=${uri%%key=*}key=00112233445566778899aabbccddeeff
! a fetch "$wrong" -o "$work/out" >"$work/said" 2>&1 || fail "a wrong secret is let in"
sees 1 refused secret uid="$(id -u)"
! "$rdmactl" -d "$work/b" fetch "$wrong" -o "$work/out" >"$work/said" 2>&1 || fail "a wrong secret is let in"
sees 1 refused secret peer=
! grep -q "${uri##*key=}" "$file" "$work/a.log" || fail "the secret is in the audit"

echo "* what an administrator does, and who may not"
lease=${uri##*/lease/} lease=${lease%%\?*}
a lease revoke "$lease" >/dev/null || fail "revoke"
sees 1 admin lease.revoke uid="$(id -u)" object=lease id="$lease"

echo "* an owner revokes; who asks too often is throttled"
"$rdmactl" -d "$work/a" share "$work/file" --ttl 600s >"$work/uri2" 2>"$work/share2.log" &
owner=$!
pids+=("$owner")
own=$(first_line "$work/uri2" $owner)
lease=${own##*/lease/} lease=${lease%%\?*}
[ "$(event revoked owner)" = 0 ] || fail "revoked before: $(<"$file")"
kill -INT $owner
wait $owner || true
sees 1 revoked owner uid="$(id -u)" pid=$owner object=lease id="$lease"
eventually grep -q "lease $lease is revoked by its owner, 0 lessees are attached .*audit=revoked cause=owner" "$work/a.log"
[ "$(event revoked owner)" = 1 ] || fail "one revocation is told more than once: $(<"$file")"
[ "$(event throttled calls)" = 0 ] || fail "throttled before: $(<"$file")"
a limit set "uid:$(id -u)" calls_per_second_per_uid=2 >/dev/null
throttled() { # on a busy machine one fetch may ask no faster than it may
    a fetch "$wrong" -o "$work/out" >"$work/said" 2>&1 && fail "a guess is right"
    [ "$(event throttled calls uid="$(id -u)" object=session)" -ge 1 ]
}
eventually throttled
a limit set "uid:$(id -u)" calls_per_second_per_uid=20000 >/dev/null
eventually grep -q "uid $(id -u) makes more than 2 requests a second .*audit=throttled cause=calls" "$work/a.log"

echo "* who is held back by a rate is named, once a minute"
"$rdmactl" -d "$work/a" share "$work/file" --ttl 600s >"$work/uri3" 2>"$work/share3.log" &
pids+=($!)
rated=$(first_line "$work/uri3" $!)
for rate in bytes ops; do
    [ "$(event throttled rate.$rate)" = 0 ] || fail "throttled before: $(<"$file")"
done
a limit set "uid:$(id -u)" bytes_per_second=100000 >/dev/null
a fetch "$rated" -o "$work/out" >/dev/null
sees 1 throttled rate.bytes uid="$(id -u)"
a fetch "$rated" -o "$work/out" >/dev/null # it is put aside again
a limit set "uid:$(id -u)" bytes_per_second=0 ops_per_second=1 >/dev/null
a fetch "$rated" -o "$work/out" >/dev/null
sees 1 throttled rate.ops uid="$(id -u)"
a limit set "uid:$(id -u)" ops_per_second=0 >/dev/null
for rate in bytes ops; do
    [ "$(event throttled rate.$rate)" = 1 ] || fail "rate.$rate is told more than once: $(<"$file")"
done
eventually grep -q "uid $(id -u) asks for more than its 100000 bytes a second .*audit=throttled cause=rate.bytes" "$work/a.log"

echo "* so is a peer"
[ "$(event throttled rate.bytes object=peer)" = 0 ] || fail "throttled before: $(<"$file")"
a limit set 'peer:*unnamed*' bytes_per_second=100000 >/dev/null
for again in 1 2; do
    "$rdmactl" -d "$work/b" fetch "$rated" -o "$work/out" >/dev/null || fail "fetch $again of a peer with a rate"
done
sees 1 throttled rate.bytes object=peer
[ "$(event throttled rate.bytes object=peer)" = 1 ] || fail "a peer is told of more than once: $(<"$file")"
eventually grep -qE "peer .* at 127.0.0.1:[0-9]+ is beyond its 100000 bytes a second .*audit=throttled cause=rate.bytes" "$work/a.log"
a limit set 'peer:*unnamed*' bytes_per_second=0 >/dev/null

if [ "$(id -u)" = 0 ]; then
    chmod 755 "$work"
    chmod 666 "$work/a/control.sock"
    ! setpriv --reuid 12345 --regid 12345 --clear-groups "$rdmactl" -d "$work/a" reload >"$work/said" 2>&1 ||
        fail "anybody may reload"
    sees 1 refused permission uid=12345
fi

echo "* a flood is a few lines and a count, and the file can be moved away"
for ((i = 0; i < 40; i++)); do a fetch "$wrong" -o "$work/out" >/dev/null 2>&1 && fail "a guess is right"; done
mv "$file" "$work/audit.old"
a reload >/dev/null
eventually test -s "$file"
sees 1 admin reload
kill -TERM "${pids[0]}"
wait "${pids[0]}" || fail "the daemon ended with $?"
file=$work/audit.old
refused=$(event refused secret uid="$(id -u)")
[ "$refused" -le $((10 * (SECONDS / 60 + 1))) ] || fail "$refused lines of one uid's guesses in $SECONDS s, ten a minute"
file=$work/audit.json
# With the next minute the count may have come before the file was moved.
grep -q 'of uid [0-9]*, [0-9]* more like it were not written' "$file" "$work/audit.old" || fail "no count: $(cat "$file")"

echo "* a file that cannot be is an error, at the start and in a reload"
ln -s /etc/passwd "$work/link"
echo "{\"audit\": {\"file\": \"$work/link\"}}" >"$work/c.json"
mkdir "$work/c"
code=0
"$rdmad" --config "$work/c.json" --runtime-dir "$work/c" --listen 127.0.0.1:0 2>"$work/c.log" || code=$?
[ "$code" = 2 ] || fail "it starts with a link for an audit, or ends with $code"
grep -q "audit.file $work/link cannot be opened" "$work/c.log" || fail "$(<"$work/c.log")"
