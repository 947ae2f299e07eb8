# SPDX-License-Identifier: MIT
if(TARGET rdmad AND TARGET rdmactl)
  rdmad_script_test(test_rdmactl ${CMAKE_CURRENT_SOURCE_DIR}/integration/test_rdmactl.sh SERIAL
    TIMEOUT 240)
  rdmad_script_test(test_audit ${CMAKE_CURRENT_SOURCE_DIR}/integration/test_audit.sh)
  rdmad_script_test(test_core ${CMAKE_CURRENT_SOURCE_DIR}/integration/test_core.sh)
  rdmad_script_test(test_reload ${CMAKE_CURRENT_SOURCE_DIR}/integration/test_reload.sh)
  rdmad_script_test(test_files ${CMAKE_CURRENT_SOURCE_DIR}/integration/test_files.sh)
  rdmad_script_test(test_hung ${CMAKE_CURRENT_SOURCE_DIR}/integration/test_hung.sh)
endif()
if(TEST test_hung)
  rdmad_script_test(test_user ${CMAKE_CURRENT_SOURCE_DIR}/integration/test_user.sh)
  set_tests_properties(test_user PROPERTIES SKIP_RETURN_CODE 77)
endif()
# The join service without the daemon around it.
if(TARGET rdmactl AND RDMAD_SANITIZE STREQUAL "")
  rdmad_program(join_service integration/join_service.c LINK rdmad_pki)
  rdmad_script_test(test_cluster ${CMAKE_CURRENT_SOURCE_DIR}/integration/test_cluster.sh)
endif()
