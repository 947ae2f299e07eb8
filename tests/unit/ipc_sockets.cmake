# SPDX-License-Identifier: MIT
rdmad_test(unit_conn unit/test_conn.c LINK rdmad_ipc LABELS unit)
rdmad_test(unit_porter unit/test_porter.c LINK rdmad_ipc LABELS unit)
foreach(name unit_conn unit_porter) # they run the daemon's program as porter
  if(TARGET ${name} AND TARGET rdmad)
    add_dependencies(${name} rdmad)
  endif()
endforeach()
rdmad_test(unit_listener unit/test_listener.c LINK rdmad_ipc LABELS unit)
