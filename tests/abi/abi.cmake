# SPDX-License-Identifier: MIT
# What others build against: the headers, the exported symbols, an installed tree.
set(abi ${CMAKE_CURRENT_SOURCE_DIR}/abi)
rdmad_script_test(abi_headers ${abi}/headers.sh)
if(TARGET librdmad)
  rdmad_script_test(abi_diff ${abi}/diff.sh)
  rdmad_script_test(abi_symbols ${abi}/symbols.sh)
  rdmad_script_test(abi_install ${abi}/install.sh TIMEOUT 300)
endif()
