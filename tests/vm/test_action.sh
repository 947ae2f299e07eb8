#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_action.sh: contrib/soft-roce, the action for CI of others, does for programs that are none of ours what its README
# says: its steps are run as a runner runs them, and the guest's devices carry ibv_rc_pingpong and rping. What it does
# with exit codes, deaths and wrong inputs is tried with a guest that only says so.
set -euo pipefail

work=$(mktemp -d "${TMPDIR:-/tmp}/rdmad-action.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $*"
    tail -n 20 "$work/said" 2>/dev/null || true
    exit 1
}
action=$PWD/contrib/soft-roce
python3 tests/vm/action.py --check "$action/action.yml" "$action/README.md" "$action/run.sh" || fail "its inputs"
[ "$(dpkg --print-architecture)" = amd64 ] || { echo "skipped: the guest is for amd64"; exit 77; }

# runner ACTION INPUT=VALUE...: in a workspace of its own.
mkdir -p "$work/workspace/sub" "$work/temp"
runner() {
    (cd "$work/workspace" && env GITHUB_ACTIONS=true CI=true GITHUB_SHA=abc RUNNER_TEMP="$work/temp" MY_WORD="two words" OTHER=no \
        python3 "$OLDPWD/tests/vm/action.py" "$@") >"$work/said" 2>&1
}

# ---- with a guest that only says what it was asked for ----

mkdir -p "$work/tree/contrib" "$work/tree/tests/vm" "$work/tree/scripts"
cp -r "$action" "$work/tree/contrib/"
cp scripts/deps.sh "$work/tree/scripts/"
pretended=$work/tree/contrib/soft-roce/action.yml
cat >"$work/tree/tests/vm/run" <<'END'
#!/bin/bash
echo boot >>"${0%/*}/boots"
echo "guest: $PWD $RDMAD_VM_TIMEOUT ${RDMAD_VM_MEMORY:-} ${RDMAD_VM_KERNEL:-} keep=${RDMAD_VM_KEEP:-} cache=${RDMAD_VM_CACHE:-}"
"$@"
END
chmod +x "$work/tree/tests/vm/run"
expect() { # CODE WORDS INPUT=VALUE...: so it ends, and so it says
    local code=0 wanted=$1 words=$2
    shift 2
    rm -f "$work/tree/tests/vm/boots"
    runner "$pretended" "$@" || code=$?
    [ "$code" = "$wanted" ] || fail "it ends with $code, not $wanted: $*"
    grep -qF -- "$words" "$work/said" || fail "it does not say: $words"
}
boots() { grep -c boot "$work/tree/tests/vm/boots" 2>/dev/null || true; }
expect 0 "guest: $work/workspace 600 3G linux-image-amd64 keep= cache=" run=true
expect 0 "guest: $work/workspace/sub 7 1G k keep=$work/workspace/r cache=$work/workspace/c" run=true directory=sub timeout=7 \
    memory=1G kernel=k keep=r cache=c
expect 3 "guest:" run='exit 3'
[ "$(boots)" = 1 ] || fail "what fails is tried again"
expect 1 "guest:" run=$'false\necho not reached'
[ "$(grep -c "not reached" "$work/said")" = 0 ] || fail "commands go on after one that failed"
# shellcheck disable=SC2016 # for the guest
expect 0 "two words abc true none" run='echo "$MY_WORD $GITHUB_SHA $CI ${SOFT_ROCE_X:-none}"' env=MY_WORD
expect 1 "::error title=Soft-RoCE::the guest died" run='exit 125'
[ "$(boots)" = 2 ] || fail "a guest that died was booted $(boots) times, not 2"
expect 1 "::error title=Soft-RoCE::the guest died" run='exit 125' boots=1
[ "$(boots)" = 1 ] || fail "a guest that died was booted $(boots) times, not 1"
expect 1 "::error title=Soft-RoCE::it took longer than timeout, 9 seconds" run='exit 124' timeout=9
refused() { # WORDS INPUT=VALUE...: it says so, and boots nothing
    expect 1 "$@"
    [ ! -e "$work/tree/tests/vm/boots" ] || fail "the guest was booted for wrong inputs: $*"
}
refused '::error title=Soft-RoCE::timeout is "soon": a number is needed' run=true timeout=soon
refused '::error title=Soft-RoCE::boots is "0": a number is needed' run=true boots=0
refused '::error title=Soft-RoCE::run is empty' run=
refused '::error title=Soft-RoCE::directory is "none", which there is not' run=true directory=none
refused '::error title=Soft-RoCE::env has "A;B", which is no variable' run=true env='A;B'
refused "action.py: input run is required"
mkdir "$work/arm"
printf '#!/bin/sh\necho arm64\n' >"$work/arm/dpkg"
chmod +x "$work/arm/dpkg"
PATH=$work/arm:$PATH refused 'give the job "container: debian:12", on amd64' run=true
left=$(ls -A "$work/temp") || fail "what is left behind is not seen"
[ -z "$left" ] || fail "left behind: $left"

# ---- with the guest ----

cat >"$work/commands" <<'END'
server() { # PORT COMMAND...: it listens
    "${@:2}" >/run/tmp/server 2>&1 &
    for ((i = 0; i < 600; i++)); do
        ! ss -Hltn "sport = :$1" | grep -q . || return 0
        sleep 0.1
    done
    cat /run/tmp/server
    return 1
}
server 18515 ibv_rc_pingpong -d rxe0 -g 1 -n 100
ibv_rc_pingpong -d rxe1 -g 1 -n 100 10.77.0.1 | tee /run/vm/keep/pingpong
wait
rping -s -a 10.77.0.1 -C 5 -v >/run/tmp/rping &
tries=0
until rping -c -a 10.77.0.1 -C 5; do
    sleep 0.2
    [ $((tries += 1)) -lt 100 ]
done
wait
cp /run/tmp/rping /run/vm/keep/
echo "$MY_WORD in $(basename "$PWD")" >/run/vm/keep/word
touch gone
END
runner "$action/action.yml" run="$(<"$work/commands")" directory=sub keep=results env=MY_WORD memory=1G || fail "the action"
for file in pingpong rping word; do
    [ -s "$work/workspace/results/$file" ] || fail "what the commands put into /run/vm/keep does not come back: $file"
done
grep -q '^100 iters in' "$work/workspace/results/pingpong" || fail "ibv_rc_pingpong: $(<"$work/workspace/results/pingpong")"
grep -q 'rdma-ping-4' "$work/workspace/results/rping" || fail "rping: $(<"$work/workspace/results/rping")"
[ "$(<"$work/workspace/results/word")" = "two words in sub" ] || fail "the guest had: $(<"$work/workspace/results/word")"
[ ! -e "$work/workspace/sub/gone" ] || fail "the guest writes to the host's files"
tail -n 1 "$work/workspace/results/pingpong"
