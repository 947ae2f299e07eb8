# SPDX-License-Identifier: MIT
if(TARGET rdmad AND TARGET librdmad)
  rdmad_test(test_guard integration/test_guard.c LINK rdmad_test_support librdmad LABELS integration
    PLAIN SERIAL)
  if(TARGET test_guard)
    add_dependencies(test_guard rdmad)
  endif()
endif()
