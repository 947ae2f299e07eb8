# SPDX-License-Identifier: MIT
rdmad_test(unit_config unit/test_config.c LINK rdmad_config LABELS unit)
rdmad_test(unit_choice unit/test_choice.c LINK rdmad_choice LABELS unit)
rdmad_test(unit_policy unit/test_policy.c LINK rdmad_policy -Wl,--wrap=strdup LABELS unit)
