/* SPDX-License-Identifier: MIT */
/*
 * histogram.c - sums and shares of a histogram, for whoever reads one.
 */
#include "daemon/base/histogram.h"

static uint64_t histogram_read(const uint64_t *word) {
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

uint64_t histogram_bound_ns(unsigned bucket) {
    const unsigned parts = 1u << HISTOGRAM_SUB_BITS;
    if (bucket == 0)
        return UINT64_C(1) << HISTOGRAM_MIN_BITS;
    if (bucket >= HISTOGRAM_BUCKETS - 1)
        return UINT64_MAX;
    unsigned power = (bucket - 1) / parts + HISTOGRAM_MIN_BITS, part = (bucket - 1) % parts;
    return (uint64_t)(parts + part + 1) << (power - HISTOGRAM_SUB_BITS);
}

void histogram_sum(struct histogram *to, const struct histogram *from) {
    to->sum_ns += histogram_read(&from->sum_ns);
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        to->bucket[i] += histogram_read(&from->bucket[i]);
}

uint64_t histogram_count(const struct histogram *h) {
    return histogram_count_to(h, UINT64_MAX);
}

uint64_t histogram_count_to(const struct histogram *h, uint64_t bound_ns) {
    uint64_t count = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS && histogram_bound_ns(i) <= bound_ns; i++)
        count += histogram_read(&h->bucket[i]);
    return count;
}

uint64_t histogram_middle_ns(unsigned bucket) {
    uint64_t low = bucket ? histogram_bound_ns(bucket - 1) : 0;
    if (bucket == HISTOGRAM_BUCKETS - 1)
        return low; /* it has no middle */
    return low + (histogram_bound_ns(bucket) - low) / 2;
}

uint64_t histogram_share_ns(const struct histogram *h, unsigned per_mille) {
    uint64_t count = histogram_count(h), seen = 0;
    if (!count)
        return 0;
    /* Not count * per_mille: that may be too much. */
    uint64_t rank = count / 1000 * per_mille + (count % 1000 * per_mille + 999) / 1000;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram_read(&h->bucket[i]);
        if (seen >= rank && seen)
            return histogram_middle_ns(i);
    }
    return histogram_middle_ns(HISTOGRAM_BUCKETS - 1);
}
