# SPDX-License-Identifier: MIT
# What people install: the Debian packages, and an image made of them.
if(TARGET rdmad AND TARGET steady_load)
  rdmad_script_test(test_seccomp ${CMAKE_CURRENT_SOURCE_DIR}/deploy/test_seccomp.sh)
  rdmad_script_test(test_packages ${CMAKE_CURRENT_SOURCE_DIR}/packages/test_packages.sh LABELS full soak TIMEOUT 1800)
  rdmad_script_test(test_deploy ${CMAKE_CURRENT_SOURCE_DIR}/deploy/test_deploy.sh LABELS full TIMEOUT 600)
  if(TEST test_packages)
    set_tests_properties(test_packages PROPERTIES FIXTURES_SETUP packages)
    set_tests_properties(test_deploy PROPERTIES FIXTURES_REQUIRED packages)
  endif()
  # Minutes each: a Debian is made out of the network for every build, and a guest is booted for udev.
  if(TEST test_packages AND RDMAD_TEST_SCALE GREATER 1)
    foreach(name test_clean_build test_udev)
      rdmad_script_test(${name} ${CMAKE_CURRENT_SOURCE_DIR}/packages/${name}.sh LABELS full soak TIMEOUT 1800)
      set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED packages)
    endforeach()
  endif()
endif()
rdmad_script_test(lint_build_depends ${CMAKE_CURRENT_SOURCE_DIR}/packages/build_depends.py)
