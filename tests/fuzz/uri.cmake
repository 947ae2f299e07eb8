# SPDX-License-Identifier: MIT
if(RDMAD_SANITIZE STREQUAL "fuzzer")
  rdmad_program(fuzz_uri fuzz/fuzz_uri.c LINK rdmad_common -fsanitize=fuzzer)
endif()
