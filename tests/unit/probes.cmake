# SPDX-License-Identifier: MIT
# The probes: what they cost when nobody looks, and that they are where the header says. Those files that have one are
# compiled once more, without; tests/probes.py sees to it that none is missing here.
if(RDMAD_SANITIZE STREQUAL "" AND RDMAD_PROBES AND SDT_INCLUDE)
  rdmad_program(probe_cost unit/probe_cost.c unit/op_rig.c LINK rdmad_op rdmad_test_support)
  set(probed fabric/local/copy.c op/channel/carry.c op/engine/chain.c op/engine/life.c op/engine/rings.c op/engine/route.c
    op/engine/submit.c op/notify/notify.c op/turn/env.c)
  list(TRANSFORM probed PREPEND ${PROJECT_SOURCE_DIR}/daemon/)
  rdmad_program(probe_cost_off unit/probe_cost.c unit/op_rig.c ${probed} LINK rdmad_op rdmad_test_support)
  target_compile_options(probe_cost_off PRIVATE -URDMAD_PROBES -fPIC)
  # And where nobody can trace: what it costs that somebody could.
  set(traced ${PROJECT_SOURCE_DIR}/daemon/op/engine/life.c ${PROJECT_SOURCE_DIR}/daemon/op/turn/turn.c)
  rdmad_program(trace_cost_off unit/probe_cost.c unit/op_rig.c ${traced} LINK rdmad_op rdmad_test_support)
  target_compile_options(trace_cost_off PRIVATE -DRDMAD_NO_TRACE -fPIC)
  foreach(program probe_cost probe_cost_off trace_cost_off)
    target_link_libraries(${program} PRIVATE rdmad_criterion)
  endforeach()
endif()
if(TARGET rdmad)
  rdmad_script_test(lint_probes ${PROJECT_SOURCE_DIR}/tests/probes.py ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR} LABELS full)
endif()
if(TARGET steady_load)
  rdmad_script_test(test_probes ${PROJECT_SOURCE_DIR}/tests/integration/test_probes.sh TIMEOUT 300 LABELS full)
endif()
