# SPDX-License-Identifier: MIT
rdmad_test(unit_alloc unit/test_alloc.c LINK librdmad_static LABELS unit)
rdmad_test(tsan_alloc unit/tsan_alloc.c PLAIN LINK librdmad_static LABELS unit tsan)
