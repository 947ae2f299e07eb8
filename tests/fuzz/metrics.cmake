# SPDX-License-Identifier: MIT
if(RDMAD_SANITIZE STREQUAL "fuzzer")
  rdmad_program(fuzz_metrics_http fuzz/fuzz_metrics_http.c LINK rdmad_metrics_text -fsanitize=fuzzer)
endif()
