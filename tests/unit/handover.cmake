# SPDX-License-Identifier: MIT
rdmad_test(unit_handover unit/test_handover.c ${PROJECT_SOURCE_DIR}/daemon/handover.c
  LINK rdmad_ipc rdmad_config rdmad_base rdmad_common PkgConfig::EVENT LABELS unit)
