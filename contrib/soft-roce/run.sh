#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# run.sh: what the action does. Its inputs are variables SOFT_ROCE_*, as action.yml names and describes them; only
# SOFT_ROCE_RUN has to be there. So other systems of CI, and a person, can call it, too:
#
#     SOFT_ROCE_RUN='ibv_devinfo' contrib/soft-roce/run.sh
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/deps.sh
. "$root/scripts/deps.sh"

# wrong SENTENCE: also where GitHub shows what is wrong with a step.
wrong() {
    [ -z "${GITHUB_ACTIONS:-}" ] || echo "::error title=Soft-RoCE::$*"
    die "$*"
}
number() { # NAME VALUE
    [[ $2 =~ ^[1-9][0-9]*$ ]] || wrong "$1 is \"$2\": a number is needed"
}

# ---- what was asked for --------------------------------------------------------------------------

[ -n "${SOFT_ROCE_RUN:-}" ] || wrong "run is empty: what shall the guest do?"
boots=${SOFT_ROCE_BOOTS:-2} timeout=${SOFT_ROCE_TIMEOUT:-600}
number boots "$boots"
number timeout "$timeout"
# shellcheck source=/dev/null
system=$(. /etc/os-release && echo "${ID:-}:${VERSION_ID:-}")
[ "$system:$(dpkg --print-architecture 2>/dev/null || uname -m)" = debian:12:amd64 ] ||
    wrong "this is $system on $(uname -m), and the guest shares its files: give the job \"container: debian:12\", on amd64"
read -r -a packages <<<"${SOFT_ROCE_PACKAGES:-}" || true
[ "${#packages[@]}" = 0 ] || need_packages "${packages[@]}"
made() { mkdir -p "$1" && (cd "$1" && pwd); } # DIRECTORY: its absolute path
[ -z "${SOFT_ROCE_KEEP:-}" ] || RDMAD_VM_KEEP=$(made "$SOFT_ROCE_KEEP")
[ -z "${SOFT_ROCE_CACHE:-}" ] || RDMAD_VM_CACHE=$(made "$SOFT_ROCE_CACHE")
cd "${SOFT_ROCE_DIRECTORY:-.}" 2>/dev/null || wrong "directory is \"$SOFT_ROCE_DIRECTORY\", which there is not"

work=$(mktemp -d "${RUNNER_TEMP:-${TMPDIR:-/tmp}}/soft-roce.XXXXXX")
trap 'rm -rf "$work"' EXIT
read -r -a wanted <<<"${SOFT_ROCE_ENV:-}" || true
for name in "${wanted[@]}"; do
    [[ $name =~ ^[A-Za-z_][A-Za-z_0-9]*$ ]] || wrong "env has \"$name\", which is no variable's name"
done
for name in CI "${!GITHUB_@}" "${wanted[@]}"; do
    [ -z "${!name+set}" ] || printf 'export %s=%q\n' "$name" "${!name}"
done >"$work/commands"
printf '%s\n' "$SOFT_ROCE_RUN" >>"$work/commands"

# ---- the guest -----------------------------------------------------------------------------------

export RDMAD_VM_BUILD=no RDMAD_VM_TIMEOUT=$timeout RDMAD_VM_KEEP=${RDMAD_VM_KEEP:-}
[ -z "${SOFT_ROCE_MEMORY:-}" ] || export RDMAD_VM_MEMORY=$SOFT_ROCE_MEMORY
[ -z "${SOFT_ROCE_KERNEL:-}" ] || export RDMAD_VM_KERNEL=$SOFT_ROCE_KERNEL
[ -z "${SOFT_ROCE_CACHE:-}" ] || export RDMAD_VM_CACHE
for ((boot = 1; ; boot++)); do
    code=0
    "$root/tests/vm/run" bash -e -o pipefail "$work/commands" || code=$?
    if [ "$code" != 125 ] || [ "$boot" -ge "$boots" ]; then break; fi
    echo "the guest died; booted again ($boot of $((boots - 1)) times)"
done
case $code in
124) wrong "it took longer than timeout, $timeout seconds; what ran in the guest is above" ;;
125) wrong "the guest died, or did not start; the end of its console is above" ;;
esac
exit "$code"
