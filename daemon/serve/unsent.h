/* SPDX-License-Identifier: MIT */
/*
 * unsent.h - answers whose descriptors the kernel did not pass on.
 */
#ifndef RDMAD_SERVE_UNSENT_H
#define RDMAD_SERVE_UNSENT_H

#include "daemon/state/session.h"

/* An answer that was sent with descriptors, which could not be passed on: gives back what was made
 * and fails the request. */
void serve_unsent(struct session *s, const void *answer, size_t size, const char *why);

#endif
