# SPDX-License-Identifier: MIT
rdmad_test(unit_ring unit/test_ring.c LINK rdmad_ipc LABELS unit)
rdmad_test(unit_local unit/test_local.c LINK rdmad_fabric_local LABELS unit)
rdmad_test(unit_op_parts unit/test_op_parts.c LINK rdmad_op LABELS unit)
rdmad_test(unit_op_ids unit/test_op_ids.c LINK rdmad_op -Wl,--wrap=malloc LABELS unit)
rdmad_test(unit_op_ranges unit/test_op_ranges.c LINK rdmad_op LABELS unit)
rdmad_test(unit_op_window unit/test_op_window.c LINK rdmad_op LABELS unit)
foreach(area validate path tally ends vanish many_end lanes lane_return windows fair sim sim_messages notify notify_early notify_last notify_room notices atomics batch fence chain cancel doorbells waits pause still)
  rdmad_test(unit_op_${area} unit/test_op_${area}.c unit/op_rig.c
    LINK rdmad_op rdmad_test_support LABELS unit)
endforeach()
# Once more, with links of the second of two fabrics: the same code, so what it touches was looked at.
foreach(area path ends lanes windows notify notify_room atomics)
  rdmad_again(unit_op_${area} second RIG_SECOND=1 PLAIN)
endforeach()
foreach(area share beside elsewhere turns prompt)
  rdmad_test(unit_op_${area} unit/test_op_${area}.c unit/op_crowd.c unit/op_rig.c
    LINK rdmad_op rdmad_test_support LABELS unit)
endforeach()
rdmad_test(unit_op_room unit/test_op_room.c unit/op_rig.c unit/channel_rig.c
  LINK rdmad_op rdmad_test_support LABELS unit)
rdmad_test(unit_op_fabrics unit/test_op_fabrics.c unit/op_rig.c unit/channel_rig.c
  LINK rdmad_op rdmad_test_support LABELS unit)
rdmad_test(unit_op_owed unit/test_op_owed.c unit/op_rig.c unit/channel_rig.c
  LINK rdmad_op rdmad_test_support -Wl,--wrap=ring_flush LABELS unit)
rdmad_test(unit_op_trace unit/test_op_trace.c unit/op_rig.c unit/channel_rig.c
  LINK rdmad_op rdmad_test_support LABELS unit)
rdmad_test(tsan_plane unit/tsan_plane.c PLAIN LINK rdmad_op rdmad_fabric_tcp LABELS unit tsan)
