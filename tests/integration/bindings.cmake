# SPDX-License-Identifier: MIT
# What other languages have of us: the Python package, rdmad.hpp, and the wire for those that have neither.
if(TARGET librdmad AND TARGET rdmad)
  set(there ${CMAKE_CURRENT_SOURCE_DIR}/integration)
  foreach(name declared objects aio)
    rdmad_script_test(test_python_${name} ${there}/test_python.sh ${CMAKE_CURRENT_SOURCE_DIR}/python/test_${name}.py
      SERIAL)
  endforeach()
endif()
