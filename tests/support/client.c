/* SPDX-License-Identifier: MIT */
/*
 * client.c - sessions and rings that are there, or the case is over.
 */
#include "tests/support/client.h"

#include <stdlib.h>

rdmad_session *client_open(const struct tdaemon *d) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    rdmad_session *s;
    options.runtime_dir = tdaemon_dir(d);
    CHECK(!rdmad_open(&options, &s), "%s", rdmad_last_error(NULL));
    return s;
}

rdmad_ring *client_ring(rdmad_session *s, uint32_t entries) {
    rdmad_ring *r;
    CHECK(!rdmad_ring_create(s, entries, &r), "%s", rdmad_last_error(s));
    return r;
}

static int by_value(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

double median(double *values, size_t count) {
    qsort(values, count, sizeof(values[0]), by_value);
    return values[count / 2];
}
