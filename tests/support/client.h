/* SPDX-License-Identifier: MIT */
/*
 * client.h - a client of a daemon inside the test's own process: what every test through librdmad
 * begins with. What goes wrong ends the case.
 */
#ifndef RDMAD_TEST_CLIENT_H
#define RDMAD_TEST_CLIENT_H

#include "tests/support/harness.h"
#include <rdmad/rdmad.h>

rdmad_session *client_open(const struct tdaemon *d);
rdmad_ring *client_ring(rdmad_session *s, uint32_t entries);

/* The middle one; sorts them. */
double median(double *values, size_t count);

#endif
