# SPDX-License-Identifier: MIT
if(RDMAD_SANITIZE STREQUAL "fuzzer")
  rdmad_program(fuzz_serve fuzz/fuzz_serve.c ${PROJECT_SOURCE_DIR}/daemon/serve/serve.c
    ${PROJECT_SOURCE_DIR}/daemon/serve/reply.c
    LINK rdmad_base -fsanitize=fuzzer)
endif()
