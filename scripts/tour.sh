#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# scripts/tour.sh [--installed] >docs/TOUR.md
#
# A first tour of rdmad, and five bad nights. It runs the steps at the end of this file and writes what they say as
# docs/TOUR.md. test_packages and test_tour compare with the committed document.
#
# With --installed all is real: a clean Debian with systemd, which is root's to spoil, and the packages in the current
# directory. test_packages makes such a one. Without it apt-get and systemctl are functions that start and stop the
# programs of the build tree (RDMAD_BUILD, default build) in a network of their own, where /run and /etc are folders of
# a temporary directory: so whoever changes what a command says has the new document in seconds.
#
# All words are those of the programs. What differs from run to run is written as ~ : times, rates, process ids, the
# amount of memory. Both ways take root.
# shellcheck disable=SC2016 # a step is text until it is run
set -euo pipefail
export LC_ALL=C
umask 022
exec 3>&2 # a step has its own

case "$#:${1:-}" in
0:) world=build ;;
1:--installed) world=packages ;;
*)
    echo "usage: scripts/tour.sh [--installed]" >&2
    exit 2
    ;;
esac
[ "$(id -u)" = 0 ] || { echo "skipped: only root can take the tour" >&2; exit 77; }
[ -z "$(ls /sys/class/infiniband 2>/dev/null)" ] || { echo "skipped: the tour is for a machine without RDMA" >&2; exit 77; }
if [ $world = build ] && [ -z "${TOUR_ENTERED:-}" ]; then
    unshare --net --uts --mount true 2>/dev/null || { echo "skipped: no namespaces can be made here" >&2; exit 77; }
    TOUR_ENTERED=1 exec unshare --net --uts --mount --propagation private "$0" "$@"
fi
if [ $world = packages ]; then
    [ -d /run/systemd/system ] || { echo "tour.sh: systemd does not run here" >&2; exit 1; }
    [ ! -e /etc/rdmad.json ] || { echo "tour.sh: this machine has rdmad's settings, which the tour would overwrite" >&2; exit 1; }
    ls ./rdmad_*.deb ./rdmactl_*.deb ./librdmad0_*.deb >/dev/null
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/rdmad-tour.XXXXXX")
chmod 755 "$work"
cleanup() {
    local code=$? pid
    trap '' INT TERM
    [ "$code" = 0 ] || tail -n 5 "$work"/said "$work"/*.log >&3 2>/dev/null || true
    for pid in $(jobs -p); do # each is a process group
        kill -TERM -- "-$pid" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    umount -l "$work/run" 2>/dev/null || true
    rm -rf "$work"
    exit "$code"
}
trap cleanup EXIT
trap 'exit 1' INT TERM HUP
declare -A daemons=()
hostname one

# ---- where things are ----------------------------------------------------------------------------

packages=$PWD
mkdir "$work/files"
if [ $world = packages ]; then
    ln -s "$packages"/*.deb "$work/files"
    real() { cat; }
    shown() { cat; }
else
    build=$(cd "${RDMAD_BUILD:-build}" && pwd)
    mkdir -p "$work/etc" "$work/bin" "$work/run"
    mount -t tmpfs -o mode=755 tmpfs "$work/run"
    cp "$build/daemon/rdmad" "$build/rdmactl/rdmactl" "$work/bin"
    export PATH=$work/bin:$PATH RDMAD_RUNTIME_DIR=$work/run/rdmad
    real() { sed -e "s,/run/rdmad,$work&,g; s,/etc/rdmad,$work&,g"; }
    shown() { sed -e "s,$work/,/,g"; }
    ip link set lo up
    echo '{}' >"$work/etc/rdmad.json"
fi
cd "$work/files"

# ---- a build's daemons, as if installed ----------------------------------------------------------

# activate SOCKET COMMAND...: becomes COMMAND, which gets SOCKET as of a socket unit: it listens, and is open to all.
activate() {
    exec python3 -c 'import os, socket, sys
path, command = sys.argv[1], sys.argv[2:]
at = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
at.bind(path)
os.chmod(path, 0o666)
at.listen()
os.dup2(at.fileno(), 3)
os.execvpe(command[0], command, {**os.environ, "LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1",
                                 "LISTEN_FDNAMES": "rdmad.sock"})' "$@"
}

# A daemon as its units would have it, but for the user and its limits.
unit_start() {
    local dir=$work/run/rdmad settings=$work/etc/rdmad.json
    [ "$1" = rdmad ] || dir=$work/run/rdmad-two settings=$work/etc/rdmad/two/rdmad.json
    mkdir -p "$dir"
    rm -f "$dir/rdmad.sock"
    set -m
    activate "$dir/rdmad.sock" rdmad --config "$settings" --runtime-dir "$dir" 2>>"$work/$1.log" &
    set +m
    daemons[$1]=$!
    until rdmactl -d "$dir" -j status >/dev/null 2>&1; do
        kill -0 "${daemons[$1]}" || { cat "$work/$1.log" >&2; exit 1; }
        sleep 0.05
    done
}
unit_stop() {
    kill -TERM "${daemons[$1]}"
    wait "${daemons[$1]}" || true
}
as_installed() {
    apt-get() { unit_start rdmad; }
    systemctl() {
        local verb=$1 unit
        for unit in "${@:2}"; do
            case $verb:$unit in
            is-active:rdmad*) [ ! -e "$work/run/rdmad/rdmad.sock" ] || echo active ;;
            stop:rdmad.socket) rm -f "$work/run/rdmad/rdmad.sock" ;;
            *:--now | *:*.socket) continue ;;
            enable:* | start:*) unit_start "$unit" ;;
            stop:*) unit_stop "${unit%.service}" ;;
            restart:*) unit_stop "$unit" && unit_start "$unit" ;;
            esac
        done
    }
}
[ $world = packages ] || as_installed

# ---- what a step is ------------------------------------------------------------------------------

# stable: what differs from run to run, as ~ .
stable() {
    shown | sed -E \
        -e 's/[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}/~/' \
        -e 's/[0-9.]+ s ago/~ s ago/g; s/up [0-9.]+ m?s,/up ~ s,/; s/for another [0-9.]+ s/for another ~ s/' \
        -e 's/in [0-9.]+ s, [0-9.]+ [GMK]B\/s/in ~ s, ~ GB\/s/' \
        -e 's/(lease|session)([ \/])[0-9]+/\1\2~/g; s/ends in [0-9.]+( m [0-9.]+)? [ms]+/ends in ~/; s/pid [0-9]+/pid ~/; s/resident [0-9.]+ MiB/resident ~ MiB/; s/answered in [0-9.]+ ms/answered in ~ ms/' \
        -e 's/(life|peer at 127.0.0.1:) ?[0-9]+/\1 ~/; s/key=[0-9a-f]+/key=~/' \
        -e 's/^warning  (administration +)status took .*/good     \1status answered in ~ ms/; /look at the load of the mach/d' \
        -e 's/^(good     descriptors  *)[0-9]+ of [0-9]+/\1~ of ~/' \
        -e 's/^[a-z]+ +(memory +).*/good     \1~ of memory are available/; /lower limits.pool_bytes$/d' \
        -e 's/^[a-z]+ +(locked memory +).*/good     \1~/; /LimitMEMLOCK=infinity in/d' \
        -e 's/^[a-z]+ +(huge pages +).*/note     \1~/; /reserve some: sysctl/d' \
        -e 's/^[a-z]+ +(congestion control +).*/good     \1~ is used/' \
        -e 's/^[a-z]+ +(workers +)[0-9]+ workers on [0-9]+ CPUs.*/good     \1~ workers on ~ CPUs/' \
        -e 's,\(/sys/class/infiniband is (missing|empty)\): load,(/sys/class/infiniband is empty): load,' |
        fold_long
}

# fold_long: lines that nobody could read in a page, at a word; what follows is set in.
fold_long() {
    awk '{ while (length($0) > 118) { for (i = 118; i > 60 && substr($0, i, 1) != " "; i--); print substr($0, 1, i - 1)
           $0 = "        " substr($0, i + 1) } print }'
}

# aligned COLUMN...: a table again, with ~ in those columns.
aligned() {
    awk -v vary=" $* " '{ n = split($0, cell, /  +/); rows = NR
        for (i = 1; i <= n; i++) {
            if (NR == 1) name[i] = cell[i]
            else if (index(vary, " " name[i] " ")) cell[i] = "~"
            text[NR, i] = cell[i]
            if (length(cell[i]) > wide[i]) wide[i] = length(cell[i])
        }
        if (n > most) most = n }
        END { for (r = 1; r <= rows; r++) { line = ""
            for (i = 1; i <= most; i++) line = line sprintf("%-" wide[i] + 2 "s", text[r, i])
            sub(/ +$/, "", line); print line } }'
}

block= # open?
say() {
    [ -z "$block" ] || printf '```\n\n'
    block=
    printf '%s\n\n' "$*"
}
title() { say "$1 $2"; }
type_it() {
    [ -n "$block" ] || printf '```\n'
    block=open
    printf '$ %s\n' "$1" | sed -E 's/(why lease) [0-9]+/\1 ~/'
}
evaluate() { eval "$(real <<<"$1")"; }

# run COMMAND: what it says, standard error too, and whether it failed. ("|| true": a step may fail, and shows it.)
run() {
    type_it "$1"
    { evaluate "$1" || true; } 2>&1 | stable
}
# silent COMMAND: in this shell, as it starts and stops daemons; it must go well and say nothing.
silent() {
    type_it "$1"
    evaluate "$1" >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 1; }
}
# table COLUMNS COMMAND: the columns differ from run to run.
table() {
    type_it "$2"
    # shellcheck disable=SC2086 # names of columns
    { evaluate "$2" || true; } 2>&1 | sed 's/^ *//' | aligned $1 | shown
}
# beside COMMAND: goes on while the tour does; what it says before it is ready.
beside() {
    type_it "$1 &"
    : >"$work/beside"
    set -m
    eval "exec $(real <<<"$1")" >"$work/beside" 2>&1 & # its parent is this shell, which takes its end
    set +m
    last_beside=$!
    [ -n "$2" ] || return 0
    until grep -q "$2" "$work/beside"; do
        kill -0 $last_beside 2>/dev/null || break
        sleep 0.05
    done
    stable <"$work/beside"
}
end_beside() { # PID: and what it has started
    local tries
    kill -TERM -- "-$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
    for ((tries = 0; tries < 400; tries++)); do
        kill -0 -- "-$1" 2>/dev/null || return 0
        sleep 0.05
    done
    echo "what ran beside the tour does not end" >&2
    exit 1
}
# until_says WORDS COMMAND: waits; nothing of it is shown.
until_says() {
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        evaluate "$2" >"$work/said" 2>&1 || true
        ! grep -q "$1" "$work/said" || return 0
        sleep 0.05
    done
    echo "never: $1: $2: $(cat "$work/said")" >&2
    exit 1
}

# ---- the tour ------------------------------------------------------------------------------------

title '#' 'A first tour'
say '<!-- Written by scripts/tour.sh; test_packages and test_tour compare. Change that, not this. -->'
say 'From nothing to bytes, then five bad nights and what tells you the way out. This is a clean Debian with systemd and
the packages of `scripts/package.sh`; all commands are run by root. It has no RDMA hardware, and two daemons play two
machines. What differs from run to run is shown as `~`.'

title '##' 'Start'
say 'Installing starts the daemon:'
silent 'apt-get install -y --no-install-recommends ./rdmad_*.deb ./rdmactl_*.deb ./librdmad0_*.deb'
run 'systemctl is-active rdmad.socket rdmad.service'
say 'It needs no settings. A second daemon gets another port:'
silent 'mkdir -p /etc/rdmad/two'
silent 'echo '\''{"listen": "127.0.0.1:7472"}'\'' >/etc/rdmad/two/rdmad.json'
silent 'systemctl enable --now rdmad@two'
say 'Ask the daemon how it is:'
run 'rdmactl status | head -n 4'
say 'Is anything in the way? `doctor` checks what commonly goes wrong. An arrow says what to do:'
run 'rdmactl doctor'

title '##' 'Share and fetch'
say 'Share a file. It is reachable by its name as long as this program runs, and at most for ten minutes:'
silent 'seq 1000000 >numbers'
beside 'rdmactl share numbers --name numbers --ttl 10m' '^lease'
share=$last_beside
say 'The other machine fetches it by one-sided reads, and compares the checksum:'
run 'rdmactl -d /run/rdmad-two fetch rdmad://127.0.0.1:7471/numbers -o copy'
run 'cmp numbers copy && echo equal'

title '##' 'Look'
say 'Who moves what? Let a program read all the time, and look at `top`:'
beside 'rdmactl bench serve --ttl 10m >uri' ''
server=$last_beside
until_says rdmad: 'cat uri'
beside 'rdmactl bench read -s 64k -q 8 -D 100 "$(cat uri)"' ''
reader=$last_beside
until_says 'rdmactl-bench.* [0-9.]* [GM]iB ' 'rdmactl top -b -n 1'
table 'PID OPS/S READ/S WRITTEN/S P50 P99 QUEUE SHARE THROTTLED' 'rdmactl top -b -n 1'
say 'The same and more for Prometheus; `deploy/` has alerts and a dashboard:'
run 'rdmactl metrics | grep -E "^rdmad_(info|sessions|leases|links)"'
end_beside "$reader"
end_beside "$server"

title '##' 'The first bad night: nothing answers'
say 'Somebody has stopped the daemon, and programs fail:'
end_beside "$share"
silent 'systemctl stop rdmad.service rdmad.socket'
run 'rdmactl share numbers'
say '`doctor` works without a daemon, too:'
run 'rdmactl doctor | grep -A 1 "^bad"'
silent 'systemctl start rdmad.socket rdmad'

title '##' 'The second: it works for root, and not for the users'
say 'Somebody has set `socket_group`:'
silent 'echo '\''{"socket_group": "daemon"}'\'' >/etc/rdmad.json'
silent 'systemctl restart rdmad'
run 'runuser -u nobody -- rdmactl share numbers'
run 'runuser -u nobody -- rdmactl doctor | grep -A 1 "^bad"'
say 'All may use it again:'
silent 'echo "{}" >/etc/rdmad.json'
silent 'systemctl restart rdmad'

title '##' 'The third: a limit'
say 'There is little memory for pools, and two programs have most of it:'
silent 'echo '\''{"limits": {"pool_bytes": 16000000}}'\'' >/etc/rdmad.json'
silent 'systemctl restart rdmad'
beside 'rdmactl share numbers --ttl 10m' '^lease'
one=$last_beside
beside 'runuser -u nobody -- rdmactl share numbers --ttl 10m' '^lease'
two=$last_beside
run 'rdmactl share numbers'
say 'The refusal says what is used up. `doctor` says which setting to raise, and how:'
run 'rdmactl doctor | grep -A 1 "pool_bytes:"'
say 'You raise the limit, tired as you are:'
silent 'echo '\''{"limits": {"pool_byts": 0}}'\'' >/etc/rdmad.json'
run 'rdmactl config check /etc/rdmad.json'
silent 'echo '\''{"limits": {"pool_bytes": 0}}'\'' >/etc/rdmad.json'
run 'rdmactl config check /etc/rdmad.json && rdmactl reload'
end_beside "$one"
end_beside "$two"

title '##' 'The fourth: a lease has run out'
say 'It was given for one second:'
beside 'rdmactl share numbers --ttl 1s >brief' '^lease'
lease=$(sed -n 's/^lease \([0-9]*\):.*/\1/p' "$work/beside")
wait "$last_beside" || true
until_says "expired [0-9]" "rdmactl why lease $lease"
run 'rdmactl -d /run/rdmad-two fetch "$(cat brief)" -o late'
run "rdmactl why lease $lease"

title '##' 'The fifth: the other machine is gone'
say 'The second machine fetches from the first, and then the daemon there is stopped:'
beside 'rdmactl share numbers --name numbers --ttl 10m' '^lease'
share=$last_beside
run 'rdmactl -d /run/rdmad-two fetch rdmad://127.0.0.1:7471/numbers -o another'
peer=$(rdmactl -d "$(real <<</run/rdmad-two)" -j peer show | tr -d ' \n' | sed -E 's/.*"id":([0-9]+).*/\1/')
end_beside "$share"
silent 'systemctl stop rdmad.service rdmad.socket'
until_says 'peer lost' "rdmactl -d /run/rdmad-two why peer $peer"
run 'rdmactl -d /run/rdmad-two fetch rdmad://127.0.0.1:7471/numbers -o again'
run "rdmactl -d /run/rdmad-two why peer $peer"
silent 'systemctl start rdmad.socket rdmad'
run 'rdmactl -d /run/rdmad-two peer add 127.0.0.1:7471'

title '##' 'From here'
say 'All commands: rdmactl(8). More bad nights: [OPERATIONS.md](OPERATIONS.md). How it works: [CONCEPTS.md](CONCEPTS.md).'
