/* SPDX-License-Identifier: MIT */
/*
 * histogram.h - how often which span of nanoseconds: log-linear, eight buckets a power of two, so a
 * percentile is within 7 % of the truth. Spans up to 128 ns share the first bucket, those beyond
 * 68 s the last.
 *
 * One thread adds, any thread reads: each word is a relaxed atomic. A reader may see a span's
 * bucket and not its sum yet; nothing is ever taken away.
 */
#ifndef RDMAD_BASE_HISTOGRAM_H
#define RDMAD_BASE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB_BITS 3u
#define HISTOGRAM_MIN_BITS 7u  /* the first bucket: up to so many powers of two */
#define HISTOGRAM_MAX_BITS 36u /* beyond: the last bucket */
#define HISTOGRAM_BUCKETS (((HISTOGRAM_MAX_BITS - HISTOGRAM_MIN_BITS) << HISTOGRAM_SUB_BITS) + 2u)

struct histogram { /* zero-initialised */
    uint64_t sum_ns;
    uint64_t bucket[HISTOGRAM_BUCKETS];
};

/* Bucket i has the spans above the bound of i - 1, up to its own. So each power of two from the
 * first bucket's on is the bound of a bucket. */
static inline unsigned histogram_bucket_of(uint64_t span_ns) {
    uint64_t n = span_ns ? span_ns - 1 : 0;
    if (n >> HISTOGRAM_MIN_BITS == 0)
        return 0;
    if (n >> HISTOGRAM_MAX_BITS)
        return HISTOGRAM_BUCKETS - 1;
    unsigned power = 63u - (unsigned)__builtin_clzll(n);
    unsigned part =
        (unsigned)(n >> (power - HISTOGRAM_SUB_BITS)) & ((1u << HISTOGRAM_SUB_BITS) - 1);
    return ((power - HISTOGRAM_MIN_BITS) << HISTOGRAM_SUB_BITS) + part + 1;
}

/* count spans of that length. */
static inline void histogram_add(struct histogram *h, uint64_t span_ns, uint64_t count) {
    uint64_t *bucket = &h->bucket[histogram_bucket_of(span_ns)];
    __atomic_store_n(bucket, *bucket + count, __ATOMIC_RELAXED);
    __atomic_store_n(&h->sum_ns, h->sum_ns + span_ns * count, __ATOMIC_RELAXED);
}

/* The longest span of the bucket; UINT64_MAX: it has no end. */
uint64_t histogram_bound_ns(unsigned bucket);
/* The middle of its spans; of the last bucket the shortest. */
uint64_t histogram_middle_ns(unsigned bucket);
/* Adds what from has now, which another thread may be adding to. */
void histogram_sum(struct histogram *to, const struct histogram *from);
uint64_t histogram_count(const struct histogram *h);
/* How many are no longer than that, which has to be the bound of a bucket. */
uint64_t histogram_count_to(const struct histogram *h, uint64_t bound_ns);
/* The span that so many of 1000 do not exceed: the middle of its bucket. 0: there is none. */
uint64_t histogram_share_ns(const struct histogram *h, unsigned per_mille);

#endif
