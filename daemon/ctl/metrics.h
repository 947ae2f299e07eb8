/* SPDX-License-Identifier: MIT */
/*
 * metrics.h - the daemon in numbers, for whoever draws them. Internal to ctl/.
 *
 * Names, labels and what they mean change only with a major version (rdmad-metrics(7) has them).
 * Labels are bounded: users and peers as usage.h has them, kinds of ops, routes, causes. No label
 * is a session's or a lease's number. For strangers the text is made at most once a second, however
 * often they ask.
 */
#ifndef RDMAD_CTL_METRICS_H
#define RDMAD_CTL_METRICS_H

#include "daemon/ctl/hw_counters.h"
#include "daemon/ctl/openmetrics.h"

struct metrics_text { /* shared; see metrics_text_put */
    unsigned refs;
    size_t size;
    char bytes[];
};

struct metrics_source {
    struct state *state;
    struct hw_cache *devices;
    struct metrics_text *made[2]; /* by whether it is OpenMetrics; NULL: never */
    uint64_t made_ns[2];
};

int metrics_source_init(struct metrics_source *m, struct state *st, struct error *err);
void metrics_source_fini(struct metrics_source *m);
/* As of now, or of the last second. The caller's, to be put back. NULL: out of memory. */
struct metrics_text *metrics_source_now(struct metrics_source *m, bool openmetrics);
struct metrics_text *metrics_source_kept(struct metrics_source *m, bool openmetrics);
void metrics_text_put(struct metrics_text *text);

#endif
