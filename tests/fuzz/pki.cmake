# SPDX-License-Identifier: MIT
if(RDMAD_SANITIZE STREQUAL "fuzzer" AND TARGET rdmad_pki)
  rdmad_program(fuzz_join_request fuzz/fuzz_join_request.c LINK rdmad_pki -fsanitize=fuzzer)
  rdmad_program(fuzz_join_reply fuzz/fuzz_join_reply.c LINK rdmad_pki -fsanitize=fuzzer)
  rdmad_program(fuzz_pki_next fuzz/fuzz_pki_next.c LINK rdmad_pki -fsanitize=fuzzer)
  rdmad_program(fuzz_pki_pem fuzz/fuzz_pki_pem.c LINK rdmad_pki -fsanitize=fuzzer)
endif()
