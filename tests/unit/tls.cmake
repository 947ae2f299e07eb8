# SPDX-License-Identifier: MIT
if(TARGET pki_rig)
  rdmad_test(unit_identity unit/test_identity.c unit/lease_rig.c unit/fake_plane.c
    LINK rdmad_state pki_rig -Wl,--wrap=time,--wrap=log_write,--wrap=calloc,--wrap=pki_server_context
    LABELS unit)
  rdmad_test(unit_peer_tls unit/test_peer_tls.c unit/peer_rig.c unit/lease_rig.c unit/fake_plane.c
    LINK rdmad_peer pki_rig LABELS unit)
  rdmad_test(unit_peer_reach unit/test_peer_reach.c unit/peer_rig.c unit/lease_rig.c unit/fake_plane.c
    LINK rdmad_peer pki_rig LABELS unit)
  rdmad_test(unit_peer_join unit/test_peer_join.c unit/peer_rig.c unit/lease_rig.c unit/fake_plane.c
    LINK rdmad_peer pki_rig -Wl,--wrap=audit_write,--wrap=join_server_take,--wrap=join_server_answer
    LABELS unit)
  rdmad_test(unit_peer_renewed unit/test_peer_renewed.c unit/peer_rig.c unit/lease_rig.c
    unit/fake_plane.c LINK rdmad_peer pki_rig -Wl,--wrap=time LABELS unit)
  rdmad_test(unit_peer_rights unit/test_peer_rights.c unit/peer_rig.c unit/lease_rig.c
    unit/fake_plane.c LINK rdmad_peer pki_rig -Wl,--wrap=policy_peer,--wrap=audit_write
    LABELS unit)
endif()
