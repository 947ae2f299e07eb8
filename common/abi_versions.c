/* SPDX-License-Identifier: MIT */
/*
 * abi_versions.c - what this build speaks on the client socket. In a file of its own, so that tests
 * can link a daemon or a library that speaks something else.
 */
#include "common/versions.h"
#include <rdmad/abi.h>

const struct rdmad_versions rdmad_abi_versions = {RDMAD_ABI_OLDEST, RDMAD_ABI_VERSION};
