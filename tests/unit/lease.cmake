# SPDX-License-Identifier: MIT
# Leases and handles with sessions, pools, clock and data plane of the tests' own.
foreach(area lease lease_ended renewal handle handle_again budget delegate part_told)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_${area}.c)
    rdmad_test(unit_${area} unit/test_${area}.c unit/lease_rig.c unit/fake_plane.c
      ${PROJECT_SOURCE_DIR}/daemon/state/lease.c ${PROJECT_SOURCE_DIR}/daemon/state/lease_again.c ${PROJECT_SOURCE_DIR}/daemon/state/lease_audit.c
      ${PROJECT_SOURCE_DIR}/daemon/state/lease_table.c ${PROJECT_SOURCE_DIR}/daemon/state/renewal.c
      ${PROJECT_SOURCE_DIR}/daemon/state/lease_terms.c
      ${PROJECT_SOURCE_DIR}/daemon/state/lease_told.c ${PROJECT_SOURCE_DIR}/daemon/state/late_event.c ${PROJECT_SOURCE_DIR}/daemon/state/delegate.c
      ${PROJECT_SOURCE_DIR}/daemon/state/names.c ${PROJECT_SOURCE_DIR}/daemon/state/budget.c
      ${PROJECT_SOURCE_DIR}/daemon/state/extents.c
      ${PROJECT_SOURCE_DIR}/daemon/state/scope.c ${PROJECT_SOURCE_DIR}/daemon/state/handle.c ${PROJECT_SOURCE_DIR}/daemon/state/handle_keep.c
      ${PROJECT_SOURCE_DIR}/daemon/state/lessee_told.c
      ${PROJECT_SOURCE_DIR}/daemon/state/quota.c ${PROJECT_SOURCE_DIR}/daemon/state/origin.c
      ${PROJECT_SOURCE_DIR}/daemon/state/part_told.c
      LINK rdmad_base rdmad_common LABELS unit)
  endif()
endforeach()
rdmad_test(unit_names unit/test_names.c ${PROJECT_SOURCE_DIR}/daemon/state/names.c
  ${PROJECT_SOURCE_DIR}/daemon/state/scope.c LINK rdmad_base rdmad_common LABELS unit)
