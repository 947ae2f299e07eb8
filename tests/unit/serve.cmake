# SPDX-License-Identifier: MIT
# The dispatcher alone: the test brings handlers and sessions of its own.
rdmad_test(unit_serve unit/test_serve.c ${PROJECT_SOURCE_DIR}/daemon/serve/serve.c
  ${PROJECT_SOURCE_DIR}/daemon/serve/reply.c
  LINK rdmad_base LABELS unit)
rdmad_test(unit_quota unit/test_quota.c ${PROJECT_SOURCE_DIR}/daemon/state/quota.c
  ${PROJECT_SOURCE_DIR}/daemon/state/limits.c
  LINK rdmad_config rdmad_base LABELS unit)
