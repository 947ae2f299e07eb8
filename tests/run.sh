#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# run.sh PROGRAM [ARG...]: runs one test so that nothing slips through.
#
# Exit codes alone are not enough: Criterion exits 0 when a test leaked under ASan or printed a
# UBSan report. So every sanitizer writes its reports into a directory of this run, in whatever
# process it happens, and one report is a failure. Criterion also counts a case as passed whose
# teardown fails; it prints what has failed, so an assertion in what a unit test says is a failure, too.
# Temporary files go to a directory that is removed.
set -euo pipefail

TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/rt.XXXXXX")
chmod 755 "$TMPDIR"
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
reports=$TMPDIR/reports
mkdir -m 1777 "$reports"

export ASAN_OPTIONS="abort_on_error=1:detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:allocator_may_return_null=1:handle_sigbus=0:log_path=$reports/report"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:abort_on_error=1:log_path=$reports/report"
export LSAN_OPTIONS="print_suppressions=0"
# A child of a program that has sessions may open its own, with a thread of the library's.
export TSAN_OPTIONS="halt_on_error=1:abort_on_error=1:second_deadlock_stack=1:handle_sigbus=0:die_after_fork=0:log_path=$reports/report"

code=0
case ${1##*/} in
unit_*)
    "$@" 2>&1 | tee "$TMPDIR/said" || code=$?
    if [ "$code" = 0 ] && grep -q 'Assertion Failed' "$TMPDIR/said"; then
        echo "---- an assertion has failed in a teardown"
        code=98
    fi
    ;;
*) "$@" || code=$? ;;
esac

for report in "$reports"/report.*; do
    [ -e "$report" ] || continue
    echo "---- sanitizer report of a process of this test:"
    cat "$report"
    [ "$code" != 0 ] || code=99
done
exit "$code"
