# SPDX-License-Identifier: MIT
rdmad_test(unit_hold_map unit/test_hold_map.c LINK librdmad_static LABELS unit)
# Its model works as much as what it is compared with.
if(NOT RDMAD_SANITIZE STREQUAL "")
  set_source_files_properties(unit/test_hold_map.c PROPERTIES COMPILE_OPTIONS -O1)
endif()
rdmad_test(unit_hold unit/test_hold.c unit/child.c unit/fake_daemon.c
  LINK librdmad_static rdmad_common LABELS unit)
rdmad_test(unit_guard unit/test_guard.c unit/child.c unit/fake_daemon.c
  LINK librdmad_static rdmad_common LABELS unit)
rdmad_test(unit_lent unit/test_lent.c unit/child.c unit/client_rig.c unit/fake_daemon.c
  LINK librdmad_static rdmad_common LABELS unit)
rdmad_test(tsan_hold unit/tsan_hold.c unit/fake_daemon.c
  PLAIN LINK librdmad_static rdmad_common LABELS unit tsan)
