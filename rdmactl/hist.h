/* SPDX-License-Identifier: MIT */
/*
 * hist.h - a histogram of nanoseconds: log-linear, 64 buckets a power of two, so a percentile is
 * within 1.6 % of the truth at any size. Minimum and maximum are exact. Recording is a few
 * instructions and never allocates.
 */
#ifndef RDMACTL_HIST_H
#define RDMACTL_HIST_H

#include <stdint.h>

#define HIST_SUB_BITS 6
#define HIST_BUCKETS ((64 - HIST_SUB_BITS + 1) << HIST_SUB_BITS)

struct hist {
    uint64_t count, min, max;
    uint64_t bucket[HIST_BUCKETS];
};

void hist_reset(struct hist *h);
void hist_record(struct hist *h, uint64_t value);
/* The value that share (0 to 1) of all recorded ones do not exceed; 0 when nothing was recorded. */
uint64_t hist_percentile(const struct hist *h, double share);

#endif
