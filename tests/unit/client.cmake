# SPDX-License-Identifier: MIT
rdmad_test(unit_alloc unit/test_alloc.c LINK librdmad_static rdmad_common LABELS unit)
rdmad_test(unit_client unit/test_client.c unit/fake_daemon.c
  LINK librdmad_static rdmad_common LABELS unit)
rdmad_test(unit_client_ring unit/test_client_ring.c unit/fake_daemon.c
  LINK librdmad_static rdmad_common LABELS unit)
foreach(test accept attach_silent batch budget cancel channel copies descriptors dispatch keepalive let_go
    presence resume_order resume_silent ring_again two_daemons versions)
  rdmad_test(unit_client_${test} unit/test_client_${test}.c unit/client_rig.c unit/fake_daemon.c
    LINK librdmad_static rdmad_common rdmad_test_support LABELS unit)
endforeach()
rdmad_test(unit_client_away unit/test_client_away.c unit/client_rig.c unit/fake_daemon.c
  LINK librdmad_static rdmad_common rdmad_test_support -Wl,--wrap=rdmad_resume_next_ns LABELS unit)
rdmad_test(unit_client_close unit/test_client_close.c unit/client_rig.c unit/fake_daemon.c
  LINK librdmad_static rdmad_common rdmad_test_support -Wl,--wrap=rdmad_object_retire,--wrap=rdmad_rings_taken LABELS unit)
rdmad_test(unit_client_fork unit/test_client_fork.c unit/client_rig.c unit/fake_daemon.c
  LINK librdmad_static rdmad_common rdmad_test_support -Wl,--wrap=pthread_mutex_lock LABELS unit)
foreach(test chain_resume channel_resume left pool_resume recv_resume)
  rdmad_test(unit_client_${test} unit/test_client_${test}.c unit/away_rig.c unit/client_rig.c
    unit/fake_daemon.c LINK librdmad_static rdmad_common LABELS unit)
endforeach()
rdmad_test(unit_client_attach_resume unit/test_client_attach_resume.c unit/client_rig.c unit/fake_daemon.c
  LINK librdmad_static rdmad_common LABELS unit)
foreach(test answered lease_resume ring_resume)
  rdmad_test(unit_client_${test} unit/test_client_${test}.c unit/stall_rig.c unit/client_rig.c
    unit/fake_daemon.c LINK librdmad_static rdmad_common -Wl,--wrap=pthread_mutex_unlock LABELS unit)
endforeach()
rdmad_test(unit_client_watch_resume unit/test_client_watch_resume.c unit/client_rig.c unit/fake_daemon.c
  LINK librdmad_static rdmad_common -Wl,--wrap=calloc,--wrap=free LABELS unit)
rdmad_test(unit_client_sleeper unit/test_client_sleeper.c unit/client_rig.c unit/fake_daemon.c
  LINK librdmad_static rdmad_common -Wl,--wrap=poll LABELS unit)
rdmad_test(unit_rest unit/test_rest.c LINK rdmad_config rdmad_base LABELS unit)
rdmad_test(unit_misuse unit/test_misuse.c unit/child.c unit/client_rig.c unit/fake_daemon.c
  LINK librdmad_static rdmad_common LABELS unit)
rdmad_test(unit_sized unit/test_sized.c unit/child.c unit/client_rig.c unit/fake_daemon.c
  LINK librdmad_static rdmad_common LABELS unit)
rdmad_test(unit_sentences unit/test_sentences.c unit/client_rig.c unit/fake_daemon.c
  LINK librdmad_static rdmad_common LABELS unit)
rdmad_test(tsan_alloc unit/tsan_alloc.c PLAIN LINK librdmad_static LABELS unit tsan)
rdmad_test(tsan_client_ring unit/tsan_client_ring.c PLAIN LINK librdmad_static LABELS unit tsan)
rdmad_test(tsan_client_threads unit/tsan_client_threads.c unit/fake_daemon.c
  PLAIN LINK librdmad_static rdmad_common LABELS unit tsan)
