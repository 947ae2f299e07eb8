#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_seccomp.sh: the seccomp profile of rdmad's container is the unit's filter, and a daemon under it, with a
# container's capabilities, does all that it does elsewhere: its sessions are those that outlive it (userfaultfd), its
# porter has a filter of its own, a tenant has his socket (chown). What is not in it is refused.
# shellcheck source=tests/integration/daemons.sh
. tests/integration/daemons.sh
profile=deploy/kubernetes/base/seccomp.json
under() { tests/deploy/filtered.py "$profile" "$@"; }

echo "* it is what the unit has"
if command -v systemd-analyze >/dev/null && [ "$(systemd-analyze --version | sed -n '1s/systemd \([0-9]*\).*/\1/p')" = 252 ]; then
    deploy/seccomp.py >"$work/profile.json"
    diff "$work/profile.json" "$profile" || fail "$profile is not what deploy/seccomp.py makes of systemd/rdmad.service: run it"
else
    echo "  not compared: groups of calls are those of systemd 252"
fi
python3 - "$profile" <<'PYTHON' || fail "the profile"
import json, sys
profile = json.load(open(sys.argv[1], encoding="ascii"))
names = profile["syscalls"][0]["names"]
missing = {"userfaultfd", "execve", "futex", "sched_setattr", "chown"} - set(names)
surplus = set(names) & {"ptrace", "bpf", "mount", "unshare", "setns", "keyctl", "init_module", "process_vm_readv", "io_uring_setup",
                        "perf_event_open", "setresuid", "clone", "clone3", "socket"}
sys.exit(f"missing: {missing}, too much: {surplus}" if missing or surplus or profile["defaultAction"] != "SCMP_ACT_ERRNO" else 0)
PYTHON

echo "* what is not in it is refused"
under grep -q '^Seccomp:[[:space:]]*2$' /proc/self/status || fail "there is no filter"
! under unshare --user true 2>"$work/said" || fail "a user namespace"
grep -q 'Operation not permitted' "$work/said" || fail "$(<"$work/said")"
for family in AF_PACKET AF_ALG; do
    ! under python3 -c "import socket; socket.socket(socket.$family)" 2>"$work/said" || fail "a socket of $family"
    grep -q 'Operation not permitted' "$work/said" || fail "$(<"$work/said")"
done

echo "* two daemons under it serve as elsewhere"
caged=(tests/deploy/filtered.py "$profile")
settings='{}'
if [ "$(id -u)" = 0 ]; then
    caps=-all,+ipc_lock,+chown
    caged=(setpriv "--bounding-set=$caps" "--inh-caps=$caps" "${caged[@]}")
    settings='{"sockets": [{"tenant": "blue", "uid": 1000, "mode": "0600"}]}'
fi
for name in a b; do
    mkdir "$work/$name"
    echo "$settings" >"$work/$name.json"
    "${caged[@]}" "$rdmad" --config "$work/$name.json" --runtime-dir "$work/$name" --listen 127.0.0.1:0 2>"$work/$name.log" &
    pids+=($!)
    await_daemon "$name" $!
done
grep -q '^Seccomp:[[:space:]]*2$' "/proc/${pids[0]}/status" || fail "the daemon has no filter"
mkfifo "$work/stop"
"$RDMAD_BUILD/tests/integration/steady_load" "$work/a" "$work/b" <"$work/stop" >"$work/load" 2>"$work/load.log" &
pids+=($!)
load=$!
exec {stop}>"$work/stop"
first_line "$work/load" "$load" >/dev/null
for name in a b; do
    "$rdmactl" -d "$work/$name" -j session show >"$work/sessions"
    grep -q '"resumable": *true' "$work/sessions" || fail "sessions of $name do not outlive it: $(<"$work/sessions")"
done
exec {stop}>&-
wait "$load" || fail "the load: $(<"$work/load.log")"
if [ "$(id -u)" = 0 ]; then
    [ "$(stat -c %u "$work/a/tenants/blue/rdmad.sock")" = 1000 ] || fail "the tenant's socket is not his"
else
    echo "  not tried without root: a container's capabilities, a tenant's socket"
fi
! grep -iE 'not permitted|seccomp' "$work/a.log" "$work/b.log" || fail "something is refused"
