# SPDX-License-Identifier: MIT
if(TARGET rdmad_peer AND TARGET rdmad_fabric_verbs AND TARGET librdmad AND TARGET rdmad)
  rdmad_test(test_verbs_liar integration/test_verbs_liar.c integration/liar.c integration/false_peer.c
    LINK rdmad_test_support librdmad rdmad_peer rdmad_fabric_verbs LABELS verbs soak TIMEOUT 600 PLAIN)
  if(TARGET test_verbs_liar)
    add_dependencies(test_verbs_liar rdmad)
  endif()
endif()
