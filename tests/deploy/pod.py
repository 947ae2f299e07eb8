#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""pod.py HOST IMAGE FILE NAME: runs the container NAME of FILE (a pod or DaemonSet of Kubernetes, or a compose file)
as its runtime would, out of plain namespaces: IMAGE is its root, and paths of the node are below HOST. What of a file
the runtime would obey and this does not know is an error, so that a test of such a file is one.

pod.py --check FILE...: they are well-formed, and hold to what is promised of them.
"""
import json
import os
import re
import shlex
import subprocess
import sys

import yaml

sys.dont_write_bytecode = True  # the sources may be anybody's
import filtered

# What is judged by --check alone, or has no meaning here.
IGNORED_POD = {"hostNetwork", "dnsPolicy", "automountServiceAccountToken", "terminationGracePeriodSeconds", "restartPolicy",
               "securityContext", "initContainers", "containers", "volumes"}
IGNORED_CONTAINER = {"name", "image", "imagePullPolicy", "resources", "readinessProbe", "command", "args", "env",
                     "securityContext", "volumeMounts"}
IGNORED_SERVICE = {"image", "ulimits", "healthcheck", "depends_on", "network_mode", "command", "read_only", "cap_drop", "cap_add",
                   "security_opt", "volumes", "user", "profiles", "tmpfs", "restart", "stop_grace_period"}
STOP_SECONDS = 20  # as TimeoutStopSec of the unit: drain_timeout_ms, and what a stop takes then
# What reads metrics on the node's loopback.
SCRAPERS = {"agent", "prometheus"}
DEVICES = ("null", "zero", "full", "random", "urandom")


class Container:
    """What a runtime is asked to run."""

    def __init__(self, command):
        self.command = command
        self.env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        self.uid = self.gid = 0
        self.caps = []
        self.all_caps_dropped = self.no_new_privs = self.read_only = self.host_network = False
        self.mounts = []  # (path of the host, path within, read only)
        self.profile = None  # the path of a seccomp profile


def known(what, keys, allowed):
    unknown = set(keys) - allowed
    if unknown:
        sys.exit(f"pod.py: {what}: does not know {', '.join(sorted(unknown))}")


def documents(path):
    with open(path, encoding="utf-8") as file:
        return [d for d in yaml.safe_load_all(file) if d is not None]


def pods(docs):
    """(name, spec of a pod) of each."""
    for doc in docs:
        if doc.get("kind") == "Pod":
            yield doc["metadata"]["name"], doc["spec"]
        elif doc.get("kind") == "DaemonSet":
            yield doc["metadata"]["name"], doc["spec"]["template"]["spec"]


def generated(path):
    """ConfigMaps that the kustomization beside a file makes: as documents."""
    beside = os.path.dirname(path)
    if not os.path.exists(os.path.join(beside, "kustomization.yaml")):
        return []
    maps = []
    for made in documents(os.path.join(beside, "kustomization.yaml"))[0].get("configMapGenerator", []):
        known("configMapGenerator", made, {"name", "namespace", "files"})
        data = {}
        for name in made["files"]:
            with open(os.path.join(beside, name), encoding="utf-8") as file:
                data[name] = file.read()
        maps.append({"kind": "ConfigMap", "metadata": {"name": made["name"]}, "data": data})
    return maps


def volume_path(volume, host, docs):
    """Where on this machine a volume of a pod is."""
    name = volume["name"]
    if "hostPath" in volume:
        path = host + volume["hostPath"]["path"]
        if volume["hostPath"].get("type") == "DirectoryOrCreate":
            os.makedirs(path, exist_ok=True)
        return path
    path = os.path.join(host, "volumes", name)
    os.makedirs(path, exist_ok=True)
    if "emptyDir" in volume:
        os.chmod(path, 0o777)
        return path
    if "configMap" in volume:
        for doc in docs:
            if doc.get("kind") == "ConfigMap" and doc["metadata"]["name"] == volume["configMap"]["name"]:
                for file, text in doc["data"].items():
                    with open(os.path.join(path, file), "w", encoding="utf-8") as out:
                        out.write(text)
                return path
    sys.exit(f"pod.py: volume {name}: is of no kind that is known here, or its ConfigMap is not there")


def of_pod(docs, name, host):
    """The container of that name of the pods in docs."""
    for _, spec in pods(docs):
        for c in spec.get("initContainers", []) + spec["containers"]:
            if c["name"] != name:
                continue
            known("pod", spec, IGNORED_POD)
            known(name, c, IGNORED_CONTAINER)
            security = {**spec.get("securityContext", {}), **c.get("securityContext", {})}
            made = Container(c.get("command", []) + c.get("args", []))
            made.uid = security.get("runAsUser", 0)
            made.gid = security.get("runAsGroup", made.uid)
            made.caps = security.get("capabilities", {}).get("add", [])
            made.all_caps_dropped = security.get("capabilities", {}).get("drop") == ["ALL"]
            made.no_new_privs = security.get("allowPrivilegeEscalation") is False
            made.read_only = bool(security.get("readOnlyRootFilesystem"))
            made.host_network = bool(spec.get("hostNetwork"))
            seccomp = security.get("seccompProfile", {})
            if seccomp.get("type") == "Localhost":
                made.profile = f"{host}/var/lib/kubelet/seccomp/{seccomp['localhostProfile']}"
            for variable in c.get("env", []):
                field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
                fields = {"status.hostIP": "127.0.0.1", "spec.nodeName": "node"}
                made.env[variable["name"]] = fields[field] if field else variable["value"]
            volumes = {v["name"]: v for v in spec.get("volumes", [])}
            for mount in c.get("volumeMounts", []):
                path = volume_path(volumes[mount["name"]], host, docs)
                made.mounts.append((path, mount["mountPath"], bool(mount.get("readOnly"))))
            return made
    return None


def of_compose(path, doc, name, host):
    """The service of that name."""
    service = doc["services"].get(name)
    if service is None:
        return None
    known(name, service, IGNORED_SERVICE)
    made = Container([word.replace("$$", "$") for word in service["command"]])
    user = service.get("user", "0:0").split(":")
    made.uid, made.gid = int(user[0]), int(user[1])
    made.caps = service.get("cap_add", [])
    made.all_caps_dropped = service.get("cap_drop") == ["ALL"]
    made.no_new_privs = "no-new-privileges:true" in service.get("security_opt", [])
    for option in service.get("security_opt", []):
        if option.startswith("seccomp:") and option != "seccomp:unconfined":
            made.profile = os.path.join(os.path.dirname(os.path.abspath(path)), option.split(":", 1)[1])
    made.read_only = bool(service.get("read_only"))
    made.host_network = service.get("network_mode") == "host"
    for volume in service.get("volumes", []):
        source, target, *options = volume.split(":")
        if source in doc.get("volumes", {}):
            source = os.path.join(host, "volumes", source)
            os.makedirs(source, exist_ok=True)
            os.chmod(source, 0o777)
        elif source.startswith("./"):
            source = os.path.join(os.path.dirname(os.path.abspath(path)), source)
        else:
            source = host + source
            os.makedirs(source, exist_ok=True)
        made.mounts.append((source, target, options == ["ro"]))
    return made


def under(path):
    """The last thing that a runtime does: the image's perl takes the filter, for it has no Python."""
    code = filtered.program(filtered.load(path))
    prctl = filtered.numbers()["prctl"]
    return ["perl", "-e", f'my $code = pack("H*", shift); my $filter = pack("S x6 P", length($code) / 8, $code); '
            f'syscall({prctl}, {filtered.PR_SET_SECCOMP}, {filtered.SECCOMP_MODE_FILTER}, $filter, 0, 0) == 0 or die "seccomp: $!"; '
            'exec @ARGV or die "$ARGV[0]: $!"', code.hex()]


def script_of(c, image, host):
    """Shell that makes the container's file system and becomes its program; in namespaces of its own by then."""
    layers = os.path.join(host, "layers")  # mounted in the container's own namespace only
    os.makedirs(layers, exist_ok=True)
    lines = ["set -e", f"mount -t tmpfs tmpfs '{layers}'", f"cd '{layers}'", "mkdir upper work root",
             f"mount -t overlay -o 'lowerdir={image},upperdir=upper,workdir=work' overlay root", "cd root",
             "mount -t proc proc proc", "mount -t tmpfs -o mode=755 tmpfs dev"]
    for device in DEVICES:
        lines += [f"touch dev/{device}", f"mount --bind /dev/{device} dev/{device}"]
    lines += ["mkdir dev/shm", "mount -t tmpfs -o mode=1777 tmpfs dev/shm"]
    for source, target, read_only in c.mounts:
        inside = target.lstrip("/")
        make = f"mkdir -p '{inside}'" if os.path.isdir(source) else f"[ -e '{inside}' ] || touch '{inside}'"
        lines += [make, f"mount --bind '{source}' '{inside}'"]
        if read_only:
            lines.append(f"mount -o remount,bind,ro '{inside}'")
    if c.read_only:
        lines.append("mount -o remount,bind,ro .")
    lines += ["pivot_root . mnt"]
    caps = ",".join(["-all"] + ["+" + cap.lower() for cap in c.caps]) if c.all_caps_dropped else ""
    drop = ["setpriv", f"--reuid={c.uid}", f"--regid={c.gid}", "--clear-groups"]
    drop += [f"--bounding-set={caps}", f"--inh-caps={caps}"] if caps else []
    drop += ["--no-new-privs"] if c.no_new_privs else []
    drop += under(c.profile) if c.profile else []
    lines += ["exec chroot . /bin/sh -c 'umount -l /mnt; exec \"$@\"' sh " + " ".join(map(shlex.quote, drop)) + ' "$@"']
    return "\n".join(lines)


def run(host, image, path, name):
    docs = documents(path) + generated(path)
    before = [c["name"] for _, spec in pods(docs) for c in spec.get("initContainers", [])
              if name in [main["name"] for main in spec["containers"]]]
    for first in before:
        subprocess.run([sys.executable, __file__, host, image, path, first], check=True)
    c = of_compose(path, docs[0], name, host) if "services" in docs[0] else of_pod(docs, name, host)
    if c is None:
        sys.exit(f"pod.py: {path}: no container {name}")
    spaces = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--propagation", "private"]
    if not c.host_network:
        spaces.append("--net")
    limits = ["prlimit", "--memlock=65536:65536"] if c.uid else []
    argv = limits + spaces + ["bash", "-c", script_of(c, image, host), "pod"] + c.command
    os.execvpe(argv[0], argv, {"PATH": os.environ["PATH"], **c.env})


def unprivileged(c, where, scrapes):
    if not (c.uid and c.all_caps_dropped and not c.caps and c.no_new_privs and c.read_only and c.host_network == scrapes):
        return [f"{where}: has more than {'a scraper' if scrapes else 'a tenant'} needs"]
    return [f"{where}: {source} is more than a tenant's directory" for source, target, _ in c.mounts
            if target == "/run/rdmad" and not re.search(r"/run/rdmad/tenants/[a-z]+$", source)]


def stays_ended(docs, path):
    """Daemons that nobody starts again after a start that failed."""
    policies = [d["services"]["rdmad"].get("restart", "no") for d in docs if "rdmad" in d.get("services", {})]
    policies += [spec.get("restartPolicy", "Always") for _, spec in pods(docs)
                 if "rdmad" in [c["name"] for c in spec["containers"]]]
    return [f"{path}: a daemon whose start failed is not started again" for policy in policies
            if policy not in ("Always", "always", "unless-stopped")]


def killed_early(docs, path):
    """Daemons that are killed while they still stop."""
    waits = [re.fullmatch(r"(\d+)s", d["services"]["rdmad"].get("stop_grace_period", "10s"))[1]
             for d in docs if "rdmad" in d.get("services", {})]
    waits += [spec.get("terminationGracePeriodSeconds", 30) for _, spec in pods(docs)
              if "rdmad" in [c["name"] for c in spec["containers"] if "image" in c]]
    return [f"{path}: a daemon is killed {wait} s after it was told to stop, and may take {STOP_SECONDS}"
            for wait in waits if int(wait) < STOP_SECONDS]


def listens_wrong(docs, path):
    """Daemons of pods that would listen elsewhere than at their node's address, of whatever kind that is."""
    import tempfile
    wrong = []
    scripts = [c["command"] for _, spec in pods(docs) for c in spec["containers"] if c["name"] == "rdmad" and "image" in c]
    for command in scripts:
        with tempfile.TemporaryDirectory() as identity:
            rdmad = os.path.join(identity, "rdmad")  # tells the last word that it is given
            with open(rdmad, "w", encoding="utf-8") as file:
                file.write('#!/bin/sh\nfor word; do last=$word; done\necho "$last"\n')
            os.chmod(rdmad, 0o755)
            argv = [word.replace("/etc/rdmad/identity", identity) for word in command]
            for certificate, node, expected in ((False, "192.0.2.1", "127.0.0.1:7471"), (True, "192.0.2.1", "192.0.2.1:7471"),
                                                (True, "2001:db8::1", "[2001:db8::1]:7471")):
                if certificate:
                    open(os.path.join(identity, "node.crt"), "w", encoding="utf-8").close()
                env = {"PATH": f"{identity}:/usr/bin:/bin", "NODE_IP": node}
                listens = subprocess.run(argv, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
                if listens != expected:
                    wrong.append(f"{path}: on the node {node} the daemon would listen at {listens}, not at {expected}")
    return wrong


def settings_of(docs, path):
    """The daemon's settings in a file of these."""
    for doc in docs:
        if doc.get("kind") == "ConfigMap":
            return doc["data"].get("rdmad.json")
    with open(os.path.join(os.path.dirname(path), "rdmad.json"), encoding="utf-8") as file:
        return re.sub(r"^//.*$", "", file.read(), flags=re.M)


def check(paths):
    """Of each file: it is YAML, each document names its kind, and who is to have no privilege has none."""
    import tempfile
    wrong = []
    sockets = set()
    with tempfile.TemporaryDirectory() as host:
        tenants = []
        for path in paths:
            docs = documents(path)
            if not docs:
                wrong.append(f"{path}: is empty")
            for doc in docs:
                if not ("services" in doc or {"apiVersion", "kind"} <= set(doc)):
                    wrong.append(f"{path}: a document without apiVersion and kind, or services")
            if any("services" in d or d.get("kind") == "ConfigMap" for d in docs):
                settings = json.loads(settings_of(docs, path) or "{}")
                sockets |= {(s["tenant"], s["uid"]) for s in settings.get("sockets", [])}
                if settings and settings["metrics"]["listen"] != "unix,127.0.0.1:9471":
                    wrong.append(f"{path}: metrics are not where the scrapers look for them")
            wrong += stays_ended(docs, path) + killed_early(docs, path) + listens_wrong(docs, path)
            names = [n for d in docs if "services" in d for n in d["services"]]
            names += [c["name"] for _, spec in pods(docs) for c in spec["containers"]]
            for name in names:
                if name == "rdmad":
                    continue
                c = of_compose(path, docs[0], name, host) if "services" in docs[0] else of_pod(docs, name, host)
                wrong += unprivileged(c, f"{path}: {name}", name in SCRAPERS)
                tenants += [(s.rsplit("/", 1)[1], c.uid, f"{path}: {name}") for s, t, _ in c.mounts if t == "/run/rdmad"]
    for tenant, uid, where in tenants:
        if (tenant, uid) not in sockets:
            wrong.append(f"{where}: no daemon has a socket of tenant {tenant} for uid {uid}")
    if not tenants:
        wrong.append("no container of a tenant was found")
    print("\n".join(wrong) if wrong else f"{len(paths)} files are well-formed, {len(tenants)} containers unprivileged")
    return bool(wrong)


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        sys.exit(check(sys.argv[2:]))
    run(*sys.argv[1:])
