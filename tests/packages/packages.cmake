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
endif()
