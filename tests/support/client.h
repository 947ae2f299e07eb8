/* SPDX-License-Identifier: MIT */
/*
 * client.h - a client of a daemon inside the test's own process: what every test through librdmad
 * begins with, and asks again and again. What goes wrong ends the case.
 */
#ifndef RDMAD_TEST_CLIENT_H
#define RDMAD_TEST_CLIENT_H

#include "tests/support/harness.h"
#include <rdmad/rdmad.h>

rdmad_session *client_open(const struct tdaemon *d);
rdmad_session *client_with_pool(const struct tdaemon *d, size_t bytes, rdmad_pool **pool);
rdmad_ring *client_ring(rdmad_session *s, uint32_t entries);

rdmad_lease *client_attach(rdmad_session *s, const char *uri);
struct rdmad_lease_info client_info(const rdmad_lease *l);

/* Takes events until one of that type comes. */
struct rdmad_event client_event(rdmad_session *s, unsigned type);

/* rc is that code, and the session's last error says the words. */
void client_refused(const rdmad_session *s, int rc, int code, const char *words);

/* The middle one; sorts them. */
double median(double *values, size_t count);
/* Prints the median, the 99th percentile and the longest of count times, and returns the longest.
 * Sorts them. */
double print_times(const char *what, double *ms, size_t count);

#endif
