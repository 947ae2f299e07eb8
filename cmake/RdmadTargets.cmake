# SPDX-License-Identifier: MIT
# How every target of ours is built: one interface target carries the flags, nothing is global.

add_library(rdmad_flags INTERFACE)
target_include_directories(rdmad_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_compile_features(rdmad_flags INTERFACE c_std_11)
target_compile_definitions(rdmad_flags INTERFACE _GNU_SOURCE RDMAD_VERSION="${PROJECT_VERSION}")
target_compile_options(rdmad_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wmissing-prototypes -Wstrict-prototypes -Wvla
  -fno-strict-aliasing -fno-common
  -Werror=implicit-function-declaration) # a pointer cut to an int is no matter of taste
# What the code asserts about itself is asserted in every build: a daemon that goes on with broken
# tables is worse than one that is started again.
target_compile_options(rdmad_flags INTERFACE -UNDEBUG)
if(RDMAD_WERROR)
  target_compile_options(rdmad_flags INTERFACE -Werror)
endif()

# rdmad_left_out(TEXT): something optional is, and why; with RDMAD_COMPLETE nothing may be.
function(rdmad_left_out text)
  if(RDMAD_COMPLETE)
    message(FATAL_ERROR "${text}")
  endif()
  message(STATUS "${text}")
endfunction()

# Sanitizers never recover: a report that lets the program go on is a report that a test runner can
# swallow.
if(RDMAD_SANITIZE STREQUAL "address")
  target_compile_options(rdmad_flags INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(rdmad_flags INTERFACE -fsanitize=address,undefined)
elseif(RDMAD_SANITIZE STREQUAL "thread")
  target_compile_options(rdmad_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(rdmad_flags INTERFACE -fsanitize=thread)
elseif(RDMAD_SANITIZE STREQUAL "fuzzer")
  target_compile_options(rdmad_flags INTERFACE
    -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  target_link_options(rdmad_flags INTERFACE -fsanitize=address,undefined)
elseif(NOT RDMAD_SANITIZE STREQUAL "")
  message(FATAL_ERROR "RDMAD_SANITIZE=${RDMAD_SANITIZE}: use address, thread, fuzzer or nothing")
endif()

# rdmad_compile_together(NAME): the sanitizers' builds compile a dozen files of a part as one, which takes less than half of the time. So
# files of a part share no static name and no macro that mean different things; the plain build compiles each
# by itself, and so sees a missing #include.
function(rdmad_compile_together name)
  if(NOT RDMAD_SANITIZE STREQUAL "")
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  endif()
endfunction()

# rdmad_compile_alone(FILES...): but these, for tests link something in their place.
function(rdmad_compile_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# rdmad_part(NAME SOURCES... [LINK TARGETS...] [ALONE]): a static piece of the house. ALONE: of files that are
# compiled alone.
function(rdmad_part name)
  cmake_parse_arguments(ARG "ALONE" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON C_EXTENSIONS ON)
  if(NOT ARG_ALONE)
    rdmad_compile_together(${name})
  endif()
  target_link_libraries(${name} PUBLIC rdmad_flags ${ARG_LINK})
endfunction()

# rdmad_program(NAME SOURCES... [LINK TARGETS...])
function(rdmad_program name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES C_EXTENSIONS ON)
  target_link_libraries(${name} PRIVATE rdmad_flags ${ARG_LINK})
endfunction()
