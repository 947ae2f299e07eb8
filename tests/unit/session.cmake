# SPDX-License-Identifier: MIT
# Sessions, pools, rings and what is told of ops that failed, with real memory and a data plane that answers when the test says so.
foreach(name session pool failures)
  rdmad_test(unit_${name} unit/test_${name}.c unit/session_rig.c unit/fake_plane.c LINK rdmad_state
    LABELS unit)
endforeach()
if(TARGET unit_pool AND TARGET rdmad) # it runs the daemon's program as porter
  add_dependencies(unit_pool rdmad)
endif()
rdmad_test(unit_usage unit/test_usage.c LINK rdmad_policy rdmad_base LABELS unit)
