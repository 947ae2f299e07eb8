# SPDX-License-Identifier: MIT
rdmad_test(unit_conn unit/test_conn.c LINK rdmad_ipc LABELS unit)
rdmad_test(unit_porter unit/test_porter.c LINK rdmad_ipc LABELS unit)
foreach(name unit_conn unit_porter) # they run the daemon's program as porter
  if(TARGET ${name} AND TARGET rdmad)
    add_dependencies(${name} rdmad)
  endif()
endforeach()
if(TARGET unit_porter)
  add_executable(half_porter unit/half_porter.c)
  target_include_directories(half_porter PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  add_dependencies(unit_porter half_porter)
endif()
rdmad_test(unit_listener unit/test_listener.c LINK rdmad_ipc LABELS unit)
