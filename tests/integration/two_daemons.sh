# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# two_daemons.sh - for scripts that ask two real daemons by rdmactl: they are a and b, and what is asked of
# them by `a COMMAND...` and `b COMMAND...`; has judges a document, code an exit code.
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"

start_daemon a
start_daemon b
a() { "$rdmactl" -d "$work/a" "$@"; }
b() { "$rdmactl" -d "$work/b" "$@"; }

# One Python judges all documents: to start it takes longer than to judge, most of all in the guest.
coproc judge {
    exec python3 -uc '
import json, os

def verdict(condition, text):
    try:
        d = json.loads(text)
        assert d["schema"] == 1, "no schema"
        return "good" if eval("(" + condition + ")", {"d": d}) else "not so"
    except Exception as e:
        return " ".join(repr(e).split())

asked = b""
while True:
    while asked.count(b"\0") < 2:
        more = os.read(0, 1 << 16)
        if not more:
            raise SystemExit
        asked += more
    condition, text, asked = asked.split(b"\0", 2)
    print(verdict(condition.decode(), text))
'
}

# has CONDITION JSON...: one document, of which it is true.
has() {
    local condition=$1 verdict=silence
    shift
    printf '%s\0%s\0' "$condition" "$*" >&"${judge[1]}"
    read -r verdict <&"${judge[0]}" || true
    [ "$verdict" = good ] || fail "$verdict, not $condition: $*"
}

# code WANTED COMMAND...: its exit code; what it says goes to $work/said.
code() {
    local wanted=$1 got=0
    shift
    "$@" >"$work/said" 2>&1 || got=$?
    [ "$got" = "$wanted" ] || fail "exit $got instead of $wanted: $* ($(cat "$work/said"))"
}

share() { # FILE OPTIONS...: sets $uri and $sharer
    rm -f "$work/uri"
    "$rdmactl" -d "$work/a" share "$@" >"$work/uri" 2>"$work/share.log" &
    sharer=$!
    pids+=("$sharer")
    # shellcheck disable=SC2034 # it is for who calls
    uri=$(first_line "$work/uri" "$sharer")
}

ended() { # WANTED: the exit code of the sharer
    local got=0
    wait "$sharer" || got=$?
    [ "$got" = "$1" ] || fail "share ended with $got instead of $1: $(cat "$work/share.log")"
}

# At a, a moment after its programs have ended.
nothing_is_left() {
    local i
    echo "* nothing is left"
    for ((i = 0; i < 400 * ${RDMAD_TEST_PATIENCE:-1}; i++)); do
        a -j status | grep -q '"sessions": *0,"pools": *0,"pool_bytes": *0,"rings": *0,"leases": *0' && break
        sleep 0.05
    done
    has 'not any(d["objects"][k] for k in ("sessions", "pools", "pool_bytes", "rings", "leases"))' \
        "$(a -j status)"
}
