# SPDX-License-Identifier: MIT
rdmad_test(unit_config unit/test_config.c LINK rdmad_config LABELS unit)
