# SPDX-License-Identifier: MIT
# What people install: the Debian packages.
if(TARGET rdmad AND TARGET steady_load)
  rdmad_script_test(test_packages ${CMAKE_CURRENT_SOURCE_DIR}/packages/test_packages.sh LABELS full soak TIMEOUT 1800 SERIAL)
endif()
