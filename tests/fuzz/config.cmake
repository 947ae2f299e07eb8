# SPDX-License-Identifier: MIT
if(RDMAD_SANITIZE STREQUAL "fuzzer")
  rdmad_program(fuzz_config fuzz/fuzz_config.c LINK rdmad_config -fsanitize=fuzzer)
endif()
