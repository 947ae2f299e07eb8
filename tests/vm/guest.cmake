# SPDX-License-Identifier: MIT
# The integration suite once more, in the guest, over verbs: the same programs, whose daemons the
# harness puts on rxe0 and rxe1.
#
# The guest is ten times slower than the host, so what proves nothing more there is not there:
#   test_hostile_lessee   its cases that speak the tcp engine's wire (test_verbs_liar is their counterpart)
#   test_wakeups          one daemon, no link, and it counts how two processors spin
#   test_args             command lines and settings that are refused before any fabric is chosen;
#                         test_verbs_start has those of verbs
#   test_service          what an init system is told, which no fabric has a part in; test_systemd has
#                         it in the guest, under a real one, with a daemon of verbs
#   test_bad_messages     packets of the client's socket that are refused as such, before memory is
#                         registered or a lease known
#   test_bad_sqes         one daemon, whose validator ends them before it asks which way they would go
#   test_pause            rings that are not read, which no fabric has a part in
# Of leases only what goes over a link is run once more (RDMAD_TEST_ROUTES, and the cases below): between
# two clients of one daemon bytes are moved by the CPU whatever the fabric is. Atomics, which are not,
# and messages are run on both routes. tests/soak verbs runs both of all.
foreach(name test_sessions test_kill_client test_kill_daemon test_links test_transfers test_punch
        test_channels test_messages test_operations test_random_ops test_async_rdma test_storms test_stalls
        test_lease_complete test_lease_told test_notify_stream test_guard test_weak_channels)
  if(TARGET ${name})
    rdmad_guest_test(verbs_${name} $<TARGET_FILE:${name}> TIMEOUT 400)
  endif()
endforeach()
if(TARGET test_lease)
  set(cases "")
  if(RDMAD_TEST_SCALE EQUAL 1)
    set(cases expires_link is_revoked_link is_for_one_link has_rights_link is_renewed_link
        is_renewed_without_end_link names scopes secrets_link is_its_owners_alone is_orphaned_link
        owners_daemon_dies lessees_daemon_dies lessees_daemon_hangs unreachable dialling_oneself
        nothing_is_left)
  endif()
  rdmad_guest_test(verbs_test_lease $<TARGET_FILE:test_lease> ${cases} TIMEOUT 400)
endif()
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
