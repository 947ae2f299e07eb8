# SPDX-License-Identifier: MIT
rdmad_script_test(unit_bench python3 tests/unit/test_bench.py LABELS unit)
