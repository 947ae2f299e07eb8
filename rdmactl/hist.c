/* SPDX-License-Identifier: MIT */
/*
 * hist.c - see hist.h. Values below 64 have a bucket each; above, the top bit picks the power of
 * two and the six bits after it the bucket.
 */
#include "rdmactl/hist.h"
#include <math.h>
#include <string.h>

#define SUB (UINT64_C(1) << HIST_SUB_BITS)

static unsigned hist_bucket_of(uint64_t value) {
    if (value < SUB)
        return (unsigned)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - HIST_SUB_BITS;
    return (unsigned)(((uint64_t)shift << HIST_SUB_BITS) + (value >> shift));
}

/* The middle of a bucket. */
static uint64_t value_of(unsigned bucket) {
    if (bucket < SUB)
        return bucket;
    unsigned shift = (bucket >> HIST_SUB_BITS) - 1;
    uint64_t low = (SUB + (bucket & (SUB - 1))) << shift;
    return low + ((UINT64_C(1) << shift) >> 1);
}

void hist_reset(struct hist *h) {
    memset(h, 0, sizeof(*h));
    h->min = UINT64_MAX;
}

void hist_record(struct hist *h, uint64_t value) {
    h->bucket[hist_bucket_of(value)]++;
    h->count++;
    if (value < h->min)
        h->min = value;
    if (value > h->max)
        h->max = value;
}

uint64_t hist_percentile(const struct hist *h, double share) {
    if (!h->count)
        return 0;
    uint64_t rank = (uint64_t)ceil(share * (double)h->count), seen = 0;
    if (rank == 0)
        return h->min;
    if (rank >= h->count)
        return h->max;
    for (unsigned b = 0; b < HIST_BUCKETS; b++) {
        seen += h->bucket[b];
        if (seen < rank)
            continue;
        uint64_t value = value_of(b);
        return value < h->min ? h->min : value > h->max ? h->max : value;
    }
    return h->max;
}
