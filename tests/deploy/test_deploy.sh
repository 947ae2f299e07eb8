#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_deploy.sh: what deploy/ has. The image is made of the packages that test_packages built; then the DaemonSet's
# daemon and the pod's two containers, and those of the compose file, are run as their files say, with plain
# namespaces for a runtime (pod.py): a tenant without any privilege shares a file and fetches it, and metrics are where
# the scrapers of these files look. What scrapes is no image of ours: promtool reads its settings (test_metrics).
# shellcheck source=tests/packages/root.sh
. tests/packages/root.sh
mapfile -t files < <(find deploy -name '*.yaml' | sort)
python3 -c 'import yaml' 2>/dev/null || root_skip "there is no python3-yaml"
[ -n "${RDMAD_ROOT_ENTERED:-}" ] || tests/deploy/pod.py --check "${files[@]}"
packages=${RDMAD_BUILD:?run the test by ctest}/packages-check
root_enter "$0"
ls "$packages"/*.deb >/dev/null 2>&1 || root_skip "test_packages has built no packages"
# shellcheck source=tests/integration/daemons.sh
. tests/integration/daemons.sh

# unshare(1) takes no signals: what it started does.
end_containers() {
    local pid
    for pid in "${pids[@]}"; do
        pkill -"$1" -P "$pid" || true
    done
}
trap 'code=$?; set +e; end_containers KILL; (exit "$code"); stop_all' EXIT

echo "* the image"
root_make
deploy/image.sh --packages "$packages" --base "$root_base" "$work/image.tar" >"$work/image.log" 2>&1 || fail "no image"
mkdir "$work/image"
tests/deploy/unpack.py "$work/image.tar" "$work/image" || fail "the image is wrong"
rm "$work/image.tar"
chmod 755 "$work" "$work/image"

# metrics_of HOST: the daemon's there, by its socket and by the port that scrapers are told of.
metrics_of() {
    python3 - "$1/run/rdmad/metrics.sock" <<'PYTHON' || fail "no metrics"
import socket
import sys
for family, where in (socket.AF_UNIX, sys.argv[1]), (socket.AF_INET, ("127.0.0.1", 9471)):
    with socket.socket(family) as s:
        s.settimeout(60)
        s.connect(where)
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n")
        answer = b"".join(iter(lambda: s.recv(65536), b""))
    if b"\nrdmad_sessions " not in answer:
        sys.exit(f"FAILED: {where}: {answer[:200]}")
PYTHON
}

# deployed HOW DAEMON-FILE TENANT-FILE: they run, on a node of that name.
deployed() {
    local host=$work/$1 daemon_file=$2 tenant_file=$3 daemon share
    mkdir "$host"
    echo "* $1"
    tests/deploy/pod.py "$host" "$work/image" "$daemon_file" rdmad >"$work/$1.log" 2>&1 &
    daemon=$!
    pids+=("$daemon")
    node_answers() {
        kill -0 "$daemon" 2>/dev/null || fail "the daemon's container ended"
        "$rdmactl" -d "$host/run/rdmad" -j status >/dev/null 2>&1
    }
    eventually node_answers
    # Its processes in the container are below unshare(1).
    grep -q '^Seccomp:[[:space:]]*2$' "/proc/$(pgrep -P "$daemon" | head -n 1)/status" || fail "the daemon has no seccomp profile"
    tests/deploy/pod.py "$host" "$work/image" "$tenant_file" share >"$work/$1-share.log" 2>&1 &
    share=$!
    pids+=("$share")
    tests/deploy/pod.py "$host" "$work/image" "$tenant_file" fetch >"$work/$1-fetch.log" 2>&1 || fail "fetch failed"
    tail -n 1 "$work/$1-fetch.log" | grep -qx equal || fail "not equal"
    wait "$share" || fail "share failed"
    "$rdmactl" -d "$host/run/rdmad" status | head -n 3
    metrics_of "$host"
    end_containers TERM
    wait "$daemon" || fail "the daemon did not end well"
}
# The node gets an identity as the README says and its next daemon has it.
identified() {
    local host=$work/kubernetes daemon inner
    echo "* an identity"
    tests/deploy/pod.py "$host" "$work/image" deploy/kubernetes/base/daemonset.yaml rdmad >"$work/identity.log" 2>&1 &
    daemon=$!
    pids=("$daemon")
    is_up() { "$rdmactl" -d "$host/run/rdmad" -j status >"$work/status" 2>/dev/null; }
    eventually is_up
    inner=$(pgrep -P "$daemon")
    nsenter -t "$inner" -m -p rdmactl cluster init --name one --address 127.0.0.1:7471 >"$work/init.log" 2>&1 || fail "cluster init"
    end_containers TERM
    wait "$daemon" || true
    tests/deploy/pod.py "$host" "$work/image" deploy/kubernetes/base/daemonset.yaml rdmad >"$work/identity.log" 2>&1 &
    daemon=$!
    pids=("$daemon")
    eventually is_up
    grep -q '"identity": *{.*"name": *"one"' "$work/status" || fail "it has no identity: $(<"$work/status")"
    end_containers TERM
    wait "$daemon" || true
}
deployed kubernetes deploy/kubernetes/base/daemonset.yaml deploy/kubernetes/tenant-pod.yaml
identified
deployed compose deploy/compose.yaml deploy/compose.yaml
