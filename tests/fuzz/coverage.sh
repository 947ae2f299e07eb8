#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# coverage.sh [--grow SECONDS] [FUZZER...]: which lines of each parser the fuzzers' corpora reach.
#
# Builds the fuzzers, which count what they reach, into build-fuzz, runs each over tests/fuzz/corpus and
# nothing else, and prints the percentage of lines of the parser's functions. Fails where it is below
# 85, with the lines that nothing reaches in build-coverage/PARSER.txt.
#
# --grow: lets each fuzzer search for so long first, then adds to its corpus what covers more (by
# libFuzzer's merge): for when a parser has learned something new.
set -euo pipefail

cd "$(dirname "$0")/../.."
least=85
build="build-fuzz" results="build-coverage"
grow=0
if [ "${1:-}" = --grow ]; then
    grow=$2
    shift 2
fi

# A parser, its fuzzers, its files; of their functions those that parse nothing (they write, touch files,
# or leave it to OpenSSL), as a pattern.
parsers() {
    cat <<'TABLE'
channel  | fuzz_channel_wire | daemon/op/channel/wire.c daemon/op/channel/deliver.c |
settings | fuzz_config fuzz_policy | daemon/config/parse.c daemon/config/parse_rules.c daemon/config/text.c daemon/config/checks.c | config_set config_set_at
handover | fuzz_handover | daemon/handover.c | reaper_look reaper_new reaper_free word_is_ours environ_size environ_others handover_exec_with handover_exec
metrics  | fuzz_metrics_http | daemon/ctl/metrics_http.c |
notices  | fuzz_notify_peer | daemon/op/notify/notify_peer.c |
packets  | fuzz_porter_packet | daemon/porter/packet.c daemon/porter/worker.c |
peer     | fuzz_peer_wire | daemon/peer/wire/wire.c daemon/peer/wire/cursor.c daemon/peer/wire/form_lease.c daemon/peer/wire/form_channel.c |
rpc      | fuzz_rpc | daemon/ctl/rpc.c |
sqe      | fuzz_sqe | daemon/op/engine/validate.c daemon/ipc/ring.c | ring_bytes ring_lend ring_map_client ring_map_daemon ring_open_wakeup ring_open_doorbell ring_create ring_settle ring_begin ring_destroy whole_pages round_entries ring_sizes
serve    | fuzz_serve | daemon/serve/serve.c daemon/serve/reply.c |
requests | fuzz_requests | daemon/serve/accept.c daemon/serve/attach.c daemon/serve/attach_again.c daemon/serve/channel.c daemon/serve/channel_open.c daemon/serve/channel_resume.c daemon/serve/hello.c daemon/serve/later.c daemon/serve/lease.c daemon/serve/lend.c daemon/serve/names.c daemon/serve/pace.c daemon/serve/pool.c daemon/serve/reach.c daemon/serve/reply.c daemon/serve/request.c daemon/serve/resume.c daemon/serve/ring.c daemon/serve/service.c daemon/serve/unsent.c |
tcp      | fuzz_tcp_frame | daemon/fabric/tcp/frame.c daemon/fabric/tcp/target.c daemon/fabric/tcp/answer.c |
records  | fuzz_tcp_record | daemon/fabric/tcp/record.c daemon/fabric/tcp/secure.c | secure_new secure_free take_keys secure_accept secure_dial handshake_send secure_begin handshake_read seal keys_renew seal_next seal_all secure_kept secure_write
tcp_blob | fuzz_tcp_blob | daemon/fabric/tcp/blob.c |
tree     | fuzz_tree | rdmactl/tree.c rdmactl/bundle.c | tree_append bundle_init bundle_sum bundle_root bundle_text
uri      | fuzz_uri | common/uri.c |
verbs    | fuzz_verbs_blob | daemon/fabric/verbs/wire/blob.c |
joining  | fuzz_join_request fuzz_join_reply | pki/join_message.c | join_message_print blobs_of put put_be16 put_be32 put_blob
next     | fuzz_pki_next | pki/next.c | nth pki_next_print
pem      | fuzz_pki_pem | pki/cert.c pki/key.c pki/token.c | pki_cert_print pki_key_make pki_key_print pki_token_make pki_token_check token_enter token_take pki_token_take pki_token_used pki_token_give_back row_id pki_token_list tokens_prune token_note no_such_token id_text token_read hash_text
TABLE
}

# LLVM's tools bear clang's version, or none.
tool() {
    local version
    version=$(clang -dumpversion | cut -d. -f1)
    command -v "$1-$version" || command -v "$1" || {
        echo "skipped: there is no $1 of clang $version" >&2
        exit 77
    }
}
if ! command -v clang >/dev/null; then
    echo "skipped: there is no clang"
    exit 77
fi
cov=$(tool llvm-cov) profdata=$(tool llvm-profdata)

wanted=() fuzzers=()
for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    parsers | grep -qw "$name" || {
        echo "coverage.sh does not know whose parser $name is for"
        exit 1
    }
done
while IFS='|' read -r parser programs files others; do
    for name in $programs; do
        if [ $# != 0 ] && [[ " $* " != *" $name "* ]]; then continue 2; fi
    done
    wanted+=("${parser// /}|$programs|$files|$others")
    read -ra programs <<<"$programs"
    fuzzers+=("${programs[@]}")
done < <(parsers)

launcher=()
if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
fi
cmake --preset fuzz "${launcher[@]}" >/dev/null
nice -n 19 cmake --build "$build" --target "${fuzzers[@]}" -- --quiet

mkdir -p "$results"
export ASAN_OPTIONS=detect_leaks=0 LLVM_PROFILE_FILE=/dev/null

# Its corpus becomes what covers as much as it and what was found.
grow_corpus() {
    local corpus=tests/fuzz/corpus/$1 found=$results/found/$1 kept=$results/kept/$1 input base seeds
    rm -rf "$kept"
    mkdir -p "$found" "$kept" "$corpus"
    case $1 in
    fuzz_peer_wire) seeds=peer_seeds ;;
    fuzz_requests) seeds=requests_seeds ;;
    fuzz_sqe) seeds=sqe_seeds ;;
    *) seeds= ;;
    esac
    if [ -n "$seeds" ]; then
        nice -n 19 cmake --build "$build" --target "$seeds" -- --quiet
        "$build/tests/$seeds" "$corpus"
    fi
    "$build/tests/$1" -max_total_time="$grow" -timeout=10 -max_len=4096 "$found" "$corpus" >/dev/null 2>&1 ||
        echo "$1: found something, see $found"
    # What the corpus does not cover yet, by edges alone: how often one was taken makes many files.
    cp -r "$corpus/." "$kept/"
    "$build/tests/$1" -merge=1 -use_counters=0 "$kept" "$found" >/dev/null 2>&1
    for input in "$kept"/*; do
        base=$(basename "$input")
        [ -e "$corpus/$base" ] || cp "$input" "$corpus/found_${base:0:8}"
    done
}

run_corpus() {
    LLVM_PROFILE_FILE=$results/$1.profraw "$build/tests/$1" -runs=0 "tests/fuzz/corpus/$1" >"$results/$1.log" 2>&1 ||
        {
            tail -n 20 "$results/$1.log"
            exit 1
        }
}

# Of its rows, one a function: name, then three columns each of regions and lines.
percent_of_lines() {
    awk -v others=" $1 " '
        NF >= 10 && $2 ~ /^[0-9]+$/ && $1 != "TOTAL" {
            name = $1
            sub(/.*:/, "", name)
            if (index(others, " " name " "))
                next
            lines += $5
            missed += $6
        }
        END { printf "%.2f\n", lines ? 100 * (lines - missed) / lines : 0 }'
}

bad=0
for row in "${wanted[@]}"; do
    IFS='|' read -r parser programs files others <<<"$row"
    read -ra programs <<<"$programs"
    read -ra files <<<"$files"
    objects=() profiles=()
    for name in "${programs[@]}"; do
        [ "$grow" = 0 ] || grow_corpus "$name"
        run_corpus "$name"
        objects+=(${objects[0]:+-object} "$build/tests/$name")
        profiles+=("$results/$name.profraw")
    done
    "$profdata" merge -sparse "${profiles[@]}" -o "$results/$parser.profdata"
    "$cov" show "${objects[@]}" -instr-profile="$results/$parser.profdata" "${files[@]}" >"$results/$parser.txt"
    percent=$("$cov" report "${objects[@]}" -instr-profile="$results/$parser.profdata" -show-functions "${files[@]}" |
        percent_of_lines "$others")
    printf '%-9s %6s %% of the lines that parse in %s\n' "$parser" "$percent" "${files[*]}"
    if awk -v p="$percent" -v least="$least" 'BEGIN { exit p >= least }'; then
        echo "    below $least %: see $results/$parser.txt; better seeds belong into tests/fuzz/corpus (--grow finds some)"
        bad=1
    fi
done
exit "$bad"
