# SPDX-License-Identifier: MIT
rdmad_test(unit_peer_wire unit/test_peer_wire.c LINK rdmad_peer LABELS unit)
foreach(side owner lessee)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_peer_${side}.c)
    rdmad_test(unit_peer_${side} unit/test_peer_${side}.c unit/peer_rig.c unit/lease_rig.c
      unit/fake_plane.c
      LINK rdmad_peer LABELS unit)
  endif()
endforeach()
