#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# suite.sh BUILD [CTEST ARGUMENT...]: what is registered for the guest, from a complete build, in one
# guest, as one test of ./check.
set -euo pipefail

cd "$(dirname "$0")/../.."
build=$1
shift
export RDMAD_VM_BUILD=no RDMAD_VM_TIMEOUT=${RDMAD_VM_TIMEOUT:-1500}
exec tests/vm/run ctest --test-dir "$build" -C Guest -L verbs --output-on-failure --no-tests=error "$@"
