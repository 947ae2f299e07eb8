#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A daemon that was started by hand and dies with a core file leaves no byte of its clients' memory in
# its memory there: neither of their pools nor of what was on its way between two daemons. Registers of
# the processor, which are in the notes before it, may have the last bytes that were copied. (The service
# leaves no core at all.)
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

pattern=$(cat /proc/sys/kernel/core_pattern)
case $pattern in
\|* | */*)
    echo "skipped: core files go elsewhere here, to '$pattern'"
    exit 77
    ;;
esac
if ! ulimit -c unlimited 2>/dev/null; then
    echo "skipped: core files are not allowed here"
    exit 77
fi

# In the directory where its core file is to be; whoever starts it has the daemon's process.
in_place() { cd "$work/cores-of-$1" && shift && exec "$@"; }
for name in a b; do
    mkdir "$work/cores-of-$name"
    export -f in_place
    export work
    # shellcheck disable=SC2016 # expands in there
    start_daemon "$name" bash -c 'in_place "$@"' in_place "$name"
done

# 8 MiB, in which each 64 bytes have the word.
word=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
head -c 8388608 < <(yes "$word=$word") >"$work/file"
"$rdmactl" -d "$work/a" share "$work/file" --ttl 60s >"$work/uri" 2>"$work/share.log" &
sharer=$!
pids+=("$sharer")
uri=$(first_line "$work/uri" "$sharer")
"$rdmactl" -d "$work/b" fetch "$uri" -o "$work/got" >/dev/null || fail "fetch"
cmp "$work/file" "$work/got" || fail "other bytes"
"$rdmactl" -d "$work/a" fetch "$uri" -o "$work/got" >/dev/null || fail "fetch"
# One is under way when they die, both at once, for a link that is lost takes its buffers along.
while "$rdmactl" -d "$work/b" fetch "$uri" -o "$work/got" >/dev/null 2>&1; do :; done &
pids+=($!)
sleep 0.2
kill -ABRT "${pids[0]}" "${pids[1]}"
for ((i = 0; i < 2; i++)); do
    wait "${pids[i]}" 2>/dev/null || true
done
for name in a b; do
    core=$(find "$work/cores-of-$name" -type f -size +0)
    if [ -z "$core" ]; then
        echo "skipped: no core file came, of pattern '$pattern'"
        exit 77
    fi
    grep -q -a "$work/$name" "$core" || fail "$name: not a core file of the daemon's"
    read -r at size < <(readelf -lW "$core" | awk '$1 == "NOTE" { print $2, $5 }')
    words=$(tail -c "+$((at + size + 1))" "$core" | grep -c -a "$word" || true)
    [ "$words" = 0 ] || fail "$name: its core has $words lines with words of a client's"
    echo "* daemon $name: a core of $(stat -c %s "$core") bytes, none of a client's"
    rm "$core"
done
