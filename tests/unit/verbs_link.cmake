# SPDX-License-Identifier: MIT
if(TARGET rdmad_fabric_verbs)
  rdmad_test(unit_verbs_blob unit/test_verbs_blob.c LINK rdmad_fabric_verbs LABELS unit)
endif()
