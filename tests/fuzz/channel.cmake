# SPDX-License-Identifier: MIT
if(RDMAD_SANITIZE STREQUAL "fuzzer")
  rdmad_program(fuzz_channel_wire fuzz/fuzz_channel_wire.c LINK rdmad_op -fsanitize=fuzzer)
endif()
