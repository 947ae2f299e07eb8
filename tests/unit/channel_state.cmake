# SPDX-License-Identifier: MIT
# Services and ends of channels with sessions, clock and data plane of the tests' own.
foreach(what service channel_state channel_return keepalive)
  rdmad_test(unit_${what} unit/test_${what}.c unit/lease_rig.c unit/fake_plane.c
    LINK rdmad_state LABELS unit)
endforeach()
rdmad_test(unit_thread_watch unit/test_thread_watch.c unit/fake_plane.c LINK rdmad_state LABELS unit)
