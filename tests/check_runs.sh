#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# check_runs.sh LOGS N COMMAND...: COMMAND, as ./check, N times, whatever comes of it, and a line for
# each: when it began, how long it took, which tests failed, whether its guest died. Each run's whole
# output stays in LOGS. The last lines sum it up; the exit status is 0 when all N passed.
set -euo pipefail

logs=$1 runs=$2
shift 2
[[ $runs =~ ^[1-9][0-9]*$ ]] || {
    echo "check_runs.sh: \"$runs\" runs: a number from 1 is needed" >&2
    exit 2
}
mkdir -p "$logs"
rm -f "$logs"/*.log

minutes() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# What a run's output says of tests that failed, also in the suites within it: "12 - NAME (Timeout)".
tests_failed() { sed -nE 's/^[[:space:]]+[0-9]+ - ([^ ]+ \([^)]+\)).*/\1/p' "$1" | grep -vE '\((Skipped|Disabled|Not Run)\)$' | awk '!seen[$0]++'; }

failed=0 took=() names=()
printf '%4s  %-8s  %7s  %s\n' run began took failed
for ((run = 1; run <= runs; run++)); do
    log=$logs/$(printf '%03d' "$run").log
    began=$(date +%T) since=$SECONDS code=0
    "$@" >"$log" 2>&1 </dev/null || code=$?
    took+=($((SECONDS - since)))
    verdict=-
    if [ "$code" != 0 ]; then
        failed=$((failed + 1))
        mapfile -t these < <(tests_failed "$log")
        names+=("${these[@]%% *}")
        verdict=$(printf '%s, ' "${these[@]}")
        verdict=${verdict%, }
        [ "${#these[@]}" != 0 ] || verdict="exit status $code before any test, see $log"
    fi
    deaths=$(grep -E '^guest death [0-9]+:' "$log" | sort -u | wc -l || true)
    [ "$deaths" = 0 ] || verdict+="; guest booted again: $deaths"
    printf '%4d  %-8s  %7s  %s\n' "$run" "$began" "$(minutes "${took[-1]}")" "$verdict"
done

mapfile -t sorted < <(printf '%s\n' "${took[@]}" | sort -n)
echo "$runs runs, $((runs - failed)) passed; $(minutes "${sorted[0]}") at least, $(minutes "${sorted[runs / 2]}")" \
    "in the middle, $(minutes "${sorted[-1]}") at most; all they printed is in $logs"
if [ "${#names[@]}" != 0 ]; then
    printf '%s\n' "${names[@]}" | sort | uniq -c | sort -rn | awk '{ print "  " $2 " failed in " $1 " of them" }'
fi
[ "$failed" = 0 ]
