# SPDX-License-Identifier: MIT
rdmad_test(unit_uri unit/test_uri.c LINK rdmad_common LABELS unit)
rdmad_test(unit_fdmsg unit/test_fdmsg.c LINK rdmad_common LABELS unit)
rdmad_test(unit_memfd unit/test_memfd.c LINK rdmad_common LABELS unit)
rdmad_test(unit_crowd unit/test_crowd.c LABELS unit)
rdmad_test(unit_runnable unit/test_runnable.c LINK rdmad_common LABELS unit)
