# SPDX-License-Identifier: MIT
# The checker of histories is checked by itself, in every build of ours; the histories need daemons.
rdmad_script_test(test_history_check ${CMAKE_CURRENT_SOURCE_DIR}/history/test_check.py LABELS unit)
if(TARGET rdmad AND TARGET librdmad)
  rdmad_test(test_history history/test_history.c history/record.c history/scene.c history/memory.c
    history/user.c history/ringer.c history/channels.c history/leases.c history/cache.c
    LINK rdmad_test_support librdmad LABELS full integration soak TIMEOUT 300 PLAIN SERIAL)
  if(TARGET test_history)
    add_dependencies(test_history rdmad)
  endif()
endif()
