/* SPDX-License-Identifier: MIT */
/*
 * text.h - a program's strings as the wire's fields.
 */
#ifndef RDMAD_LIBCLIENT_TEXT_H
#define RDMAD_LIBCLIENT_TEXT_H

#include <stddef.h>

struct rdmad_session;

/* Copies text (NULL: nothing) into a field of the wire that is zero. If it does not fit, returns
 * code with a sentence that calls it what. */
int rdmad_copy_text(const struct rdmad_session *s, char *field, size_t size, const char *text,
                    const char *what, int code);

#endif
