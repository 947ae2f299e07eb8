/* SPDX-License-Identifier: MIT */
/*
 * error.h - a typed error with its sentence, for the daemon and rdmactl alike.
 *
 * Functions of pki/ that can fail for a reason somebody wants to read take a struct pki_error * as
 * their last argument and return its code (0 or RDMAD_E_*). The sentence says what object, what is
 * wrong with it, and what to do next. Its words may come from a file or a peer; they are printable.
 */
#ifndef RDMAD_PKI_ERROR_H
#define RDMAD_PKI_ERROR_H

#include <rdmad/abi.h>
#include <stddef.h>

struct pki_error {
    int code;
    char text[RDMAD_TEXT_MAX + 1];
};

/* Sets code and text; err may be NULL. Returns code. */
int pki_fail(struct pki_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, with ": strerror(errno)" appended. */
int pki_fail_errno(struct pki_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, with the reason that OpenSSL's queue of this thread has; empties the queue. */
int pki_fail_ssl(struct pki_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __clang_analyzer__ /* it sees one file at a time, so not that these return their code */
static inline int pki_error_is(int set, int code) {
    (void)set;
    return code;
}
#define pki_fail(err, code, ...) pki_error_is((pki_fail)((err), (code), __VA_ARGS__), (code))
#define pki_fail_errno(err, code, ...) \
    pki_error_is((pki_fail_errno)((err), (code), __VA_ARGS__), (code))
#define pki_fail_ssl(err, code, ...) \
    pki_error_is((pki_fail_ssl)((err), (code), __VA_ARGS__), (code))
#endif

#endif
