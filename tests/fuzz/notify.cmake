# SPDX-License-Identifier: MIT
if(RDMAD_SANITIZE STREQUAL "fuzzer")
  rdmad_program(fuzz_notify_peer fuzz/fuzz_notify_peer.c LINK rdmad_op -fsanitize=fuzzer)
endif()
