# SPDX-License-Identifier: MIT
# This release mixed with the one before (commit, build.sh) and with what a later one may speak (versions.c).
if(NOT TARGET rdmad OR NOT TARGET librdmad OR NOT RDMAD_SANITIZE STREQUAL "")
  return()
endif()
# next speaks a version more; later, that and none of ours. They are this daemon's and library's objects.
set(here ${CMAKE_CURRENT_SOURCE_DIR}/previous)
get_target_property(parts rdmad LINK_LIBRARIES)
foreach(which next later)
  rdmad_program(rdmad_${which} ${here}/versions.c $<TARGET_OBJECTS:rdmad> LINK ${parts} PkgConfig::JANSSON)
  rdmad_program(greet_${which} ${here}/versions.c ${here}/greet.c LINK librdmad_static)
  foreach(program rdmad_${which} greet_${which})
    target_compile_definitions(${program} PRIVATE RDMAD_TEST_DROPPED=$<STREQUAL:${which},later>)
  endforeach()
endforeach()
set(integration ${CMAKE_CURRENT_SOURCE_DIR}/integration)
rdmad_test(test_compat ${integration}/test_compat.c ${integration}/upgrade_load.c ${integration}/upgrades.c
  ${integration}/far_pair.c ${integration}/far_load.c ${integration}/chan_stream.c
  LINK rdmad_test_support librdmad LABELS integration soak full TIMEOUT 300 PLAIN SERIAL)
add_dependencies(test_compat rdmad rdmactl rdmad_next rdmad_later greet_next greet_later)
# The same program with the previous release's library.
rdmad_again(test_compat older LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/previous/now/build/libclient)
set_tests_properties(test_compat_older PROPERTIES SKIP_RETURN_CODE 77)
rdmad_serial(test_compat_older)
rdmad_script_test(build_previous ${here}/build.sh LABELS full TIMEOUT 3600 LONG)
set_tests_properties(build_previous PROPERTIES FIXTURES_SETUP previous RESOURCE_LOCK compilers)
set_tests_properties(test_compat test_compat_older PROPERTIES FIXTURES_REQUIRED previous)
