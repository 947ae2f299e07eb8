# SPDX-License-Identifier: MIT
foreach(area away cancel ends hostile landing leave link local loss many model order rest weak)
  rdmad_test(unit_channel_${area} unit/test_channel_${area}.c unit/channel_rig.c unit/op_rig.c
    LINK rdmad_op rdmad_test_support LABELS unit)
endforeach()
foreach(area away cancel hostile landing leave link loss model order rest weak)
  rdmad_again(unit_channel_${area} second RIG_SECOND=1 PLAIN)
endforeach()
rdmad_test(unit_channel_arrivals unit/test_channel_arrivals.c unit/channel_rig.c unit/op_rig.c
  LINK rdmad_op rdmad_test_support -Wl,--wrap=calloc LABELS unit)
rdmad_test(tsan_channel unit/tsan_channel.c PLAIN LINK rdmad_op LABELS unit tsan)
