# SPDX-License-Identifier: MIT
# The integration suite once more, in the guest, over verbs: the same programs, whose daemons the
# harness puts on rxe0 and rxe1.
#
# The guest is ten times slower than the host, so what proves nothing more there is never there:
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
#   test_keepalive        rings that nobody looks at, and words between daemons, likewise
#   test_late_writes      its path holds back what a TCP connection has; what a device sends goes another way
#   test_drain            who is let in and what is waited for, whatever the fabric; upgrades of two daemons
#                         over verbs are in test_upgrade's case
#   test_rdmactl_calls    filters, watching, how share and fetch end; test_rdmactl has each command over verbs,
#                         test_kill_client and test_lease have programs and leases that end under way
#   test_resume_*         parts, budgets, notices, watches and rude ones: what the control thread takes back;
#                         test_resume and test_return have the registrations and links (test_resume_hostile below)
# What ./check runs of the others over verbs is what a device has a part in: registrations and windows,
# the queue pairs' order, retries and errors, what is taken away under load, what is left after a death.
# The rest is the same code over every fabric; ./check runs it over tcp, tests/soak verbs over verbs:
#   test_sessions, test_stalls   rings and credits; test_kill_client counts what a session leaves there
#   test_resume_hostile          what a stranger shows after a restart is refused before anything is registered
#   test_hang                    minutes of leases that run out while a daemon is stopped
#   test_storms, test_async_rdma, test_guard   attaches and cancels, another library's calls, who touches what was lent:
#                                the control thread's and the library's
#   test_endurance               rounds of everything; tests/soak --minutes N verbs has as many as one likes
#   test_upgrade                 of it the case of two daemons in turn; the others are over the local route
#   test_channels                its handshake; how channels end and who dies stays
#   test_messages                unit_verbs_messages has the devices' part
#   test_weak_channels           calls that are refused or canceled, sizes, a network that doubles and delays; loss and
#                                ends stay, and unit_verbs_weak has the devices' part
#   test_lease                   names, scopes, secrets, addresses: who may attach, and to whom, is the control
#                                thread's; ends and rights stay, deaths are in test_kill_daemon and test_return
#   test_partition               both ways, and one in a hundred; a third lost and expiry stay
#   test_lease_complete, test_lease_told, test_notify_stream   parts, services, words and counts: the control thread's
#   test_resume                  test_return and test_channel_return have what comes back to a device and its links
#   test_random_ops              test_operations has each kind, test_transfers each size
#   test_rdmactl                 what it prints of devices is in test_verbs_start, too
#   test_upper_fds               numbers of descriptors
#   test_quickstart, test_examples   programs and scripts that do not know which fabric there is
#   test_probes                  the probes are the host's; only tests/soak verbs has bpftrace's compiler, a
#                                minute for each script in there, see ops go over verbs
# Of leases only what goes over a link is run once more (RDMAD_TEST_ROUTES, and the cases below): between
# two clients of one daemon bytes are moved by the CPU whatever the fabric is. Atomics, which are not,
# and messages are run on both routes. tests/soak verbs runs both of all.
set(in_soak "")
if(RDMAD_TEST_SCALE GREATER 1)
  set(in_soak test_sessions test_stalls test_resume test_resume_hostile test_hang test_endurance test_storms
    test_async_rdma test_guard test_random_ops test_lease_complete test_lease_told test_notify_stream test_upper_fds
    test_messages)
endif()
foreach(name test_kill_client test_kill_daemon test_buffers_back test_links test_transfers test_punch test_operations
        ${in_soak})
  if(TARGET ${name})
    rdmad_guest_test(verbs_${name} $<TARGET_FILE:${name}> TIMEOUT 400)
  endif()
endforeach()

# rdmad_guest_cases(NAME CASE...): those of its cases in ./check, all of them in tests/soak verbs.
function(rdmad_guest_cases name)
  if(NOT TARGET ${name})
    return()
  endif()
  set(cases ${ARGN})
  if(RDMAD_TEST_SCALE GREATER 1)
    set(cases "")
  endif()
  rdmad_guest_test(verbs_${name} $<TARGET_FILE:${name}> ${cases} TIMEOUT 400)
endfunction()
rdmad_guest_cases(test_lease expires_link is_revoked_link has_rights_link is_orphaned_link nothing_is_left)
rdmad_guest_cases(test_return a_lessee_keeps_its_handle_when_the_owners_daemon_dies
  a_restart_in_order_of_either_daemon_is_a_pause_and_no_more notifications_go_on
  a_lessee_of_the_owners_own_daemon_keeps_its_handle_too)
rdmad_guest_cases(test_partition three_in_ten no_write_lands_after_its_lease)
rdmad_guest_cases(test_channel_return a_channel_goes_on_when_either_ends_daemon_dies
  whichever_end_was_connected a_restart_in_order_is_a_pause_and_no_more)
rdmad_guest_cases(test_channels who_connects_and_who_accepts_see_each_other
  a_kind_that_is_not_there_becomes_reliable_and_says_so a_graceful_close_loses_nothing
  who_connected_may_be_killed a_killed_daemon_ends_the_channels_of_the_other)
rdmad_guest_cases(test_weak_channels each_all_that_was_sent_comes_or_is_counted each_the_receiver_is_killed
  each_a_network_that_loses)
if(RDMAD_TEST_SCALE GREATER 1 AND TARGET test_upgrade)
  rdmad_guest_test(verbs_test_upgrade $<TARGET_FILE:test_upgrade>
    upgrades_of_two_daemons_in_turn_cost_a_pause_and_nothing_else TIMEOUT 400)
endif()
if(TARGET test_faults)
  rdmad_guest_test(verbs_test_faults $<TARGET_FILE:test_faults> TIMEOUT 400)
  if(RDMAD_TEST_SCALE GREATER 1)
    rdmad_guest_test(verbs_test_start_faults $<TARGET_FILE:test_start_faults> TIMEOUT 400)
  endif()
endif()
if(TARGET test_hostile_lessee)
  rdmad_guest_test(verbs_test_hostile_lessee $<TARGET_FILE:test_hostile_lessee>
    a_client_on_another_daemon a_client_on_the_same_daemon)
endif()
if(TARGET rdmad AND TARGET rdmactl)
  rdmad_guest_test(test_verbs_start ${PROJECT_SOURCE_DIR}/tests/integration/test_verbs_start.sh TIMEOUT 600)
  if(TARGET checkpointed) # CRIU knows the guest's kernel
    rdmad_guest_test(verbs_test_checkpoint ${PROJECT_SOURCE_DIR}/tests/integration/test_checkpoint.sh)
  endif()
  rdmad_guest_test(test_systemd ${PROJECT_SOURCE_DIR}/tests/integration/test_systemd.sh TIMEOUT 600)
  if(RDMAD_TEST_SCALE GREATER 1 AND TARGET steady_load)
    rdmad_guest_test(verbs_test_probes ${PROJECT_SOURCE_DIR}/tests/integration/test_probes.sh TIMEOUT 900)
  endif()
  set(scripts test_container)
  if(RDMAD_TEST_SCALE GREATER 1)
    list(APPEND scripts test_rdmactl test_examples test_quickstart)
  endif()
  foreach(name ${scripts})
    rdmad_guest_test(verbs_${name} ${PROJECT_SOURCE_DIR}/tests/integration/${name}.sh TIMEOUT 600)
  endforeach()
endif()
