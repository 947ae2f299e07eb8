# SPDX-License-Identifier: MIT
if(RDMAD_SANITIZE STREQUAL "fuzzer" AND TARGET rdmad_fabric_verbs)
  rdmad_program(fuzz_verbs_blob fuzz/fuzz_verbs_blob.c LINK rdmad_fabric_verbs -fsanitize=fuzzer)
endif()
