# SPDX-License-Identifier: MIT
if(TARGET rdmad_fabric_verbs)
  rdmad_test(unit_verbs_blob unit/test_verbs_blob.c LINK rdmad_fabric_verbs LABELS unit)
  foreach(area ops link messages weak atomics)
    rdmad_test(unit_verbs_${area} unit/test_verbs_${area}.c unit/verbs_pair.c
      LINK rdmad_fabric_verbs rdmad_test_support LABELS verbs)
  endforeach()
endif()
