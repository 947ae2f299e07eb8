# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# A program that shares a file by the daemon a, after daemons.sh.
# shellcheck disable=SC2034,SC2154 # for and from the scripts that read this
share() { # FILE OPTIONS...: sets $uri and $sharer
    rm -f "$work/uri"
    "$rdmactl" -d "$work/a" share --ttl 20m "$@" >"$work/uri" 2>"$work/share.log" &
    sharer=$!
    pids+=("$sharer")
    uri=$(first_line "$work/uri" "$sharer")
}
unshare_it() {
    kill -TERM "$sharer"
    wait "$sharer" || fail "share ended with $?: $(<"$work/share.log")"
}
