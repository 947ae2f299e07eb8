#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A disk that is full under the runtime directory, the identities, the audit and a log: daemons serve on, and say so
# once; what writes a file ends in words, and leaves the one that was there whole; a start ends in words, too. When there
# is room again all goes on, and what was not written is counted. Programs are at work all the time and see nothing, but
# that a daemon is killed.
if [ "$(id -u)" != 0 ] || { [ -z "${RDMAD_ROOT_ENTERED:-}" ] && ! unshare --mount --propagation private true 2>/dev/null; }; then
    echo "skipped: only root can mount a small disk for itself, in a mount namespace"
    exit 77
fi
[ -n "${RDMAD_ROOT_ENTERED:-}" ] || RDMAD_ROOT_ENTERED=1 exec unshare --mount --propagation private "$0"
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"
# shellcheck source=tests/support/certificates.sh
. "$(dirname "$0")/../support/certificates.sh"
trap 'code=$?; set +e; umount -l "$work/disk"; (exit "$code"); stop_all' EXIT

disk=$work/disk
mkdir "$disk"
mount -t tmpfs -o size=256k,mode=755 tmpfs "$disk" || {
    echo "skipped: no tmpfs can be mounted here"
    exit 77
}
fill() { dd if=/dev/zero of="$disk/filler" bs=4096 status=none 2>/dev/null || true; }
is_full() { ! head -c 4096 /dev/zero 2>/dev/null >"$disk/probe" && rm "$disk/probe"; }
empty() { rm "$disk/filler"; }

# kept COMMAND...: it fails because the disk is full, in words, and no file of the identities is another afterwards.
identities() { (cd "$disk" && find ./*.id -type f ! -name '.lock' -exec sha256sum {} + | sort -k 2); }
kept() {
    is_full || fail "the disk is not full: $(df "$disk")"
    identities >"$work/was"
    expect_refused "$no_room" "$@"
    identities >"$work/is"
    diff "$work/was" "$work/is" || fail "$*: files have changed"
}
no_room='No space left on device'

run() { # NAME RUNTIME LOG LISTEN
    mkdir -p "$work/$2"
    "$rdmad" --config "$work/$1.json" --runtime-dir "$work/$2" --identity "$disk/$1.id" --listen "$4" 2>>"$3" &
    pids+=($!)
    pid_of[$1]=$!
}

# nearly_due NAME: node.crt is to be renewed soon.
nearly_due() {
    openssl req -new -key "$disk/$1.id/node.key" -out "$work/ca/request" -subj "/CN=$1" 2>/dev/null
    printf 'subjectAltName = DNS:%s\nextendedKeyUsage = serverAuth, clientAuth\n' "$1" >"$work/ca/extensions"
    openssl ca -batch -notext -config "$work/ca/config" -in "$work/ca/request" -extfile "$work/ca/extensions" \
        -startdate "$(date -u -d '-1 day' +%Y%m%d%H%M%SZ)" -enddate "$(date -u -d '+20 minutes' +%Y%m%d%H%M%SZ)" \
        -out "$work/ca/new.crt" 2>"$work/ca/log" || fail "$(<"$work/ca/log")"
    cp "$work/ca/new.crt" "$disk/alpha.id/issued/$1.crt"
    cat "$work/ca/new.crt" "$work/ca/ca.crt" >"$disk/$1.id/node.crt"
}

says() { grep -qE -- "$2" "$1"; }

# goes_on WORDS: the programs have seen nothing.
goes_on() {
    kill -0 "$load" 2>/dev/null || fail "$1: a program noticed: $(<"$work/load.log")"
}

keep_port
a() { ctl disk/a "$@"; }
a cluster init --name alpha --identity "$disk/alpha.id" --address "127.0.0.1:$port" >"$work/init"
make_ca "$work/ca" cluster
cp "$disk/alpha.id/ca.crt" "$disk/alpha.id/ca.key" "$work/ca/"
echo "{\"audit\": {\"file\": \"$disk/audit.json\"}}" >"$work/alpha.json"
echo '{}' | tee "$work/beta.json" >"$work/gamma.json"
run alpha disk/a "$work/a.log" "127.0.0.1:$port"
await_daemon disk/a "${pid_of[alpha]}"
read -r -a join < <(tail -n 1 "$work/init")
ctl b "${join[@]:1}" --name beta --identity "$disk/beta.id" >"$work/said" || fail "$(<"$work/said")"
run beta b "$work/b.log" 127.0.0.1:0
await_daemon b "${pid_of[beta]}"
token=$(a cluster token --identity "$disk/alpha.id" --address "127.0.0.1:$port" | tail -n 1 | awk '{print $5}')
mkfifo "$work/stop"
"$RDMAD_BUILD/tests/integration/steady_load" "$disk/a" "$work/b" killed <"$work/stop" >"$work/load" 2>"$work/load.log" &
load=$!
pids+=("$load")
exec 9>"$work/stop"
first_line "$work/load" "$load" >/dev/null

echo "* daemons serve on, and the audit's disk is told of once"
fill
is_full || fail "it is not full"
head -c 100000 /dev/urandom >"$work/file"
a share "$work/file" >"$work/uri" 2>/dev/null &
pids+=($!)
uri=$(first_line "$work/uri" $!)
audit_full() { grep -c 'audit.file takes no events' "$work/a.log" || true; }
# Until pages that had room have none.
for ((n = 0; n < 200; n++)); do
    ctl b fetch "$uri" -o "$work/got" >"$work/said" 2>&1 || fail "a fetch: $(<"$work/said")"
    a fetch "$uri" -o "$work/got" >"$work/said" 2>&1 || fail "a fetch: $(<"$work/said")"
    cmp "$work/file" "$work/got"
    ((n < 20 || $(audit_full) == 0)) || break
done
[ "$(audit_full)" = 1 ] || fail "it is told $(audit_full) times that the audit's disk is full"
grep -q "audit.file takes no events, they are in the log alone until it does: $no_room" "$work/a.log" || fail "in other words"
goes_on "a full disk"

echo "* what writes an identity says why it does not, and leaves all files as they are"
kept a cluster token --identity "$disk/alpha.id" --address "127.0.0.1:$port"
kept a cluster revoke beta --identity "$disk/alpha.id"
kept ctl d cluster join "127.0.0.1:$port" "$token" --name delta --identity "$disk/delta.id"
[ "$(find "$disk/delta.id" -type f ! -name .lock)" = "" ] || fail "left behind: $(find "$disk/delta.id" -type f)"
kept ctl e cluster init --name other --identity "$disk/other.id" --address 127.0.0.1:1

echo "* with room again the audit goes on, and has the count of what it lacks"
empty
kept_count() { grep -q '"event":"throttled","cause":"audit.slow".*[0-9] events were not written: '"$no_room" "$disk/audit.json"; }
a reload >/dev/null # an event
eventually kept_count
eventually says "$work/a.log" "audit.file takes events again; [0-9]* are in the log alone"
a cluster token --identity "$disk/alpha.id" --address "127.0.0.1:$port" >/dev/null || fail "no token"
ctl d cluster join "127.0.0.1:$port" "$token" --name delta --identity "$disk/delta.id" >"$work/said" || fail "$(<"$work/said")"
ctl e cluster init --name other --identity "$disk/other.id" --address 127.0.0.1:1 >"$work/said" || fail "$(<"$work/said")"

# renewal NAME DIRECTORY LOG WORDS: it finds no room and says so, the certificate stays, and comes when there is room.
renewal() {
    nearly_due "$1"
    fill
    identities >"$work/was"
    ctl "$2" reload >/dev/null
    eventually says "$3" "next certificate is not got from $4"
    eventually says "$work/a.log" "cannot write $disk/alpha.id/issued/$1.crt: $no_room" # where the CA is
    identities >"$work/is"
    diff "$work/was" "$work/is" || fail "files have changed"
    empty
    ctl "$2" reload >/dev/null
    eventually says "$3" "$1 has its next certificate.* audit=admin cause=identity.renewed"
    identities >"$work/is"
    ! cmp -s "$work/was" "$work/is" || fail "$1 has the certificate that it had"
    goes_on "a renewal on a full disk"
}
echo "* a renewal that finds no room says so, where the CA is and where it is not"
renewal beta b "$work/b.log" "127.0.0.1:$port, .*: the node of the CA cannot do that now; its log says why"
renewal alpha disk/a "$work/a.log" "the CA here, .*: cannot write .*$no_room"

echo "* a start on a full disk ends with a sentence, and the next one resumes what there was"
fill
kill -KILL "${pid_of[alpha]}"
wait "${pid_of[alpha]}" 2>/dev/null || true
sum=$(sha256sum <"$disk/a/node.secret")
code=0
timeout $((30 * ${RDMAD_TEST_PATIENCE:-1})) "$rdmad" --config "$work/alpha.json" --runtime-dir "$disk/a" --identity "$disk/alpha.id" \
    --listen "127.0.0.1:$port" 2>"$work/said" || code=$?
[ "$code" = 1 ] || fail "it ends with $code: $(<"$work/said")"
grep -q "cannot write $disk/a/node.secret: $no_room" "$work/said" || fail "it says: $(<"$work/said")"
[ "$(sha256sum <"$disk/a/node.secret")" = "$sum" ] || fail "node.secret has changed"
empty
run alpha disk/a "$work/a.log" "127.0.0.1:$port"
resumed() { goes_on "a start on a full disk" && grep -q 'owner resumed' "$work/load"; }
eventually resumed

echo "* a log on a full disk: the daemon serves, and counts what it could not write"
run gamma disk/c "$disk/c.log" 127.0.0.1:0
await_daemon disk/c "${pid_of[gamma]}"
fill
for ((n = 0; n < 40; n++)); do
    rm -f "$work/uri"
    ctl disk/c share "$work/file" --once >"$work/uri" 2>/dev/null &
    pids+=($!)
    uri=$(first_line "$work/uri" $!)
    ctl disk/c fetch "$uri" -o "$work/got" >"$work/said" 2>&1 || fail "a fetch: $(<"$work/said")"
done
empty
ctl disk/c reload >/dev/null # a line
eventually says "$disk/c.log" "warning: [0-9]* lines were not written: $no_room"
[ "$(grep -c 'lines were not written' "$disk/c.log")" = 1 ] || fail "it is told more than once"
! grep -E '.[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3} [a-z]+: ' "$disk/c.log" || fail "a line begins behind one of which only a part was taken"
kill -TERM "${pid_of[gamma]}"
wait "${pid_of[gamma]}" || fail "it ended with $?"

echo enough >&9
wait "$load" || fail "a program noticed: $(<"$work/load.log")"
tail -n 1 "$work/load"
