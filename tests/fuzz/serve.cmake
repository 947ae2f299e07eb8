# SPDX-License-Identifier: MIT
if(RDMAD_SANITIZE STREQUAL "fuzzer")
  rdmad_program(fuzz_serve fuzz/fuzz_serve.c ${PROJECT_SOURCE_DIR}/daemon/serve/serve.c
    ${PROJECT_SOURCE_DIR}/daemon/serve/reply.c
    LINK rdmad_base -fsanitize=fuzzer)
  # The handlers themselves, with connections, registration threads, other daemons and a data plane of its own.
  rdmad_program(fuzz_requests fuzz/fuzz_requests.c fuzz/requests_rig.c fuzz/requests_programs.c fuzz/requests_peers.c
    fuzz/requests_guests.c fuzz/requests_check.c unit/fake_plane.c LINK rdmad_serve rdmad_state -fsanitize=fuzzer -Wl,--wrap=close)
  rdmad_program(requests_seeds fuzz/requests_seeds.c fuzz/requests_seeds_memory.c fuzz/requests_seeds_names.c
    fuzz/requests_seeds_sessions.c fuzz/requests_seed.c)
endif()
