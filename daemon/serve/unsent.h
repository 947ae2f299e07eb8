/* SPDX-License-Identifier: MIT */
/*
 * unsent.h - answers whose descriptors the kernel did not take.
 */
#ifndef RDMAD_SERVE_UNSENT_H
#define RDMAD_SERVE_UNSENT_H

#include "daemon/state/session.h"

/* The kernel did not take the descriptors of this answer: gives back what was made, and fails the
 * request. */
void serve_unsent(struct session *s, const void *answer, size_t size, const char *why);

#endif
