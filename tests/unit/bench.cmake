# SPDX-License-Identifier: MIT
rdmad_script_test(unit_bench python3 tests/unit/test_bench.py LABELS unit)
if(TARGET bench_cacheline)
  rdmad_script_test(test_bench_run ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_bench_run.sh LABELS full)
endif()
