# SPDX-License-Identifier: MIT
if(RDMAD_SANITIZE STREQUAL "fuzzer")
  rdmad_program(fuzz_rpc fuzz/fuzz_rpc.c LINK rdmad_rpc -fsanitize=fuzzer)
endif()
