# SPDX-License-Identifier: MIT
if(RDMAD_SANITIZE STREQUAL "fuzzer")
  rdmad_program(fuzz_porter_packet fuzz/fuzz_porter_packet.c LINK rdmad_porter -fsanitize=fuzzer)
endif()
