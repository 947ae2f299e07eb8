# SPDX-License-Identifier: MIT
if(RDMAD_SANITIZE STREQUAL "fuzzer" AND TARGET rdmad_fabric_tcp)
  rdmad_program(fuzz_tcp_frame fuzz/fuzz_tcp_frame.c LINK rdmad_fabric_tcp -fsanitize=fuzzer)
  rdmad_program(fuzz_tcp_blob fuzz/fuzz_tcp_blob.c LINK rdmad_fabric_tcp -fsanitize=fuzzer)
  rdmad_program(fuzz_tcp_record fuzz/fuzz_tcp_record.c LINK rdmad_fabric_tcp -fsanitize=fuzzer)
endif()
