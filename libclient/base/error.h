/* SPDX-License-Identifier: MIT */
/*
 * error.h - the sentence of the last error, for each thread (rdmad_last_error).
 */
#ifndef RDMAD_LIBCLIENT_ERROR_H
#define RDMAD_LIBCLIENT_ERROR_H

struct rdmad_session;

/* Remembers code and its sentence for this thread; session may be NULL. Returns code. */
int rdmad_fail(const struct rdmad_session *session, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with ": " and the text of errno after it. */
int rdmad_fail_errno(const struct rdmad_session *session, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What rdmad_last_error returns, also of a session that is being closed. */
const char *rdmad_error_said(const struct rdmad_session *session);

#endif
