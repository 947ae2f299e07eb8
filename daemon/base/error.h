/* SPDX-License-Identifier: MIT */
/*
 * error.h - a typed error with its sentence.
 *
 * Functions that can fail for a reason somebody wants to read take a struct error * as their last
 * argument and return its code (0 or RDMAD_E_*). The sentence says what object, which limit, how
 * much is used and asked, and what to do next.
 */
#ifndef RDMAD_BASE_ERROR_H
#define RDMAD_BASE_ERROR_H

#include <rdmad/abi.h>

struct error {
    int code;
    char text[RDMAD_TEXT_MAX + 1];
};

/* Sets code and text; err may be NULL. Returns code. */
int error_set(struct error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As above with ": strerror(errno)" appended. */
int error_errno(struct error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __clang_analyzer__ /* it sees one file at a time, so not that these return their code */
static inline int error_is(int set, int code) {
    (void)set;
    return code;
}
#define error_set(err, code, ...) error_is((error_set)((err), (code), __VA_ARGS__), (code))
#define error_errno(err, code, ...) error_is((error_errno)((err), (code), __VA_ARGS__), (code))
#endif

/* The general text of an RDMAD_E_* code. */
const char *error_text(int code);

#endif
