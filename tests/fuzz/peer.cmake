# SPDX-License-Identifier: MIT
if(RDMAD_SANITIZE STREQUAL "fuzzer")
  rdmad_program(fuzz_peer_wire fuzz/fuzz_peer_wire.c LINK rdmad_peer -fsanitize=fuzzer)
  rdmad_program(peer_seeds fuzz/peer_seeds.c LINK rdmad_peer rdmad_criterion)
endif()
