# SPDX-License-Identifier: MIT
if(RDMAD_SANITIZE STREQUAL "fuzzer")
  rdmad_program(fuzz_config fuzz/fuzz_config.c LINK rdmad_config -fsanitize=fuzzer)
endif()
if(RDMAD_SANITIZE STREQUAL "fuzzer")
  rdmad_program(fuzz_policy fuzz/fuzz_policy.c LINK rdmad_policy -fsanitize=fuzzer)
endif()
