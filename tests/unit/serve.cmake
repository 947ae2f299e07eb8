# SPDX-License-Identifier: MIT
# The dispatcher alone: the test brings handlers and sessions of its own.
rdmad_test(unit_serve unit/test_serve.c ${PROJECT_SOURCE_DIR}/daemon/serve/serve.c
  ${PROJECT_SOURCE_DIR}/daemon/serve/reply.c
  LINK rdmad_base LABELS unit)
rdmad_test(unit_quota unit/test_quota.c ${PROJECT_SOURCE_DIR}/daemon/state/quota.c
  ${PROJECT_SOURCE_DIR}/daemon/state/limits.c
  LINK rdmad_config rdmad_base LABELS unit)
rdmad_test(unit_pace unit/test_pace.c unit/lease_rig.c unit/fake_plane.c ${PROJECT_SOURCE_DIR}/daemon/serve/pace.c
  LINK rdmad_state LABELS unit)
# Calls about leases that take as long as many: the way back is the test's own.
rdmad_test(unit_lease_calls unit/test_lease_calls.c unit/lease_rig.c unit/fake_plane.c ${PROJECT_SOURCE_DIR}/daemon/serve/lease.c
  ${PROJECT_SOURCE_DIR}/daemon/serve/pace.c
  LINK rdmad_state LABELS unit)
# Handles of an earlier life, with attaches of the test's own.
rdmad_test(unit_attach_reserve unit/test_attach_reserve.c unit/lease_rig.c unit/fake_plane.c
  ${PROJECT_SOURCE_DIR}/daemon/serve/resume.c
  LINK rdmad_state LABELS unit)
# Attaches that are asked again, with peers and rates of the test's own.
rdmad_test(unit_attach_again unit/test_attach_again.c unit/lease_rig.c unit/fake_plane.c
  ${PROJECT_SOURCE_DIR}/daemon/serve/attach_again.c
  LINK rdmad_state LABELS unit)
