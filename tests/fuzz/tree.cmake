# SPDX-License-Identifier: MIT
if(RDMAD_SANITIZE STREQUAL "fuzzer")
  rdmad_program(fuzz_tree fuzz/fuzz_tree.c ${PROJECT_SOURCE_DIR}/rdmactl/tree.c ${PROJECT_SOURCE_DIR}/rdmactl/bundle.c
    LINK -fsanitize=fuzzer)
endif()
