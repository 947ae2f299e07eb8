# SPDX-License-Identifier: MIT
if(TARGET rdmad_fabric_tcp)
  foreach(area ops revoke cancel hostile link messages long atomics share)
    rdmad_test(unit_tcp_${area} unit/test_tcp_${area}.c unit/tcp_pair.c unit/tcp_raw.c
      LINK rdmad_fabric_tcp rdmad_test_support LABELS unit soak)
  endforeach()
endif()
