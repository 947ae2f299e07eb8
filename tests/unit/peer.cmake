# SPDX-License-Identifier: MIT
rdmad_test(unit_peer_wire unit/test_peer_wire.c LINK rdmad_peer LABELS unit)
