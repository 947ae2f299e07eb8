# SPDX-License-Identifier: MIT
if(RDMAD_SANITIZE STREQUAL "fuzzer")
  rdmad_program(fuzz_handover fuzz/fuzz_handover.c ${PROJECT_SOURCE_DIR}/daemon/handover.c
    LINK rdmad_ipc rdmad_config rdmad_base rdmad_common PkgConfig::EVENT -fsanitize=fuzzer)
endif()
