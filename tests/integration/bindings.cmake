# SPDX-License-Identifier: MIT
# What other languages have of us: the Python package, rdmad.hpp, and the wire for those that have neither.
if(TARGET librdmad AND TARGET rdmad)
  set(there ${CMAKE_CURRENT_SOURCE_DIR}/integration)
  foreach(name declared objects ends receives aio protocol manual)
    rdmad_script_test(test_python_${name} ${there}/test_python.sh ${CMAKE_CURRENT_SOURCE_DIR}/python/test_${name}.py
      SERIAL)
  endforeach()
  if(RDMAD_SANITIZE STREQUAL "")
    rdmad_program(array_reader integration/array_reader.c LINK librdmad)
    set_target_properties(array_reader PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/integration)
  endif()
  rdmad_script_test(test_python_examples ${there}/test_python_examples.sh LABELS soak TIMEOUT 200 SERIAL)
  rdmad_script_test(test_cpp ${there}/test_cpp.sh TIMEOUT 300 SERIAL LABELS full)
endif()
