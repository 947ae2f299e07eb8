/* SPDX-License-Identifier: MIT */
/*
 * hello.h - the first request to a daemon, by which both agree on a version.
 */
#ifndef RDMAD_LIBCLIENT_HELLO_H
#define RDMAD_LIBCLIENT_HELLO_H

#include "libclient/control/control.h"

/* Also to the next daemon, which may speak another version. RDMAD_E_VERSION: it has none in common
 * with us; rdmad_last_error says what each speaks, and what to do. */
int rdmad_hello(struct rdmad_session *s, const char *name, struct rdmad_hello_rep *reply);

#endif
