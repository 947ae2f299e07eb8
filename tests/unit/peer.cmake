# SPDX-License-Identifier: MIT
rdmad_test(unit_peer_wire unit/test_peer_wire.c LINK rdmad_peer LABELS unit)
foreach(what fabrics owner lessee shares lanes link_bytes keys channels connects asks former hosts liars chan_liars chan_return
  messages told turns return self unread versions)
  rdmad_test(unit_peer_${what} unit/test_peer_${what}.c unit/peer_rig.c unit/lease_rig.c
    unit/fake_plane.c
    LINK rdmad_peer LABELS unit)
endforeach()
# libevent's allocations are replaced by its own means, ours by the linker.
rdmad_test(unit_peer_nomem unit/test_peer_nomem.c unit/peer_rig.c unit/lease_rig.c unit/fake_plane.c
  LINK rdmad_peer -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc LABELS unit)
