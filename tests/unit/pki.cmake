# SPDX-License-Identifier: MIT
if(TARGET rdmad_pki)
  rdmad_part(pki_rig unit/pki_rig.c LINK rdmad_pki rdmad_criterion)
  foreach(name files context ca token join)
    rdmad_test(unit_pki_${name} unit/test_pki_${name}.c LINK pki_rig LABELS unit)
  endforeach()
endif()
