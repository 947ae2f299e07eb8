/* SPDX-License-Identifier: MIT */
/*
 * errors.c - the table comes out of RDMAD_ERRORS, so a new code cannot be forgotten here.
 */
#include "common/errors.h"

static const struct {
    const char *name;
    const char *text;
} errors[] = {
#define RDMAD_X(name, value, text) [-(value)] = {#name, text},
    RDMAD_ERRORS(RDMAD_X)
#undef RDMAD_X
};

/* The code's place in the table, or -1. Widened first: -INT_MIN is no int. */
static long error_place(int code) {
    long i = -(long)code;

    return i >= 0 && i < (long)(sizeof(errors) / sizeof(errors[0])) && errors[i].name ? i : -1;
}

const char *rdmad_error_text(int code) {
    long i = error_place(code);

    return i < 0 ? "unknown error" : errors[i].text;
}

const char *rdmad_error_name(int code) {
    long i = error_place(code);

    return i < 0 ? "RDMAD_E_?" : errors[i].name;
}

bool rdmad_error_ends_lease(int code) {
    return (code <= RDMAD_E_LEASE_EXPIRED && code >= RDMAD_E_LEASE_ORPHANED) ||
           code == RDMAD_E_LEASE_ADMIN;
}

bool rdmad_error_known(int code) {
    return error_place(code) >= 0;
}
