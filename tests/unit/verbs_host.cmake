# SPDX-License-Identifier: MIT
if(TARGET rdmad_fabric_verbs)
  # These need no device.
  rdmad_test(unit_verbs_choice unit/test_verbs_choice.c LINK rdmad_fabric_verbs LABELS unit)
  rdmad_test(unit_verbs_members unit/test_verbs_members.c LINK rdmad_fabric_verbs LABELS unit)
  rdmad_test(unit_verbs_read_seal unit/test_verbs_read_seal.c LINK rdmad_fabric_verbs LABELS unit)
  rdmad_test(unit_verbs_states unit/test_verbs_states.c LINK rdmad_fabric_verbs LABELS unit)
  rdmad_test(unit_verbs_words unit/test_verbs_words.c LINK rdmad_fabric_verbs LABELS unit)
  foreach(area host gone)
    rdmad_test(unit_verbs_${area} unit/test_verbs_${area}.c unit/verbs_member.c
      LINK rdmad_fabric_verbs rdmad_test_support LABELS verbs soak TIMEOUT 300 PLAIN)
  endforeach()
endif()
