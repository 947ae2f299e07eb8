/* SPDX-License-Identifier: MIT */
/*
 * errors.h - names and general texts of the RDMAD_E_* codes, from the one list in abi.h.
 */
#ifndef RDMAD_COMMON_ERRORS_H
#define RDMAD_COMMON_ERRORS_H

#include <rdmad/abi.h>
#include <stdbool.h>

/* "lease expired"; "unknown error" for a code that abi.h does not know. Never NULL. */
const char *rdmad_error_text(int code);

/* "RDMAD_E_LEASE_EXPIRED"; "RDMAD_E_?" for a code that abi.h does not know. Never NULL. */
const char *rdmad_error_name(int code);

/* Whether abi.h knows it. */
bool rdmad_error_known(int code);
/* Whether it is one of the reasons for which a lease ends: RDMAD_E_LEASE_*. */
bool rdmad_error_ends_lease(int code);

#endif
