# SPDX-License-Identifier: MIT
rdmad_test(unit_rpc unit/test_rpc.c LINK rdmad_rpc LABELS unit)
rdmad_test(unit_hist unit/test_hist.c LINK rdmad_hist LABELS unit)
rdmad_test(unit_rdmactl unit/test_rdmactl.c LINK PkgConfig::JANSSON LABELS unit)
if(TARGET unit_rdmactl)
  add_dependencies(unit_rdmactl rdmactl)
endif()
rdmad_test(unit_ctl unit/test_ctl.c LINK rdmad_ctl_socket LABELS unit)
