# SPDX-License-Identifier: MIT
rdmad_test(unit_rpc unit/test_rpc.c LINK rdmad_rpc LABELS unit)
rdmad_test(unit_hist unit/test_hist.c LINK rdmad_hist LABELS unit)
rdmad_test(unit_rdmactl unit/test_rdmactl.c LINK PkgConfig::JANSSON LABELS unit)
if(TARGET unit_rdmactl)
  add_dependencies(unit_rdmactl rdmactl)
endif()
foreach(name ctl ctl_turns) # control.sock, with a porter, which is the daemon's program
  rdmad_test(unit_${name} unit/test_${name}.c unit/ctl_rig.c LINK rdmad_ctl_socket rdmad_test_support LABELS unit)
  if(TARGET unit_${name} AND TARGET rdmad)
    add_dependencies(unit_${name} rdmad)
  endif()
endforeach()
rdmad_test(unit_ctl_rests unit/test_ctl_rests.c LINK rdmad_ctl_socket LABELS unit)
rdmad_test(unit_why unit/test_why.c unit/session_rig.c unit/fake_plane.c
  LINK rdmad_why -Wl,--wrap=plane_session_failures LABELS unit)
rdmad_test(unit_device_json unit/test_device_json.c LINK rdmad_device_json LABELS unit)
rdmad_test(unit_device_show unit/test_device_show.c LINK rdmad_device_show LABELS unit)
rdmad_test(unit_patience unit/test_patience.c ${PROJECT_SOURCE_DIR}/rdmactl/patience.c
  LINK rdmactl_doctor librdmad_static rdmad_common LABELS unit)
rdmad_test(unit_fetch unit/test_fetch.c ${PROJECT_SOURCE_DIR}/rdmactl/patience.c
  LINK rdmactl_doctor librdmad_static rdmad_common LABELS unit)
rdmad_test(unit_out unit/test_out.c LINK rdmactl_doctor LABELS unit)
rdmad_test(unit_tree unit/test_tree.c ${PROJECT_SOURCE_DIR}/rdmactl/tree.c ${PROJECT_SOURCE_DIR}/rdmactl/bundle.c
  ${PROJECT_SOURCE_DIR}/rdmactl/target.c ${PROJECT_SOURCE_DIR}/rdmactl/target_stream.c
  ${PROJECT_SOURCE_DIR}/rdmactl/target_tree.c ${PROJECT_SOURCE_DIR}/rdmactl/signals.c
  LINK rdmactl_doctor -Wl,--wrap=close LABELS unit)
rdmad_test(unit_doctor unit/test_doctor.c ${PROJECT_SOURCE_DIR}/daemon/state/quota.c
  LINK rdmactl_doctor rdmad_policy rdmad_base LABELS unit)
rdmad_test(unit_metrics unit/test_metrics.c LINK rdmad_metrics_text rdmad_base LABELS unit)
rdmad_test(unit_tally_json unit/test_tally_json.c LINK rdmad_ctl LABELS unit)
