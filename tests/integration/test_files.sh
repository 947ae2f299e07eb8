#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# What share reads and fetch writes is what users of files expect: - for the standard streams, files
# whose size is made up, modes and owners of what is overwritten, and a bar where a person waits.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

start_daemon a
a() { "$rdmactl" -d "$work/a" "$@"; }

share() { # FILE: sets $uri and $sharer; standard input is ours
    rm -f "$work/uri"
    "$rdmactl" -d "$work/a" share --ttl 10m "$1" <&0 >"$work/uri" 2>"$work/share.log" &
    sharer=$!
    pids+=("$sharer")
    uri=$(first_line "$work/uri" "$sharer")
}
end() {
    kill -INT "$sharer"
    wait "$sharer" || fail "share ended with $?: $(<"$work/share.log")"
}

head -c 300001 /dev/urandom >"$work/file"
cd "$work"

echo "* fetch -o - writes to standard output"
share "$work/file"
a fetch "$uri" -o - >"$work/out" 2>/dev/null
cmp "$work/file" "$work/out" || fail "other bytes came"
[ ! -e ./- ] || fail "a file called - was made"
got=0
a -j fetch "$uri" -o - >"$work/said" || got=$?
[ "$got" = 2 ] || fail "-j and the bytes on one standard output: exit $got"

echo "* fetch whose output nobody takes ends when it is told to"
python3 - "$rdmactl" "$work/a" "$uri" "$work/file" <<'PYTHON'
import fcntl, os, re, signal, socket, struct, subprocess, sys, tempfile, termios, time
rdmactl, directory, uri, file = sys.argv[1:]
contents = open(file, "rb").read()

def fetch(out, *options):
    return subprocess.Popen([rdmactl, "-d", directory, "fetch", uri, *options], stdout=out, stderr=subprocess.PIPE, text=True)

def waiting(fd): # bytes that nobody has read
    return struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0]

def is_told(p, what, number):
    p.send_signal(number)
    try:
        said = p.communicate(timeout=60)[1]
    except subprocess.TimeoutExpired:
        p.kill()
        sys.exit(f"FAILED: {what}: did not hear signal {number}")
    if p.returncode != 1 or "interrupted after " not in said:
        sys.exit(f"FAILED: {what}: exit {p.returncode}: {said}")

def await_full(p, fd):
    before = -1
    while p.poll() is None and (waiting(fd) == 0 or waiting(fd) != before): # and no more comes
        before = waiting(fd)
        time.sleep(0.3)

def is_whole(p, take, what):
    got = b"".join(iter(take, b""))
    said = p.communicate()[1]
    if p.returncode or got != contents:
        sys.exit(f"FAILED: {what}: exit {p.returncode}, {len(got)} bytes: {said}")

for what in "pipe", "socket":
    for number in signal.SIGTERM, signal.SIGINT, signal.SIGHUP, 0: # 0: it is read late, and whole
        if what == "pipe":
            here, there = os.pipe()
        else:
            here, there = (s.detach() for s in socket.socketpair())
            s = socket.socket(fileno=os.dup(there))
            s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            s.close()
        p = fetch(there)
        os.close(there)
        await_full(p, here)
        if number:
            is_told(p, what, number)
        else:
            is_whole(p, lambda: os.read(here, 65536), what)
        os.close(here)

with tempfile.TemporaryDirectory() as place:
    fifo = f"{place}/fifo"
    os.mkfifo(fifo)
    p = fetch(subprocess.DEVNULL, "-o", fifo)
    blocked = 0
    while p.poll() is None and not blocked >> signal.SIGTERM - 1 & 1: # until then it simply dies of it
        time.sleep(0.05)
        blocked = int(re.search(r"SigBlk:\s*(\w+)", open(f"/proc/{p.pid}/status").read())[1], 16)
    is_told(p, "a pipe without a reader", signal.SIGTERM)
    p = fetch(subprocess.DEVNULL, "-o", fifo)
    time.sleep(0.3)
    here = os.open(fifo, os.O_RDONLY)
    await_full(p, here)
    is_whole(p, lambda: os.read(here, 65536), "a pipe that is read late")
PYTHON

echo "* a new file has the mode that umask leaves"
(umask 027 && a fetch "$uri" -o "$work/new" 2>/dev/null)
[ "$(stat -c %a "$work/new")" = 640 ] || fail "mode $(stat -c %a "$work/new")"

echo "* what is overwritten keeps mode and owner"
for mode in 600 755; do
    echo old >"$work/kept"
    chmod "$mode" "$work/kept"
    [ "$(id -u)" != 0 ] || chown 12345:12346 "$work/kept"
    before=$(stat -c '%a %u %g' "$work/kept")
    a fetch "$uri" -o "$work/kept" 2>/dev/null
    cmp "$work/file" "$work/kept" || fail "other bytes came"
    [ "$(stat -c '%a %u %g' "$work/kept")" = "$before" ] ||
        fail "$before became $(stat -c '%a %u %g' "$work/kept")"
done

echo "* a read-only file is not overwritten"
if [ "$(id -u)" = 0 ]; then
    mkdir "$work/theirs"
    echo old >"$work/theirs/kept"
    chmod 444 "$work/theirs/kept"
    chown -R 12345:12345 "$work/theirs"
    chmod 755 "$work" "$work/a"
    if setpriv --reuid 12345 --regid 12345 --clear-groups "$rdmactl" -d "$work/a" fetch "$uri" \
        -o "$work/theirs/kept" 2>"$work/said"; then
        fail "a read-only file was overwritten"
    fi
    grep -q 'Permission denied' "$work/said" || fail "$(<"$work/said")"
    [ "$(<"$work/theirs/kept")" = old ] || fail "a read-only file has changed"
else
    echo "skipped: this needs root"
fi
end

echo "* share - reads standard input to its end"
mkfifo "$work/pipe"
(sleep 0.2 && head -c 200001 "$work/file" && sleep 0.2 && tail -c +200002 "$work/file") >"$work/pipe" &
share - <"$work/pipe"
a fetch "$uri" -o "$work/out" 2>/dev/null
cmp "$work/file" "$work/out" || fail "other bytes came from standard input"
end
share - </dev/null
a -j fetch "$uri" -o "$work/out" | grep -q '"bytes": *0[,}]' || fail "nothing is not nothing"
end
"$rdmactl" -d "$work/a" share - <>"$work/pipe" >/dev/null 2>&1 & # it never ends
sharer=$!
pids+=("$sharer")
eventually catches "$sharer"
kill -INT "$sharer"
wait "$sharer" || fail "an interrupted share - ended with $?"

echo "* files of /proc and /sys have what is in them"
share /proc/cmdline
a fetch "$uri" -o "$work/out" 2>/dev/null
cmp /proc/cmdline "$work/out" || fail "/proc/cmdline: $(<"$work/out")"
end
if [ -r /sys/kernel/mm/transparent_hugepage/enabled ]; then
    share /sys/kernel/mm/transparent_hugepage/enabled
    a fetch "$uri" -o "$work/out" 2>/dev/null
    cmp /sys/kernel/mm/transparent_hugepage/enabled "$work/out" || fail "/sys: $(<"$work/out")"
    end
fi

echo "* who waits at a terminal sees how far it is; nobody else does"
python3 - "$rdmactl" "$work/a" "$work/file" <<'PYTHON' || fail "no progress at a terminal"
import os, pty, subprocess, sys, time
rdmactl, directory, file = sys.argv[1:]
there, here = pty.openpty()
p = subprocess.Popen([rdmactl, "-d", directory, "share", "-"], stdin=subprocess.PIPE,
                     stdout=subprocess.PIPE, stderr=here)
os.close(here)
for _ in range(6):
    p.stdin.write(b"x" * 50000)
    p.stdin.flush()
    time.sleep(0.06)
p.stdin.close()
uri = p.stdout.readline()
assert uri.startswith(b"rdmad://"), uri
p.terminate()
p.wait()
seen = b""
try:
    while True:
        more = os.read(there, 4096)
        if not more:
            break
        seen += more
except OSError:
    pass
assert b"\r" in seen and b"KiB/s" in seen.replace(b"MiB/s", b"KiB/s"), seen
PYTHON
head -c 20000000 /dev/zero >"$work/long"
share "$work/long"
a limit set "uid:$(id -u)" bytes_per_second=10000000 >/dev/null
python3 - "$rdmactl" "$work/a" "$uri" "$work/slow" <<'PYTHON' || fail "no time left at a terminal"
import os, pty, re, subprocess, sys
rdmactl, directory, uri, file = sys.argv[1:]
def start_fetch():
    there, here = pty.openpty()
    p = subprocess.Popen([rdmactl, "-d", directory, "fetch", uri, "-o", file], stderr=here)
    os.close(here)
    return p, there
def read_to_end(there):
    seen = b""
    try:
        while True:
            more = os.read(there, 4096)
            if not more:
                break
            seen += more
    except OSError:
        pass
    return seen
def shown_of_a_fetch():
    p, there = start_fetch()
    seen = read_to_end(there)
    assert p.wait() == 0, seen
    return seen
def rates_of(seen):
    return [float(r) * (1024 if unit == b"M" else 1) for r, unit in re.findall(rb"  ([0-9.]+) ([KM])iB/s", seen)]
for _ in range(5): # on a busy machine it may be drawn less often, and be slower at its end
    seen = shown_of_a_fetch()
    rates = rates_of(seen)
    if seen.split(b" left")[0].count(b"\r") >= 5 and rates[-2] > 0.75 * rates[-1]:
        break
assert re.search(rb"\r\[=* *\] +\d+ %  [0-9.]+ MiB  [0-9.]+ [KM]iB/s  0:0\d left", seen), seen
assert seen.split(b" left")[0].count(b"\r") >= 5, seen # from some tenths of a second nobody can guess
assert rates[-2] > 0.75 * rates[-1], seen # of late it was as fast as all the time
assert re.search(rb"\] 100 %  19.1 MiB  [0-9.]+ [KM]iB/s  in ", seen), seen
subprocess.run([rdmactl, "-d", directory, "limit", "set", f"uid:{os.getuid()}", "bytes_per_second=2000000"], check=True,
               stdout=subprocess.DEVNULL) # it is not over before it is interrupted
p, there = start_fetch()
seen = b""
while b" left" not in seen:
    seen += os.read(there, 4096)
p.terminate()
seen = read_to_end(there) # the bar may be drawn once more before
assert p.wait() == 1
assert b"\r\x1b[Krdmactl: interrupted after " in seen, seen # not behind the bar
PYTHON
a limit set "uid:$(id -u)" bytes_per_second=0 >/dev/null
end
share "$work/file"
end
! grep -q '/s' "$work/share.log" || fail "progress into a file: $(<"$work/share.log")"
