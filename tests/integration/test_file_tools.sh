#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# share and fetch beyond one file at one time: directories, a fetch that goes on where another was
# interrupted, several readers, checksums, and what goes wrong: a full disk, a source that shrinks,
# what may not be read. Each of them says what, in a sentence, and leaves nothing half.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"
# shellcheck source=tests/integration/sharing.sh
. "$(dirname "$0")/sharing.sh"

start_daemon a
start_daemon b
a() { "$rdmactl" -d "$work/a" "$@"; }
b() { "$rdmactl" -d "$work/b" "$@"; }

field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
refused() { # SENTENCE COMMAND...: it fails with exit code 1, in these words
    local sentence=$1 got=0
    shift
    "$@" >"$work/said" 2>&1 || got=$?
    [ "$got" = 1 ] || fail "exit $got of $*: $(<"$work/said")"
    grep -q -- "$sentence" "$work/said" || fail "not \"$sentence\" but: $(<"$work/said")"
}

mkdir "$work/out"
head -c 9000001 /dev/urandom >"$work/file"

shared_checksum() {
    eventually grep -q 'checksum [0-9a-f]\{32\}$' "$work/share.log" # it is told after the URI
    sed -n 's/.*checksum //p' "$work/share.log"
}

echo "* the checksum that share tells is the one that fetch compares"
share "$work/file"
sum=$(shared_checksum)
b fetch "$uri" -o "$work/out/file" 2>"$work/said" || fail "$(<"$work/said")"
grep -q "checksum $sum is right" "$work/said" || fail "fetch compares none: $(<"$work/said")"
[ "$(b -j fetch "$uri" -o "$work/out/file" | field checksum)" = "$sum" ] || fail "-j has another"

echo "* several readers of one share, each at its own pace"
b fetch "$uri" 2>/dev/null | (sleep 0.5 && cat) >"$work/out/slow" &
readers=($!)
for i in 1 2 3; do
    { if [ "$i" = 2 ]; then a fetch "$uri" -o "$work/out/$i"; else b fetch "$uri" -o "$work/out/$i"; fi; } 2>/dev/null &
    readers+=($!)
done
for reader in "${readers[@]}"; do wait "$reader" || fail "a reader ended with $?"; done
for i in slow 1 2 3; do cmp "$work/file" "$work/out/$i" || fail "reader $i has other bytes"; done
# Two of the same file at the same place do not disturb each other.
b fetch "$uri" -o "$work/out/same" 2>/dev/null &
first=$!
b fetch "$uri" -o "$work/out/same" 2>"$work/said" || fail "beside another fetch: $(<"$work/said")"
wait "$first" || fail "the first of two fetches at one place"
cmp "$work/file" "$work/out/same"

echo "* what an earlier fetch has left is used, as far as its checksum is right"
part=$work/out/again.${sum:0:16}.part
cp "$work/file" "$part"
printf 'wrong' | dd of="$part" bs=1 seek=3000000 conv=notrunc status=none # the length says nothing
[ "$(b -j fetch "$uri" -o "$work/out/again" | field resumed_bytes)" = $((9000001 - 262144)) ] ||
    fail "not all but one piece were taken"
cmp "$work/file" "$work/out/again" || fail "what was wrong has stayed"
[ ! -e "$part" ] || fail "the part is still there"
head -c 9000001 /dev/zero >"$part"
[ "$(b -j fetch "$uri" -o "$work/out/again" | field resumed_bytes)" = 0 ] || fail "zeros were taken for the file"
cmp "$work/file" "$work/out/again"
cp "$work/file" "$part"
b -j fetch --no-resume "$uri" -o "$work/out/again" | grep -q '"resumed_bytes":0' || fail "--no-resume resumes"
rm "$part"
# Owned by somebody else, it may change under us.
if [ "$(id -u)" = 0 ]; then
    cp "$work/file" "$part"
    chown 12345 "$part"
    [ "$(b -j fetch "$uri" -o "$work/out/again" | field resumed_bytes)" = 0 ] || fail "another's part was used"
    rm "$part"
fi
unshare_it

echo "* an interrupted fetch says what it kept, and the same command goes on there"
head -c 40000000 /dev/urandom >"$work/large"
share "$work/large"
b limit set "uid:$(id -u)" bytes_per_second=2500000 >/dev/null
"$rdmactl" -d "$work/b" fetch "$uri" -o "$work/out/large" >"$work/said" 2>&1 &
fetcher=$!
some_has_come() { [ "$(du -sk "$work"/out/large.*.part 2>/dev/null | cut -f1)" -ge 1024 ]; } 2>/dev/null
eventually some_has_come
kill -TERM "$fetcher"
wait "$fetcher" && fail "it was over before it was interrupted"
b limit set "uid:$(id -u)" bytes_per_second=0 >/dev/null
grep -q 'interrupted after [0-9]* of 40000000 bytes' "$work/said" || fail "$(<"$work/said")"
grep -q "kept in $work/out/large.*.part: the same command goes on there" "$work/said" || fail "$(<"$work/said")"
b -j fetch "$uri" -o "$work/out/large" >"$work/said" || fail "$(<"$work/said")"
[ "$(field resumed_bytes <"$work/said")" -gt 0 ] || fail "it began anew: $(<"$work/said")"
cmp "$work/large" "$work/out/large" || fail "other bytes after an interruption"
rm "$work/out/large"

echo "* a fetch that is paused says so"
b limit set "uid:$(id -u)" bytes_per_second=2500000 >/dev/null
"$rdmactl" -d "$work/b" fetch "$uri" -o "$work/out/large" >"$work/said" 2>&1 &
fetcher=$!
eventually some_has_come
session=$(b -j session show | python3 -c 'import json, sys
print(next(s["id"] for s in json.load(sys.stdin)["sessions"] if s["pid"] == int(sys.argv[1])))' "$fetcher")
b session pause "$session" --why 'please wait' >/dev/null
eventually grep -q '^rdmactl: .*please wait' "$work/said"
b session resume "$session" >/dev/null
eventually grep -q '^rdmactl: .*resumed' "$work/said"
b limit set "uid:$(id -u)" bytes_per_second=0 >/dev/null
wait "$fetcher" || fail "after a pause: $(<"$work/said")"
cmp "$work/large" "$work/out/large" || fail "other bytes after a pause"
rm "$work/out/large"

echo "* of a lease that has ended another one of the same contents is what goes on there"
b limit set "uid:$(id -u)" bytes_per_second=2500000 >/dev/null
"$rdmactl" -d "$work/b" fetch "$uri" -o "$work/out/large" >"$work/said" 2>&1 &
fetcher=$!
eventually some_has_come
unshare_it
wait "$fetcher" && fail "it was over before its lease was"
b limit set "uid:$(id -u)" bytes_per_second=0 >/dev/null
grep -q "part: with a new URI of the same contents, fetch -o $work/out/large goes on there" "$work/said" || fail "$(<"$work/said")"
share "$work/large"
b -j fetch "$uri" -o "$work/out/large" >"$work/said" || fail "$(<"$work/said")"
[ "$(field resumed_bytes <"$work/said")" -gt 0 ] || fail "it began anew: $(<"$work/said")"
rm "$work/out/large"

echo "* share that is asked to end takes the lease back, and who reads is told"
b fetch "$uri" 2>"$work/said" | (until [ -e "$work/over" ]; do sleep 0.05; done && cat) >/dev/null &
reader=$!
eventually sh -c "'$rdmactl' -d '$work/a' -j lease show | grep -q '\"attached\":1'"
unshare_it
touch "$work/over"
grep -q 'ended: taken back' "$work/share.log" || fail "$(<"$work/share.log")"
wait "$reader" && fail "a reader of a lease that was taken back is content"
grep -qi 'revoked by its owner' "$work/said" || fail "the reader is told: $(<"$work/said")"

echo "* a directory"
mkdir -p "$work/tree/sub/deep/er" "$work/tree/empty" "$work/tree/ -n"
cp "$work/file" "$work/tree/sub/large"
for ((i = 0; i < 200; i++)); do echo "$i" >"$work/tree/sub/deep/$i"; done
: >"$work/tree/none"
printf 'x' >"$work/tree/sub/"$'new\nline'
chmod 750 "$work/tree/sub"
chmod 600 "$work/tree/sub/deep/7"
chmod 4755 "$work/tree/sub/deep/8"
cp -a "$work/tree" "$work/expected"
chmod 755 "$work/expected/sub/deep/8"
ln -s /etc/passwd "$work/tree/sub/link"
mkfifo "$work/tree/sub/pipe"
share "$work/tree"
grep -q 'left out of .*: sub/link, ..., 2 in all' "$work/share.log" || fail "$(<"$work/share.log")"
(umask 022 && b fetch "$uri" -o "$work/out/tree/" 2>"$work/said") || fail "$(<"$work/said")"
diff -r "$work/expected" "$work/out/tree" || fail "the directories differ"
(cd "$work/expected/sub" && find . -printf '%m %y %s %p\n' | sort) >"$work/modes"
(cd "$work/out/tree/sub" && find . -printf '%m %y %s %p\n' | sort) | sed 's/ d [0-9]* / d 4096 /' |
    diff <(sed 's/ d [0-9]* / d 4096 /' "$work/modes") - || fail "modes differ"
refused 'is there already' b fetch "$uri" -o "$work/out/tree"
refused 'fetch it with -o DIR' b fetch "$uri"
mkdir "$work/out/empty"
b fetch "$uri" -o "$work/out/empty" 2>/dev/null || fail "into an empty directory"
diff -r "$work/expected" "$work/out/empty"
(cd "$work/out" && mkdir in && cd in && b fetch "$uri" -o tree 2>/dev/null && diff -r "$work/expected" tree)
refused '--max-entries' b fetch --max-entries 10 "$uri" -o "$work/out/never"
refused '--max-depth' b fetch --max-depth 2 "$uri" -o "$work/out/never"
[ -z "$(find "$work/out" -name 'never*')" ] || fail "a refused directory leaves something"

echo "* an interrupted directory goes on, too, and what was changed meanwhile is fetched anew"
sum=$(shared_checksum)
part=$work/out/twice.${sum:0:16}.part
cp -r "$work/expected" "$part"
chmod -R u+rwX "$part"
chmod 700 "$part"
echo wrong >"$part/sub/deep/9"
rm "$part/sub/deep/10"
b -j fetch "$uri" -o "$work/out/twice" >"$work/said" || fail "$(<"$work/said")"
[ "$(field resumed_bytes <"$work/said")" -gt 8000000 ] || fail "it began anew: $(<"$work/said")"
diff -r "$work/expected" "$work/out/twice" || fail "what was wrong has stayed"
unshare_it
refused 'took it back\|no such lease\|gone\|revoked' b fetch "$uri" -o "$work/out/never"

echo "* a lease without checksums is fetched, and says that it has none"
share --raw "$work/file"
b fetch "$uri" -o "$work/out/raw" 2>"$work/said" || fail "$(<"$work/said")"
grep -q 'no checksum' "$work/said" || fail "$(<"$work/said")"
cmp "$work/file" "$work/out/raw"
unshare_it

echo "* bytes that are not those that were summed are found"
share "$work/file"
b fetch "$uri" -o "$work/out/good" 2>/dev/null
RDMAD_RUNTIME_DIR=$work/a "$RDMAD_BUILD/examples/fetch" "$uri" "$work/bundle"
unshare_it
damage() { # OFFSET
    cp "$work/bundle" "$work/damaged"
    printf '\377\376\375' | dd of="$work/damaged" bs=1 seek="$1" conv=notrunc status=none
    share --raw "$work/damaged"
}
damage 5000000
refused 'bytes 4980736 to 5242879 have not the checksum' b fetch "$uri" -o "$work/out/damaged"
unshare_it
damage $((9000001 + 40))
refused "checksums are not those that its owner made" b fetch "$uri" -o "$work/out/damaged"
unshare_it
[ ! -e "$work/out/damaged" ] || fail "damaged bytes became a file"

echo "* what cannot be shared or written is told"
refused 'No such file' a share "$work/nothing"
share "$work/file"
refused "nodir/x: there is no directory $work/nodir\$" a fetch "$uri" -o "$work/nodir/x"
refused "there is no directory $work/file\$" a fetch --no-resume "$uri" -o "$work/file/x"
code=0
a fetch "$uri" -o '' >"$work/said" 2>&1 || code=$?
[ "$code" = 2 ] || fail "-o '' ends with $code: $(<"$work/said")"
(cd "$work/out" && a fetch "$uri" -o here 2>/dev/null && cmp "$work/file" here) || fail "into the directory that one is in"
unshare_it
if [ "$(id -u)" = 0 ]; then
    mkdir "$work/closed"
    echo secret >"$work/closed/secret"
    chmod 700 "$work/closed" && chmod 600 "$work/closed/secret"
    chmod 755 "$work" "$work/a"
    other() { setpriv --reuid 12345 --regid 12345 --clear-groups "$rdmactl" -d "$work/a" "$@"; }
    refused 'closed: Permission denied' other share "$work/closed"
    chmod 755 "$work/closed"
    refused 'closed/secret: Permission denied' other share "$work/closed"
    share "$work/file"
    refused "theirs: nothing can be made in the directory $work: Permission denied" other fetch "$uri" -o "$work/theirs"
    unshare_it
    # Whose limit it is the daemon says, and remembers that it was met.
    a limit set uid:12345 pool_bytes_per_uid=1000000 >/dev/null
    chmod 644 "$work/file"
    refused ': uid 12345 may have 1000000 bytes .*raise limits.pool_bytes_per_uid' other share "$work/file"
    refused 'input has 1 MiB and perhaps more: uid 12345 may' other share - < <(cat "$work/file")
    a events --kind refused --of uid:12345 >"$work/said"
    [ "$(grep -c pool_bytes_per_uid "$work/said")" = 2 ] || fail "$(<"$work/said")"
fi
# A file system that is too small, in a name space of the test's own.
share "$work/file"
if unshare -rm true 2>/dev/null; then
    # shellcheck disable=SC2016 # its own variables
    unshare -rm sh -c 'mount -t tmpfs -o size=4m none "$1" && "$2" -d "$3" fetch "$4" -o "$1/file"; code=$?; ls -A "$1"; exit $code' \
        sh "$work/out" "$rdmactl" "$work/b" "$uri" >"$work/said" 2>&1 && fail "more than there is room for"
    grep -q 'No space left on device: it needs 8.58 MiB more' "$work/said" || fail "$(<"$work/said")"
    ! grep -q 'part$' "$work/said" || fail "a full disk leaves something: $(<"$work/said")"
else
    echo "skipped: a full disk: no name spaces here"
fi
unshare_it

echo "* a source that shrinks while it is read"
shares() { "$rdmactl" -d "$work/a" -j session show | grep -q rdmactl-share; }
idle() { ! shares; }
refused_as_shorter() { # on a busy machine it may have been read before it shrinks, and is shared
    eventually idle
    rm -f "$work/shrinks" "$work/uri"
    truncate -s 512M "$work/shrinks"
    "$rdmactl" -d "$work/a" share "$work/shrinks" >"$work/uri" 2>"$work/said" &
    sharer=$!
    eventually shares # its session is there before it reads
    truncate -s 0 "$work/shrinks"
    until [ -s "$work/uri" ] || ! kill -0 "$sharer" 2>/dev/null; do sleep 0.05; done
    kill -INT "$sharer" 2>/dev/null || true
    ! wait "$sharer"
}
for ((tries = 0; tries < 5; tries++)); do ! refused_as_shorter || break; done
[ "$tries" -lt 5 ] || fail "a file that shrank was shared"
grep -q 'shrinks became shorter while it was read' "$work/said" || fail "$(<"$work/said")"
