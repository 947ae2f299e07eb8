/* SPDX-License-Identifier: MIT */
/*
 * openmetrics.h - metrics as text, in two dialects: OpenMetrics 1.0, and the older Prometheus text
 * format 0.0.4, in which names of families have their suffix and there are neither units nor an
 * end. Names of samples, labels and values are the same in both. Internal to ctl/.
 *
 * A family is begun once, then come its samples. labels are as label() has made them, one behind
 * the other, or "".
 */
#ifndef RDMAD_CTL_OPENMETRICS_H
#define RDMAD_CTL_OPENMETRICS_H

#include "daemon/base/histogram.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum metrics_type { METRICS_GAUGE, METRICS_COUNTER, METRICS_HISTOGRAM, METRICS_INFO, METRICS_ANY };

struct metrics_writer {
    FILE *out;
    bool openmetrics;
    const char *name; /* of the family; without _total and _info */
    enum metrics_type type;
};

#define LABELS_MAX 512u
struct metrics_labels { /* zero-initialised: none */
    char text[LABELS_MAX];
};
/* One more. A value that has no room is cut. */
void metrics_label(struct metrics_labels *l, const char *name, const char *value);

/* unit: what the name ends with, where that is a unit, else NULL. */
void metrics_family(struct metrics_writer *w, enum metrics_type type, const char *name,
                    const char *unit, const char *help);
/* labels may be NULL: none. */
void metrics_number(struct metrics_writer *w, const struct metrics_labels *labels, uint64_t n);
void metrics_real(struct metrics_writer *w, const struct metrics_labels *labels, double n);
/* Nanoseconds, told as seconds; a bucket for each power of two. */
void metrics_histogram(struct metrics_writer *w, const struct metrics_labels *labels,
                       const struct histogram *h);
void metrics_end(struct metrics_writer *w);

#endif
