#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The systemd units: systemd understands every line of them, and they say what the daemon's exit codes
# rely on (those are tested in test_args).
set -euo pipefail

: "${RDMAD_BUILD:?run the test by ctest}"
work=$(mktemp -d "${TMPDIR:-/tmp}/rdmad-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $*"
    exit 1
}

cp "$RDMAD_BUILD/systemd/rdmad.socket" "$work/"
# The programs are where they were built, so that systemd looks whether they are there.
sed -e "s,^\(Exec[A-Za-z]*=\)[^ ]*/rdmad\b,\1$RDMAD_BUILD/daemon/rdmad," \
    -e "s,^\(Exec[A-Za-z]*=\)[^ ]*/rdmactl\b,\1$RDMAD_BUILD/rdmactl/rdmactl," \
    "$RDMAD_BUILD/systemd/rdmad.service" >"$work/rdmad.service"
grep -q "^ExecStart=$RDMAD_BUILD/daemon/rdmad " "$work/rdmad.service" || fail "no ExecStart"

# has UNIT SECTION KEY WORD: the key's value, all its lines together, has the word.
has() {
    awk -v section="[$2]" -v key="$3" -v word="$4" '
        /^\[/ { in_it = $0 == section }
        in_it && index($0, key "=") == 1 {
            n = split(substr($0, length(key) + 2), words, /[ \t]+/)
            for (i = 1; i <= n; i++) found = found || words[i] == word
        }
        END { exit !found }' "$work/$1" || fail "$1: $3 of [$2] has no $4"
}
has rdmad.service Unit Requires rdmad.socket
has rdmad.service Unit After rdmad.socket
has rdmad.service Unit After nss-user-lookup.target
has rdmad.service Unit StartLimitIntervalSec 0
has rdmad.service Service Restart on-failure
has rdmad.service Service RestartPreventExitStatus 2
has rdmad.service Service ExecReload "$RDMAD_BUILD/rdmactl/rdmactl"
has rdmad.service Service ExecReload reload
has rdmad.socket Socket Service rdmad.service
has rdmad.service Service LimitCORE 0
has rdmad.service Service SystemCallFilter "@system-service"
has rdmad.service Service NoNewPrivileges yes

# Devices are for the service's own group: the rule names the group that sysusers makes.
group=$(sed -n 's/.*GROUP="\([^"]*\)".*/\1/p' systemd/91-rdmad.rules)
has rdmad.service Service Group "$group"
grep -q "^u $group " systemd/rdmad.sysusers || fail "nobody makes the group $group of the udev rule"
grep -q '^ACTION!="remove", SUBSYSTEM=="infiniband_verbs", KERNEL=="uverbs\*", .*MODE="0660"$' systemd/91-rdmad.rules ||
    fail "the udev rule lets others open uverbs"
if udevadm verify --help >/dev/null 2>&1; then
    udevadm verify --no-summary --resolve-names=never systemd/91-rdmad.rules || fail "udev does not understand the rule"
else
    echo "skipped: there is no udevadm here that verifies rules"
fi

if ! command -v systemd-analyze >/dev/null; then
    echo "skipped: systemd-analyze is not here to read the units"
    exit 0
fi
# 16: an exposure of 1.6, in words of systemd's.
systemd-analyze security --offline=true --no-pager --threshold=16 "$work/rdmad.service" >"$work/said" 2>&1 ||
    fail "the service is more exposed than 1.6: $(tail -n 3 "$work/said")"
grep 'Overall exposure' "$work/said"
# It exits 0 for lines that it ignores, and tells of them.
SYSTEMD_UNIT_PATH=$work: systemd-analyze verify --man=no --recursive-errors=no \
    "$work/rdmad.service" "$work/rdmad.socket" >"$work/said" 2>&1 || fail "$(<"$work/said")"
if grep "^$work/rdmad\.\|^rdmad\." "$work/said"; then fail "systemd does not understand these units"; fi
