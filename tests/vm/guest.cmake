# SPDX-License-Identifier: MIT
# The integration suite once more, in the guest, over verbs: the same programs, whose daemons the
# harness puts on rxe0 and rxe1.
#
# Not there: of test_hostile_lessee the cases that speak the tcp engine's wire (test_verbs_liar is their
# counterpart), and test_wakeups, which has one daemon, no link, and counts how two processors spin.
foreach(name test_bad_messages test_bad_sqes test_sessions test_kill_client test_kill_daemon test_lease
        test_links test_transfers test_punch test_args test_service test_channels test_messages test_operations
        test_random_ops test_async_rdma test_storms test_stalls test_lease_complete test_lease_told test_notify_stream
        test_guard test_weak_channels)
  if(TARGET ${name})
    rdmad_guest_test(verbs_${name} $<TARGET_FILE:${name}> TIMEOUT 400)
  endif()
endforeach()
if(TARGET test_hostile_lessee)
  rdmad_guest_test(verbs_test_hostile_lessee $<TARGET_FILE:test_hostile_lessee>
    a_client_on_another_daemon a_client_on_the_same_daemon)
endif()
if(TARGET rdmad AND TARGET rdmactl)
  rdmad_guest_test(test_verbs_start ${PROJECT_SOURCE_DIR}/tests/integration/test_verbs_start.sh TIMEOUT 600)
  rdmad_guest_test(test_systemd ${PROJECT_SOURCE_DIR}/tests/integration/test_systemd.sh TIMEOUT 600)
  foreach(name test_examples test_rdmactl test_quickstart test_container)
    rdmad_guest_test(verbs_${name} ${PROJECT_SOURCE_DIR}/tests/integration/${name}.sh TIMEOUT 600)
  endforeach()
endif()
