# SPDX-License-Identifier: MIT
if(TARGET rdmad_fabric_tcp)
  foreach(area ops revoke cancel hostile link messages long atomics share peers)
    rdmad_test(unit_tcp_${area} unit/test_tcp_${area}.c unit/tcp_pair.c unit/tcp_raw.c
      LINK rdmad_fabric_tcp rdmad_test_support LABELS unit soak)
  endforeach()
  rdmad_test(unit_tcp_secure unit/test_tcp_secure.c unit/tcp_pair.c unit/tcp_raw.c unit/tcp_relay.c
    LINK rdmad_fabric_tcp rdmad_test_support LABELS unit soak)
  rdmad_test(unit_tcp_records unit/test_tcp_records.c unit/tcp_pair.c
    LINK rdmad_fabric_tcp rdmad_test_support LABELS unit)
  rdmad_test(unit_tcp_aead unit/test_tcp_aead.c unit/tcp_pair.c
    LINK rdmad_fabric_tcp rdmad_test_support LABELS unit)
  rdmad_test(unit_retransmit unit/test_retransmit.c unit/tcp_pair.c unit/lease_rig.c unit/fake_plane.c
    LINK rdmad_peer rdmad_fabric_tcp rdmad_test_support LABELS unit)
  # Once more, encrypted.
  foreach(area ops revoke cancel hostile link messages long atomics share peers)
    rdmad_again(unit_tcp_${area} encrypted PAIR_ENCRYPT=1)
  endforeach()
endif()
