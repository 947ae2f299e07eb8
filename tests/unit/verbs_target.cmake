# SPDX-License-Identifier: MIT
if(TARGET rdmad_fabric_verbs)
  foreach(area window owners target way heard cm)
    rdmad_test(unit_verbs_${area} unit/test_verbs_${area}.c unit/verbs_rig.c PLAIN
      LINK rdmad_fabric_verbs rdmad_test_support LABELS verbs TIMEOUT 300)
  endforeach()
endif()
