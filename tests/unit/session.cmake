# SPDX-License-Identifier: MIT
# Sessions, pools and rings with real memory and a data plane that answers when the test says so.
rdmad_test(unit_session unit/test_session.c unit/fake_plane.c LINK rdmad_state LABELS unit)
