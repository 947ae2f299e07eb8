#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test_cpp.sh: rdmad.hpp and rdmad_async.hpp compile alone and without a word, by each compiler; their test and their
# examples run, the test under AddressSanitizer, too. So does the code at their tops, which rdmad-cpp(3) begins with.
set -euo pipefail
# shellcheck source=tests/integration/daemons.sh
. "$(dirname "$0")/daemons.sh"
source=${RDMAD_SOURCE:?run the test by ctest}

compile() { # COMPILER ARGUMENT...
    "$1" -std=c++20 -O1 -Wall -Wextra -Wshadow -Wconversion -Wpedantic -Werror -Wno-unused-command-line-argument -I"$source/include" -L"$RDMAD_BUILD/libclient" \
        -Wl,-rpath,"$RDMAD_BUILD/libclient" "${@:2}" -lrdmad -pthread || fail "$1 does not compile ${*:2}"
}
for compiler in g++ clang++; do
    for header in rdmad rdmad_async; do
        echo "#include <rdmad/$header.hpp>" | compile "$compiler" -fsyntax-only -xc++ -
    done
    for example in mailbox async_epoll; do
        compile "$compiler" "$source/examples/cpp/$example.cpp" -o "$work/$example.$compiler"
    done
done
compile g++ "$source/tests/cpp/test_hpp.cpp" -o "$work/test.g++"
compile clang++ -g1 -fsanitize=address,undefined -fno-sanitize-recover=all "$source/tests/cpp/test_hpp.cpp" \
    -o "$work/test.clang++"

code_at_top() { PYTHONDONTWRITEBYTECODE=1 python3 "$source/docs/man/bindings.py" --example "$source/include/rdmad/$1"; }
{
    sed -n '/^struct task {/,/^};/p' "$source/tests/cpp/test_hpp.cpp"
    echo 'int main(int, char **argv) { std::string uri = argv[1];'
    code_at_top rdmad.hpp
    code_at_top rdmad_async.hpp
    echo 'buf.data()[0] = {}; there.read(4096, buf.bytes()); std::puts(reinterpret_cast<char *>(buf.data())); }'
} >"$work/top"
for header in cstdio cstring string rdmad/rdmad_async.hpp; do echo "#include <$header>"; done | cat - "$work/top" >"$work/top.cpp"
compile g++ "$work/top.cpp" -o "$work/top"

start_daemon a
start_daemon b
b=${pids[-1]}
"$RDMAD_BUILD/rdmactl/rdmactl" -d "$work/a" bench serve >"$work/served" &
pids+=($!)
[ "$(RDMAD_RUNTIME_DIR=$work/b "$work/top" "$(first_line "$work/served" $!)")" = hello ] || fail "the code at the headers' tops"
head -c 5000001 /dev/urandom >"$work/file"
export RDMAD_RUNTIME_DIR=$work/a
"$RDMAD_BUILD/examples/share" "$work/file" >"$work/shared" &
pids+=($!)
uri=$(first_line "$work/shared" $!)
said=$(RDMAD_RUNTIME_DIR=$work/b "$RDMAD_BUILD/examples/async_epoll" "$uri")
for compiler in g++ clang++; do
    "$work/test.$compiler" "$work/a" "$work/b" "$b" || {
        kill -CONT "$b" # it may be stopped
        fail "test_hpp of $compiler"
    }
    "$work/mailbox.$compiler" >"$work/mailbox" &
    mailbox=$!
    RDMAD_RUNTIME_DIR=$work/b "$RDMAD_BUILD/examples/hello" "$(first_line "$work/mailbox" "$mailbox")"
    wait "$mailbox" || fail "mailbox of $compiler"
    [ "$(tail -n 1 "$work/mailbox")" = hello ] || fail "the mailbox holds: $(<"$work/mailbox")"
    rm "$work/mailbox"
    got=$(RDMAD_RUNTIME_DIR=$work/b "$work/async_epoll.$compiler" "$uri") || fail "async_epoll of $compiler"
    [ "$got" = "$said" ] || fail "async_epoll of $compiler says: $got; in C it is: $said"
    ! "$work/async_epoll.$compiler" rdmad:///nothing 2>"$work/wrong" || fail "async_epoll of nothing"
    grep -q nothing "$work/wrong" || fail "async_epoll of nothing says: $(<"$work/wrong")"
done
