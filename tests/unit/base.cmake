# SPDX-License-Identifier: MIT
foreach(area address audit json_memory slots timers guard life log repeats send_cost resolve silence)
  rdmad_test(unit_base_${area} unit/test_base_${area}.c LINK rdmad_base LABELS unit)
endforeach()
rdmad_test(unit_base_threads unit/test_base_threads.c PLAIN LINK rdmad_base LABELS unit tsan)
rdmad_test(unit_base_rouse unit/test_base_rouse.c PLAIN LINK rdmad_base rdmad_test_support LABELS unit)
rdmad_test(unit_rate unit/test_rate.c LINK rdmad_base LABELS unit)
rdmad_test(unit_histogram unit/test_histogram.c LINK rdmad_base LABELS unit)
rdmad_test(unit_base_thread unit/test_base_thread.c PLAIN LINK rdmad_base rdmad_test_support
  LABELS unit)
rdmad_test(unit_events unit/test_events.c LINK rdmad_base LABELS unit)
