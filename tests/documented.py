#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""documented.py SOURCE RDMACTL DIRECTORY CC: what the documentation says works, as far as it can be tried.

Of the README, of docs/, of the manual pages, and of the READMEs beside deploy/, bench/, contrib/ and tests/vm:
- code in C compiles, with the names around it that its text speaks of (test_documented_code runs it);
- code of other libraries, beside ours in docs/MIGRATION.md, compiles where these are;
- settings pass `rdmactl config check`;
- each `rdmactl OBJECT VERB` that is written anywhere exists, and has the options that are written with it;
- each command line of a block is run against the daemon whose runtime directory is DIRECTORY, with real things
  for its placeholders; of rdmactl's that cannot be run here, some script of a test runs each command, with each of the
  line's options (tests/commands.py says how far that is known); others are named below, with the words that the script
  of a test has of them, or why none can;
- of the text and its tables, commands of programs that INLINE names are looked at as those of blocks are;
- a block is code, settings, a transcript, one that is named below, or shell: no line of shell is passed over.

rdmactl(8) has an entry for each command of `rdmactl --help`, of which tests run each, and names each method of the administration socket with
its params.
docs/TOUR.md is a transcript, which test_tour and test_packages make anew.
"""
import glob
import os
import re
import shlex
import subprocess
import sys

try:
    import yaml
except ImportError:
    yaml = None

from commands import command_of, lines_of, run_by_tests
from pages import blocks, is_code, pages

SOURCE, RDMACTL, DIRECTORY, CC = sys.argv[1:5]
WORK = os.path.join(DIRECTORY, "documented")
bad = []

# Command lines that another test runs: how they begin, which, and the script of it in whose code these or other words stand.
ELSEWHERE = {
    "cmake --preset": ("test_quickstart", "scripts/build.sh"), "cmake --build": ("abi_install", "tests/abi/install.sh"),
    "cmake --install": ("test_systemd", "tests/integration/test_systemd.sh"),
    "systemd-sysusers": ("test_systemd", "tests/integration/test_systemd.sh"),
    "cp /usr/share/rdmad/prometheus/rdmad-metrics.*": ("test_packages", "tests/packages/test_packages.sh", "prometheus/rdmad-metrics.*"),
    "systemctl daemon-reload": ("test_packages", "tests/packages/test_packages.sh"),
    "systemctl disable --now": ("test_packages", "tests/packages/test_packages.sh", "systemctl --quiet disable --now"),
    "systemctl edit --full rdmad-metrics.socket": ("test_packages", "tests/packages/test_packages.sh", "/etc/systemd/system/rdmad-metrics.socket"),
    "systemctl enable --now rdmad-metrics.socket": ("test_packages", "tests/packages/test_packages.sh", "systemctl --quiet enable --now rdmad-metrics.socket"),
    "systemctl enable --now rdmad.socket": ("test_packages", "tests/packages/test_packages.sh", "systemctl --quiet enable --now rdmad.service rdmad.socket"),
    "systemctl enable --now rdmad@NAME": ("test_packages", "debian/tests/services", "systemctl enable --now rdmad@two"),
    "systemctl reload": ("test_systemd", "tests/integration/test_systemd.sh", "systemd reload rdmad"),
    "systemctl restart rdmad": ("test_packages", "scripts/tour.sh"),
    "systemctl status rdmad": ("test_packages", "tests/packages/test_packages.sh"),
    "apt-get remove": ("test_packages", "tests/packages/test_packages.sh", "apt-get remove -q -y rdmad"),
    "apt-get purge": ("test_packages", "tests/packages/test_packages.sh", "apt-get purge -q -y rdmad"),
    "apt-get install": ("test_packages", "tests/packages/test_packages.sh", "apt-get install -q -y"),
    "bpftrace /usr/share/rdmad/bpftrace/": ("test_probes", "tests/integration/test_probes.sh", "bpftrace -B line"),
    "bpftrace -p": ("test_probes", "tests/integration/test_probes.sh", "bpftrace -B line -p"),
    "usermod -aG rdmad USER": ("test_packages", "tests/packages/test_packages.sh", "usermod -aG rdmad nobody"),
    "man rdmad_open": ("test_packages", "debian/tests/build", "rdmad_open"),
    "pkg-config --cflags --libs rdmad": ("test_packages", "debian/tests/build"),
    "rdmad --runtime-dir": ("test_log", "tests/integration/test_log.sh", '"$rdmad" --runtime-dir'),
    "scripts/tour.sh": ("test_packages", "tests/packages/test_packages.sh", "tour.sh --installed"),
    "bench/scrape": ("test_metrics", "tests/integration/test_metrics.sh"),
    "tests/integration/test_python.sh": ("test_python_", "tests/integration/test_python.sh", ""),
    "tests/circles.py": ("lint_includes", "tests/include_rules.sh", "tests/circles.py"),
    "ldconfig": ("test_systemd", "tests/integration/test_systemd.sh"),
    "./quickstart": ("test_quickstart", "tests/integration/test_quickstart.sh", '"$RDMAD_SOURCE/quickstart"'),
    "rdmad --listen": ("test_two_machines", "tests/integration/test_two_machines.sh", "take 2 rdmad"),
    "modprobe rdma_rxe": ("suite_verbs", "tests/vm/devices.sh", "modprobe -a rdma_rxe"),
    "rdma link delete": ("test_verbs_start", "tests/integration/test_verbs_start.sh"),
    "rdma resource show": ("suite_verbs", "tests/unit/verbs_rig.c", 'popen("rdma resource show"'),
    "rdma link add": ("suite_verbs", "tests/vm/devices.sh", "rdma link add"),
    "tests/vm/run": ("suite_verbs", "tests/vm/suite.sh"),
    "scripts/package.sh --clean": ("test_clean_build", "tests/packages/test_clean_build.sh"),
    "scripts/package.sh": ("test_packages", "tests/packages/test_packages.sh"),
    "apt-get install ./build/packages": ("test_packages", "tests/packages/test_packages.sh", "apt-get install"),
    "scripts/site.sh": ("test_site", "tests/integration/test_site.sh"), "deploy/image.sh": ("test_deploy", "tests/deploy/test_deploy.sh"),
    "deploy/seccomp.py": ("test_seccomp", "tests/deploy/test_seccomp.sh", "deploy/seccomp.py"),
    "bench/compare": ("test_bench_run", "tests/unit/test_bench_run.sh"), "bench/plot": ("test_bench_run", "tests/unit/test_bench_run.sh"),
    "SOFT_ROCE_RUN=": ("test_soft_roce_action", "tests/vm/test_action.sh", "run.sh"),
    "kill -STOP": ("test_checkpoint", "tests/integration/test_checkpoint.sh", 'hang "$pid"'),
    "kill -CONT": ("test_checkpoint", "tests/integration/test_checkpoint.sh"),
    "criu dump": ("test_checkpoint", "tests/integration/test_checkpoint.sh"),
    "criu restore": ("test_checkpoint", "tests/integration/test_checkpoint.sh"),
}
# What else may stand in a text, `so` or *so*, and is a command by its first word, if there is a second.
INLINE = re.compile(r"(apt-get|bpftrace|cmake|criu|ctest|journalctl|kill|kubectl|man|modprobe|pkg-config|podman|rdma|rdmad|systemctl|usermod|"
                    r"systemd-sysusers|(bench|deploy|examples|scripts|tests)/\S+|\./\S+) \S")
# Commands that are not for the daemon here: a test's script has to run them (tests/commands.py).
NOT_HERE = ("rdmactl cluster", "rdmactl upgrade", "rdmactl session", "rdmactl peer add", "rdmactl -d")
# Those that no test runs, and why.
NOBODY = {
    "tests/soak": "takes hours; a person starts it before a release",
    "ctest": "it is what runs this", "./check": "it is what runs this",
    "RDMAD_BUILD=$PWD/build tests/run.sh": "each test of the integration suite is run so",
    "RDMAD_VM_KERNEL=": "loads another kernel from the network", "tests/vm/two-hosts": "takes two guests at a time",
    "podman run --security-opt": "test_deploy has the profile loaded by itself: there is no podman",
    "podman load": "test_deploy reads the archive by itself: there is no podman",
    "apt-get upgrade": "there is no archive of rdmad to upgrade from; test_packages does it by apt-get install",
    "journalctl MESSAGE_ID=": "journald's; test_audit looks at the id in what it is sent",
    "bpftrace -l": "lists what lint_probes reads in the program's file",
    "bench/files": "measures for minutes", "tests/abi/diff.sh --update": "writes what releases are compared with",
    "kubectl": "test_deploy does in namespaces what the files say: there is no kubelet",
}
# Blocks that are neither code nor settings nor anything that is typed: how they begin.
OUTPUT = ("rdmad guard: write to", "sqe 64", '{"time":')
# Names that stand for something in code.
PRELUDE = """
#include <err.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void code(int argc, char **argv, const char *uri, rdmad_session *s, rdmad_pool *pool, rdmad_lease *lease,
          rdmad_lease *there, rdmad_lease *granted, rdmad_channel *c, rdmad_channel *channel, rdmad_service *service,
          rdmad_ring *ring, struct rdmad_sqe *sqe, char *buf, rdmad_callback *done);
void code(int argc, char **argv, const char *uri, rdmad_session *s, rdmad_pool *pool, rdmad_lease *lease,
          rdmad_lease *there, rdmad_lease *granted, rdmad_channel *c, rdmad_channel *channel, rdmad_service *service,
          rdmad_ring *ring, struct rdmad_sqe *sqe, char *buf, rdmad_callback *done) { {
"""


# Code of other libraries: "c NAME". Which headers that takes, and names that stand for something in it.
LIBRARIES = {
    "verbs": ("#include <rdma/rdma_cma.h>\n#include <rdma/rdma_verbs.h>\n",
              "const char *address, struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *mr, char *buf, uint64_t remote_address, uint32_t rkey"),
    "rpma": ("#include <arpa/inet.h>\n#include <librpma.h>\n",
             "struct rpma_conn *conn, struct rpma_cq *cq, void *address, size_t length, void (*pmem_persist)(const void *, size_t)"),
    "ucx": ("#include <ucp/api/ucp.h>\n", "ucp_worker_h worker, ucp_ep_h ep, char *buf, char *answer"),
}


def run(command, text=None, seconds=60):
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=seconds * int(os.environ.get("RDMAD_TEST_PATIENCE", "1")))


def ctl(*words):
    return run([RDMACTL, "-d", DIRECTORY, *words])


def try_code(where, lines):
    done = run([CC, "-std=gnu11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused",
                "-I", os.path.join(SOURCE, "include"), "-x", "c", "-"], PRELUDE + "\n".join(lines) + "\n} }\n")
    if done.returncode:
        bad.append(f"{where}: does not compile: {done.stdout[:400]}")


def try_foreign(where, library, lines):
    """It compiles, where that library is."""
    headers, names = LIBRARIES[library]
    common = "#include <err.h>\n#include <stdint.h>\n#include <string.h>\n" + headers
    compiler = [CC, "-std=gnu11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-x", "c", "-"]
    if run(compiler, common).returncode:
        print(f"skipped: {where}: there are no headers of {library}")
        return
    # The names are around the block, so that it may have its own.
    done = run(compiler, f"{common}void code({names});\nvoid code({names}) {{ {{\n" + "\n".join(lines) + "\n} }\n")
    if done.returncode:
        bad.append(f"{where}: does not compile with {library}: {done.stdout[:400]}")


def try_yaml(where, whole):
    if yaml is None:
        print(f"skipped: {where}: there is no python3-yaml")
        return
    try:
        if not isinstance(yaml.safe_load(whole), (dict, list)):
            bad.append(f"{where}: says nothing in YAML")
    except yaml.YAMLError as why:
        bad.append(f"{where}: is no YAML: {why}")


def try_settings(where, lines):
    # Groups and users of the reader's machine are not on this one.
    text = re.sub(r'"(group|user)": "\w+"', r'"\1": "root"', "\n".join(lines))
    file = os.path.join(WORK, "settings.json")
    with open(file, "w", encoding="utf-8") as out:
        out.write(text if text.lstrip().startswith("{") else "{" + text + "}")
    done = ctl("config", "check", file)
    if done.returncode:
        bad.append(f"{where}: settings are refused: {done.stdout}")


HELP = {}


def try_synopsis(where, words):
    """words: what follows rdmactl. Alternatives are written a|b, or as words of their own around a |."""
    words = [w for w in words if w not in ("...",)]
    objects = words[0].split("|") if words else []
    verb = words[1] if len(words) > 1 and re.match(r"[a-z|]+$", words[1]) else ""
    for name in objects:
        for second in verb.split("|"):
            key = " ".join([name, second]).strip()
            if key not in HELP:
                done = ctl(*key.split(), "--help")
                if done.returncode and not second: # an object with several verbs
                    done = ctl("help", name)
                HELP[key] = done.stdout if not done.returncode else None
            if HELP[key] is None:
                bad.append(f"{where}: there is no rdmactl {key}")
                continue
            for option in words[1:]:
                option = option.strip("[],")
                if re.match(r"--?[a-z]", option) and not re.search(rf"(?<![\w-]){re.escape(option.split('=')[0])}\b", HELP[key]):
                    bad.append(f"{where}: rdmactl {key} has no option {option}")


def synopses(words):
    """rdmactl show | set X: each alternative has the object of the first."""
    part, first = [], None
    for word in words + ["|"]:
        if word != "|":
            part.append(word)
            continue
        if part:
            yield part if first is None else [first] + part
            first = first or part[0]
        part = []


RUNNING = []
URI = [None]


def share(words):
    out = open(os.path.join(WORK, "uri"), "w+", encoding="utf-8")
    process = subprocess.Popen([RDMACTL, "-d", DIRECTORY, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    RUNNING.append(process)
    out.close()
    URI[0] = process.stdout.readline().strip()
    return URI[0].startswith("rdmad://")


COUNT = [0]
SPOKEN = []


def somebody_has_run(where, line):
    """Some script of a test runs each command of the line, with each of its options."""
    for words in synopses(shlex.split(line.replace("[", "").replace("]", ""))[1:]):
        name, verb, options = command_of(words) or ("", "", set())
        for first in words[0].split("|") if "|" in words[0] else [name]:
            verbs = [v for v in (words[1] if len(words) > 1 else "").split("|") if re.fullmatch("[a-z]+", v)] if "|" in line else []
            for second in verbs or [verb]:
                runs, command = RUNS.get((first, second), {}), f"{first} {second}".strip()
                missing = sorted(options - set().union(*runs.values()) - {"-d"})
                if not runs or missing:
                    bad.append(f"{where}: {line}: no script of a test runs rdmactl {' '.join([command] + missing)}")


def try_elsewhere(where, line, test, script, words):
    """The test is there, and the words are in the code of its script."""
    path = os.path.join(SOURCE, script)
    if test not in TESTS:
        bad.append(f"{where}: {line}: there is no test {test}")
    elif not os.path.exists(path) or not any(words in text for text in lines_of(open(path, encoding="utf-8").read())):
        bad.append(f"{where}: {line}: {script} does not run it: it has no {words}")


def try_command(where, line):
    for name in re.findall(r"/usr/share/rdmad/(\S+)", line):
        if not glob.glob(os.path.join(SOURCE, "deploy", name)):
            bad.append(f"{where}: {line}: nothing like {name} is installed there")
    for start, (test, script, *words) in ELSEWHERE.items():
        if line.startswith(start):
            try_elsewhere(where, line, test, script, words[0] if words else start)
            return
    if line.startswith(tuple(NOBODY)):
        return
    if not line.startswith("rdmactl "):
        bad.append(f"{where}: {line}: nobody runs this; name the test that does in tests/documented.py, or why none can")
        return
    words = shlex.split(line)
    words = words[1:]
    if re.search(r"\||\.\.\.|\[", line) or re.search(r"\b(ID|NAME|TOKEN|HOST:PORT)\b", line) or line.startswith(NOT_HERE):
        somebody_has_run(where, line) # what its words stand for differs: try_synopsis has looked at it, too
        return
    COUNT[0] += 1
    real = {"FILE": os.path.join(WORK, "file"), "DIR": os.path.join(WORK, "tree"), "URI": URI[0],
            "image.raw": os.path.join(WORK, "file"), "/etc/rdmad.json": os.path.join(SOURCE, "config", "rdmad.json")}
    after_o = [w for i, w in enumerate(words) if i and words[i - 1] == "-o"]
    words = [os.path.join(WORK, f"out{COUNT[0]}") if w in after_o else real.get(w, w) or w for w in words]
    if words[0] == "share":
        if not share(words):
            bad.append(f"{where}: {line}: no lease")
        return
    done = ctl(*words)
    if done.returncode and not (words[0] == "doctor" and "bad" in done.stdout):
        bad.append(f"{where}: {line}: ended with {done.returncode}: {done.stdout[:300]}")


PROMPT = r"(\w+[#$]|\$|#) "


def typed(language, lines):
    """The lines of a block that somebody types, without prompts; of a transcript only those that have one."""
    if language == "text" or any(re.match(PROMPT, line) for line in lines):
        lines = [line.split(" | ")[0] if line.startswith("$ ") else line for line in lines if re.match(PROMPT, line)]
    for line in lines:
        line = re.sub("^" + PROMPT, "", line)
        # What goes on from the line above: its explanation in the column beside it, or more of a synopsis.
        if line.strip() and not re.match(r" {20}| +\[", line):
            yield re.sub(r"\s+# .*|\s{2,}.*", "", line.strip())


def try_shell(where, language, lines):
    for line in typed(language, lines):
        # Not where one is within quotes.
        for command in re.split(r" && (?=(?:[^']*'[^']*')*[^']*$)|; (?=(?:[^']*'[^']*')*[^']*$)", line):
            spoken = re.search(r"(?:^| -- )rdmactl (?!-d )(.*)", command)
            if spoken:
                for words in synopses(spoken.group(1).split()):
                    try_synopsis(where, words)
            if not re.match(r"for \w+ in |do$|done$", command):
                try_command(where, command)


def try_block(where, language, lines):
    whole = "\n".join(lines)
    if language.startswith("c ") and language[2:] in LIBRARIES:
        try_foreign(where, language[2:], lines)
    elif language == "rust":
        pass # that library is on crates.io, and nothing else here is
    elif language not in ("", "c", "json", "sh", "text", "yaml"):
        bad.append(f"{where}: what is a block of {language}? tests/documented.py has to know")
    elif is_code(language, lines):
        try_code(where, lines)
    elif re.match(r"import \w+\n", whole):
        compile(whole, where, "exec")  # test_python_examples runs it
    elif language == "yaml":
        try_yaml(where, whole)
    elif whole.startswith(OUTPUT):
        pass
    elif language == "json" or re.match(r"\s*(\{|\"policy\")", whole):
        try_settings(where, lines)
    else:
        try_shell(where, language, lines)


def page(path):
    where = os.path.relpath(path, SOURCE)
    text = open(path, encoding="utf-8").read()
    for number, language, lines in blocks(path):
        try_block(f"{where}:{number}", language, lines)
    # In the text, tables among it: `systemctl status rdmad`, *bpftrace -p*.
    prose = re.sub(r"^```.*?^```", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.M | re.S)
    for match in re.finditer(r"`([^`\n]+)`|\*([^*\n]+)\*", prose):
        command = (match.group(1) or match.group(2)).replace("\\", "")
        if INLINE.match(command):
            SPOKEN.append(command)
            for part in command.split("; "):
                try_command(f"{where}:{prose.count(chr(10), 0, match.start()) + 1}", part)
    # `rdmactl lease show`, *rdmactl lease show*.
    for match in re.finditer(r"[`*]rdmactl ([a-z][^`*\n]*)[`*]", text):
        words = match.group(1).replace("\\", "").split()
        words = words[:next((i for i, w in enumerate(words) if not re.match(r"[a-z|]+$|--", w)), len(words))]
        if words and words[0] not in ("help",):
            try_synopsis(f"{where}:{text.count(chr(10), 0, match.start()) + 1}", words)


def manual_of_rdmactl():
    """What rdmactl and its daemon have, and rdmactl(8) does not tell of."""
    page_of = os.path.join("docs", "man", "rdmactl.8.scd")
    text = open(os.path.join(SOURCE, page_of), encoding="utf-8").read()
    # An entry: *bench nop*|*read* [_option_...], and what it does behind a tab.
    entries = set()
    for line in re.findall(r"^(\*.*)\n\t", text, flags=re.M):
        for first, others in re.findall(r"\*([a-z][a-z ]*)\*((?:\|\*[a-z]+\*)*)", line):
            entries.add(first)
            entries |= {first.split()[0] + " " + other for other in re.findall(r"[a-z]+", others)}
    commands = re.findall(r"^  ([a-z]+(?: [a-z]+)?)  +[A-Z]", run([RDMACTL, "--help"]).stdout, flags=re.M)
    bad.extend(f"{page_of}: no entry for the command rdmactl {name}" for name in commands if name not in entries)

    bad.extend(f"no script of a test runs the command rdmactl {name}" for name in commands if not
               any(run[:len(name.split())] == tuple(name.split()) for run in RUNS))

    section = re.search(r"^# THE ADMINISTRATION SOCKET\n(.*?)^# ", text, flags=re.M | re.S).group(1)
    described = re.search(r"^# DESCRIPTION\n(.*?)^# ", text, flags=re.M | re.S).group(1)
    source = open(os.path.join(SOURCE, "daemon", "ctl", "methods.c"), encoding="utf-8").read()
    methods = re.findall(r'^    \{"([a-z.]+)", ctl_\w+,(.*?)CTL_\w+\},', source, flags=re.M | re.S)
    for name, params in methods:
        here = re.search(r"\*" + re.escape(name) + r"\*(?:\s+\{([^}]*)\})?", section)
        if not here:
            bad.append(f"{page_of}: THE ADMINISTRATION SOCKET has no method {name}")
        elif re.findall(r'"(\w+)":', here.group(1) or "") != re.findall(r'\{"(\w+)", RPC', params):
            bad.append(f"{page_of}: THE ADMINISTRATION SOCKET has other params of {name} than daemon/ctl/methods.c")
        command = "log" if name == "log.level" else name.replace(".", " ")
        if not name.endswith(".show") and f"*{command}*" not in described:
            bad.append(f"{page_of}: DESCRIPTION does not say that {command} uses control.sock")
    if len(commands) < 40 or len(methods) < 25:
        bad.append(f"only {len(commands)} commands and {len(methods)} methods were found: they are read wrongly")


def tests():
    out = ""
    for folder, _, names in os.walk(os.path.join(SOURCE, "tests")):
        for name in names:
            if name == "CMakeLists.txt" or name.endswith(".cmake"):
                out += open(os.path.join(folder, name), encoding="utf-8").read()
    return out


TESTS = tests()
RUNS = run_by_tests(SOURCE)


def main():
    os.makedirs(os.path.join(WORK, "tree", "sub"))
    for name in ("file", "tree/one", "tree/sub/two"):
        with open(os.path.join(WORK, name), "wb") as file:
            file.write(os.urandom(100000))
    try:
        manual_of_rdmactl()
        for path in pages(SOURCE):
            page(path)
    finally:
        for process in RUNNING:
            process.terminate()
            process.wait()
    if COUNT[0] < 12 or len(HELP) < 25:
        bad.append(f"only {COUNT[0]} commands were found to run, and {len(HELP)} to look up: the pages are read wrongly")
    if len(SPOKEN) < 30:
        bad.append(f"only {len(SPOKEN)} commands were found in texts: they are read wrongly")
    print("\n".join("FAILED: " + text for text in bad) or
          f"{COUNT[0]} commands run, {len(HELP)} looked up, {len(SPOKEN)} of other programs in texts")
    sys.exit(1 if bad else 0)


main()
