# SPDX-License-Identifier: MIT
rdmad_test(unit_conn unit/test_conn.c LINK rdmad_ipc LABELS unit)
rdmad_test(unit_listener unit/test_listener.c LINK rdmad_ipc LABELS unit)
