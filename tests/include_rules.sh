#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# include_rules.sh [TREE]: what may include what (docs/ARCHITECTURE.md says why).
# include_rules.sh --self-test: breaks each rule in a copy of the tree and requires that it shows.
# Both go on to circles.py: no circle of files inside a folder.
#
# The rules are a table: a directory, and the paths that its files may include in quotes. Public
# headers (<rdmad/...>) are open to all; a file of the same directory always is. Directories that
# are not listed (tests) may include anything.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)

rules() {
    cat <<'TABLE'
include/rdmad           -
common                  -
pki                     common/
libclient/base          common/
libclient/arena         -
libclient/control       common/ libclient/base/
libclient/memory        common/ libclient/base/ libclient/arena/ libclient/control/
libclient/lease         common/ libclient/base/ libclient/control/ libclient/memory/
libclient/ring          common/ libclient/base/ libclient/control/ libclient/memory/ libclient/lease/
libclient/channel       common/ libclient/base/ libclient/control/ libclient/memory/ libclient/ring/
libclient/transfer      common/ libclient/base/ libclient/control/ libclient/memory/ libclient/lease/ libclient/ring/ libclient/channel/
libclient/session       common/ libclient/
rdmactl                 common/ pki/ daemon/base/error.h daemon/config/config.h
examples                -
bench                   common/
daemon/base             common/
daemon/config           common/ daemon/base/
daemon/porter           daemon/base/list.h common/sanitizer.h
daemon/ipc              common/ daemon/base/ daemon/porter/messages.h
daemon/fabric           common/ daemon/base/
daemon/fabric/local     common/ daemon/base/ daemon/fabric/fabric.h
daemon/fabric/tcp       common/ daemon/base/ daemon/fabric/fabric.h
daemon/fabric/verbs     common/ daemon/base/ daemon/fabric/fabric.h daemon/fabric/device.h daemon/fabric/settings.h daemon/fabric/verbs/
daemon/fabric/verbs/wire      common/ daemon/base/ daemon/fabric/fabric.h
daemon/fabric/verbs/device    common/ daemon/base/ daemon/fabric/device.h daemon/fabric/settings.h
daemon/fabric/verbs/host      common/ daemon/base/ daemon/fabric/fabric.h daemon/fabric/device.h daemon/fabric/settings.h daemon/fabric/verbs/device/
daemon/fabric/verbs/instance  common/ daemon/base/ daemon/fabric/fabric.h daemon/fabric/settings.h daemon/fabric/verbs/wire/ daemon/fabric/verbs/device/ daemon/fabric/verbs/host/
daemon/fabric/verbs/link      common/ daemon/base/ daemon/fabric/fabric.h daemon/fabric/verbs/wire/ daemon/fabric/verbs/host/ daemon/fabric/verbs/instance/
daemon/fabric/verbs/target    common/ daemon/base/ daemon/fabric/fabric.h daemon/fabric/verbs/wire/ daemon/fabric/verbs/instance/
daemon/fabric/verbs/window    common/ daemon/base/ daemon/fabric/fabric.h daemon/fabric/verbs/wire/ daemon/fabric/verbs/host/ daemon/fabric/verbs/instance/ daemon/fabric/verbs/target/
daemon/fabric/verbs/connect   common/ daemon/base/ daemon/fabric/fabric.h daemon/fabric/verbs/wire/ daemon/fabric/verbs/instance/ daemon/fabric/verbs/link/ daemon/fabric/verbs/target/
daemon/plane            common/ daemon/base/ daemon/fabric/fabric.h
daemon/op/tool          common/ daemon/base/
daemon/op/engine        common/ daemon/base/ daemon/fabric/fabric.h daemon/plane/plane.h daemon/ipc/ring.h daemon/op/tool/
daemon/op/notify        common/ daemon/base/ daemon/op/tool/ daemon/op/engine/
daemon/op/channel       common/ daemon/base/ daemon/fabric/fabric.h daemon/op/tool/ daemon/op/engine/
daemon/op/seam          common/ daemon/base/ daemon/plane/plane.h daemon/op/tool/ daemon/op/engine/ daemon/op/notify/ daemon/op/channel/
daemon/op/turn          common/ daemon/base/ daemon/plane/plane.h daemon/op/
daemon/state            common/ pki/ daemon/base/ daemon/fabric/fabric.h daemon/plane/plane.h daemon/ipc/ daemon/config/
daemon/peer             common/ pki/ daemon/base/ daemon/fabric/fabric.h daemon/plane/plane.h daemon/config/ daemon/state/ daemon/peer/
daemon/peer/wire        common/ daemon/base/ daemon/fabric/fabric.h daemon/state/names.h
daemon/peer/control     common/ pki/ daemon/base/ daemon/fabric/fabric.h daemon/plane/plane.h daemon/config/ daemon/state/session.h daemon/state/identity.h daemon/state/policy.h daemon/peer/wire/
daemon/peer/connect     common/ pki/ daemon/base/ daemon/fabric/fabric.h daemon/plane/plane.h daemon/config/ daemon/state/identity.h daemon/state/policy.h daemon/state/scope.h daemon/peer/peer.h daemon/peer/control/
daemon/peer/lane        common/ daemon/base/ daemon/fabric/fabric.h daemon/plane/plane.h daemon/state/ daemon/peer/peer.h daemon/peer/tables.h daemon/peer/control/ daemon/peer/connect/rights.h
daemon/peer/lessee      common/ daemon/base/ daemon/fabric/fabric.h daemon/plane/plane.h daemon/state/ daemon/peer/peer.h daemon/peer/tables.h daemon/peer/control/ daemon/peer/connect/ daemon/peer/lane/
daemon/peer/owner       common/ daemon/base/ daemon/fabric/fabric.h daemon/plane/plane.h daemon/state/ daemon/peer/tables.h daemon/peer/control/ daemon/peer/connect/ daemon/peer/lessee/claim.h
daemon/peer/channel     common/ daemon/base/ daemon/fabric/fabric.h daemon/plane/plane.h daemon/state/ daemon/peer/peer.h daemon/peer/tables.h daemon/peer/control/ daemon/peer/connect/ daemon/peer/lane/
daemon/peer/names       common/ daemon/base/ daemon/fabric/fabric.h daemon/plane/plane.h daemon/state/ daemon/peer/peer.h daemon/peer/tables.h daemon/peer/control/ daemon/peer/connect/
daemon/serve            common/ daemon/base/ daemon/plane/plane.h daemon/config/ daemon/ipc/ daemon/state/ daemon/peer/peer.h
daemon/ctl              common/ pki/ daemon/base/ daemon/fabric/device.h daemon/plane/plane.h daemon/config/ daemon/ipc/ daemon/state/ daemon/peer/peer.h
TABLE
}

bad=0
complain() { # FILE:LINE MESSAGE
    echo "$1: $2"
    bad=1
}

# "LINE PATH" of each quoted include of a file, and "LINE <PATH>" of each other one.
includes_of() {
    sed -nE '/^[[:space:]]*#[[:space:]]*include/{=;s/^[[:space:]]*#[[:space:]]*include[[:space:]]*//p}' "$1" |
        paste -d' ' - - | sed -nE 's/^([0-9]+) "([^"]*)".*/\1 \2/p; s/^([0-9]+) (<[^>]*>).*/\1 \2/p'
}

quoted_allowed() { # DIR PATH ALLOWED...
    local dir=$1 path=$2 prefix
    shift 2
    case $path in
    *..*) return 1 ;;
    "$dir"/*/*) ;;
    "$dir"/*) return 0 ;;
    */*) ;;
    *) return 0 ;; # no slash: beside the file
    esac
    for prefix in "$@"; do
        [[ $path == "$prefix"* ]] && return 0
    done
    return 1
}

# Whether code of this file may know the event loop.
takes_now_ns() {
    case $1 in
    daemon/op/* | daemon/fabric/* | daemon/plane/* | daemon/base/* | daemon/porter/*) return 0 ;;
    daemon/state/lease*.c | daemon/state/handle*.c | daemon/state/quota*.c) return 0 ;;
    esac
    return 1
}

check_file() { # FILE DIR ALLOWED...
    local file=$1 dir=$2 line path
    shift 2
    while read -r line path; do
        case $path in
        "<infiniband/"* | "<rdma/"*)
            [[ $file == daemon/fabric/verbs/* ]] ||
                complain "$file:$line" "$path is for daemon/fabric/verbs/ only"
            ;;
        "<event2/"*)
            if takes_now_ns "$file"; then
                complain "$file:$line" "$path: this code takes now_ns and knows no event loop"
            elif [[ $file != daemon/* ]]; then
                complain "$file:$line" "$path: the event loop is the daemon's"
            fi
            ;;
        "<"*) ;;
        *)
            quoted_allowed "$dir" "$path" "$@" ||
                complain "$file:$line" "$dir/ may not include $path"
            ;;
        esac
    done < <(includes_of "$file")
}

check_tree() { # TREE
    cd "$1"
    local dir allowed file
    while read -r dir allowed; do
        [ -d "$dir" ] || continue
        [ "$allowed" != - ] || allowed=
        for file in "$dir"/*.[ch]; do
            # shellcheck disable=SC2086 # the list of prefixes is meant to be split
            [ ! -e "$file" ] || check_file "$file" "$dir" $allowed
        done
    done < <(rules)
    return "$bad"
}

# One "FILE INCLUDE" a line: each must be refused.
broken() {
    cat <<'CASES'
include/rdmad/x.h "common/uri.h"
common/x.c "daemon/base/error.h"
libclient/session/x.c "daemon/state/state.h"
libclient/control/x.c <event2/event.h>
libclient/base/x.c "libclient/control/control.h"
libclient/arena/x.c "libclient/memory/pool.h"
libclient/control/x.c "libclient/session/event.h"
libclient/memory/x.c "libclient/lease/lease.h"
libclient/memory/x.c "libclient/ring/ring.h"
libclient/lease/x.c "libclient/ring/ring.h"
libclient/ring/x.c "libclient/channel/channel.h"
libclient/ring/x.c "libclient/transfer/blocking.h"
libclient/channel/x.c "libclient/transfer/blocking.h"
libclient/transfer/x.c "libclient/session/event.h"
rdmactl/x.c "daemon/ctl/ctl.h"
pki/x.c "daemon/base/error.h"
libclient/control/x.c "pki/cert.h"
common/x.c "pki/error.h"
examples/x.c "common/uri.h"
bench/x.c "daemon/base/clock.h"
daemon/base/x.c "daemon/config/config.h"
daemon/base/x.c <event2/event.h>
daemon/config/x.c "daemon/state/state.h"
daemon/porter/x.c "daemon/base/log.h"
daemon/porter/x.c <event2/event.h>
daemon/ipc/x.c "daemon/state/session.h"
daemon/ipc/x.c "daemon/porter/packet.h"
daemon/fabric/tcp/x.c "daemon/state/lease.h"
daemon/fabric/tcp/x.c "daemon/op/engine/op.h"
daemon/fabric/tcp/x.c "daemon/ipc/ring.h"
daemon/fabric/tcp/x.c "daemon/plane/plane.h"
daemon/fabric/tcp/x.c "daemon/fabric/local/copy.h"
daemon/fabric/tcp/x.c <infiniband/verbs.h>
daemon/fabric/tcp/x.c <event2/event.h>
daemon/fabric/local/x.c "daemon/state/pool.h"
daemon/fabric/tcp/x.c "daemon/fabric/verbs/wire/blob.h"
daemon/fabric/verbs/wire/x.h "daemon/fabric/verbs/instance/queue.h"
daemon/fabric/verbs/device/x.c "daemon/fabric/verbs/host/state.h"
daemon/fabric/verbs/host/x.c "daemon/fabric/verbs/instance/instance.h"
daemon/fabric/verbs/instance/x.c "daemon/fabric/verbs/link/link.h"
daemon/fabric/verbs/link/x.c "daemon/fabric/verbs/target/target.h"
daemon/fabric/verbs/link/x.c "daemon/fabric/verbs/connect/cm_way.h"
daemon/fabric/verbs/target/x.c "daemon/fabric/verbs/window/window.h"
daemon/fabric/verbs/window/x.c "daemon/fabric/verbs/connect/ways.h"
daemon/fabric/verbs/connect/x.c "daemon/fabric/verbs/window/windows.h"
daemon/fabric/verbs/x.c "daemon/op/engine/op.h"
daemon/plane/x.h "daemon/state/state.h"
daemon/op/tool/x.c "daemon/op/engine/op.h"
daemon/op/tool/x.c "daemon/plane/plane.h"
daemon/op/engine/x.c "daemon/op/notify/grant.h"
daemon/op/engine/x.h "daemon/op/channel/channel.h"
daemon/op/notify/x.c "daemon/op/channel/channel.h"
daemon/op/channel/x.c "daemon/op/notify/grant.h"
daemon/op/channel/x.c "daemon/op/seam/call.h"
daemon/op/seam/x.c "daemon/op/turn/turn.h"
daemon/op/engine/x.c "daemon/state/lease.h"
daemon/op/engine/x.c "daemon/peer/peer.h"
daemon/op/engine/x.c "daemon/fabric/tcp/frame.h"
daemon/op/engine/x.c "../state/lease.h"
daemon/op/engine/x.c <event2/event.h>
daemon/state/x.c "daemon/op/engine/op.h"
daemon/state/x.c "daemon/peer/peer.h"
daemon/state/x.c "daemon/serve/serve.h"
daemon/state/lease_x.c <event2/event.h>
daemon/state/handle_x.c <event2/event.h>
daemon/state/quota.c <event2/event.h>
daemon/peer/x.c "daemon/serve/serve.h"
daemon/peer/x.c "daemon/op/engine/op.h"
daemon/peer/x.c <rdma/rdma_cma.h>
daemon/peer/wire/x.c "daemon/peer/control/conn.h"
daemon/peer/control/x.c "daemon/peer/connect/dial.h"
daemon/peer/control/x.c "daemon/peer/peer.h"
daemon/peer/control/x.c "daemon/peer/tables.h"
daemon/peer/control/x.c "daemon/state/lease.h"
daemon/peer/control/x.c "daemon/state/channel.h"
daemon/peer/connect/x.c "daemon/peer/lessee/attach.h"
daemon/peer/connect/x.c "daemon/state/lease.h"
daemon/peer/connect/x.c "daemon/peer/tables.h"
daemon/peer/lane/x.c "daemon/peer/connect/dial.h"
daemon/peer/lane/x.c "daemon/peer/lessee/claim.h"
daemon/peer/lessee/x.c "daemon/peer/owner/grant.h"
daemon/peer/owner/x.c "daemon/peer/lessee/attach.h"
daemon/peer/owner/x.c "daemon/peer/peer.h"
daemon/peer/channel/x.c "daemon/peer/lessee/claim.h"
daemon/peer/names/x.c "daemon/peer/lane/lane.h"
daemon/peer/names/x.c "daemon/peer/dispatch.h"
daemon/serve/x.c "daemon/op/engine/op.h"
daemon/serve/x.c "daemon/ctl/ctl.h"
daemon/serve/x.c "daemon/peer/control/record.h"
daemon/ctl/x.c "daemon/fabric/tcp/conn.h"
daemon/ctl/x.c "daemon/peer/wire/message.h"
CASES
}

self_test() {
    local tree file include undone=0
    tree=$(mktemp -d)
    # shellcheck disable=SC2064 # the path of now
    trap "rm -rf '$tree'" EXIT
    while read -r file include; do
        rm -rf "${tree:?}/x"
        mkdir -p "$tree/x/$(dirname "$file")"
        # Before and after it stand lines that are in order: the rule must name the right one.
        printf '#include <stdio.h>\n# include %s\n#include <rdmad/abi.h>\n' "$include" >"$tree/x/$file"
        if output=$(check_tree "$tree/x") || ! grep -qF "$file:2: " <<<"$output"; then
            echo "not noticed: $file including $include"
            undone=1
        fi
    done < <(broken)
    [ "$undone" = 0 ] && echo "every broken rule was noticed"
    return "$undone"
}

code=0
case ${1:-} in
--self-test)
    self_test || code=1
    "$here/tests/circles.py" --self-test || code=1
    ;;
*)
    tree=$(cd "${1:-$here}" && pwd)
    (check_tree "$tree") || code=1
    "$here/tests/circles.py" "$tree" || code=1
    ;;
esac
exit "$code"
