/* SPDX-License-Identifier: MIT */
/*
 * client.c - sessions, rings and answers that are as they should be, or the case is over.
 */
#include "tests/support/client.h"

#include <stdlib.h>
#include <string.h>

rdmad_session *client_open(const struct tdaemon *d) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    rdmad_session *s;
    options.runtime_dir = tdaemon_dir(d);
    CHECK(!rdmad_open(&options, &s), "%s", rdmad_last_error(NULL));
    return s;
}

rdmad_session *client_with_pool(const struct tdaemon *d, size_t bytes, rdmad_pool **pool) {
    rdmad_session *s = client_open(d);
    CHECK(!rdmad_pool_create(s, bytes, 0, pool), "%s", rdmad_last_error(s));
    return s;
}

rdmad_ring *client_ring(rdmad_session *s, uint32_t entries) {
    rdmad_ring *r;
    CHECK(!rdmad_ring_create(s, entries, &r), "%s", rdmad_last_error(s));
    return r;
}

rdmad_lease *client_attach(rdmad_session *s, const char *uri) {
    rdmad_lease *l;
    CHECK(!rdmad_lease_attach(s, uri, 0, &l), "%s: %s", uri, rdmad_last_error(s));
    return l;
}

struct rdmad_lease_info client_info(const rdmad_lease *l) {
    struct rdmad_lease_info i = RDMAD_LEASE_INFO_INIT;
    rdmad_lease_get_info(l, &i);
    return i;
}

struct rdmad_event client_event(rdmad_session *s, unsigned type) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    do {
        int rc = rdmad_next_event(s, (int)TEST_PATIENCE_MS, &e);
        CHECK(!rc, "waited for event %u: %s", type, rdmad_errname(rc));
    } while (e.type != type);
    return e;
}

void client_refused(const rdmad_session *s, int rc, int code, const char *words) {
    const char *text = rdmad_last_error(s);
    CHECK(rc == code, "%s, not %s: %s", rdmad_errname(rc), rdmad_errname(code), text);
    CHECK(strstr(text, words), "\"%s\" does not say \"%s\"", text, words);
}

static int by_value(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

double median(double *values, size_t count) {
    qsort(values, count, sizeof(values[0]), by_value);
    return values[count / 2];
}

double print_times(const char *what, double *ms, size_t count) {
    double typical = median(ms, count), longest = ms[count - 1];
    printf("  %s: p50 %.1f ms, p99 %.1f ms, longest %.1f ms of %zu\n", what, typical,
           ms[(count * 99 - 1) / 100], longest, count);
    return longest;
}
