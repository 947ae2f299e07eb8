# SPDX-License-Identifier: MIT
if(RDMAD_SANITIZE STREQUAL "fuzzer")
  rdmad_program(fuzz_sqe fuzz/fuzz_sqe.c LINK rdmad_op -fsanitize=fuzzer)
  rdmad_program(sqe_seeds fuzz/sqe_seeds.c)
endif()
