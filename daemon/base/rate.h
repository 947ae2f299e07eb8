/* SPDX-License-Identifier: MIT */
/*
 * rate.h - at most so many a second, without a clock of its own and without waiting.
 *
 * What is used is told afterwards (rate_use), and moves a moment, due_ns, by as long as that takes
 * at the rate. While that moment is to come nothing more may begin. It lies at most RATE_BURST_NS
 * back, so who did nothing for long may do as much at once as RATE_BURST_NS allow. What a division
 * leaves over is kept, so a rate is exact over time however small the pieces are.
 *
 * due_ns is shared by all threads that use the same rate; the rest is a thread's own.
 */
#ifndef RDMAD_BASE_RATE_H
#define RDMAD_BASE_RATE_H

#include <stdint.h>

#define RATE_BURST_NS UINT64_C(25000000)
/* Who has to wait does so for a little longer, or there would be a wake-up for each piece. */
#define RATE_REST_NS UINT64_C(1000000)

struct rate {
    uint64_t per_second; /* 0: any number */
    uint64_t rest;       /* of the last division */
    uint64_t *due_ns;    /* atomic */
};

/* How much may be left owed when a rate becomes another: by that one it may be a lifetime. */
#define RATE_OWED_NS UINT64_C(1000000000)

/* So many a second from now on. */
static inline void rate_set(struct rate *r, uint64_t per_second) {
    r->rest = r->per_second == per_second ? r->rest : 0;
    r->per_second = per_second;
}
void rate_use(struct rate *r, uint64_t n, uint64_t now_ns);
/* No more is owed than what leaves at that moment, whatever the rate was. */
void rate_owe_at_most(uint64_t *due_ns, uint64_t latest_ns);
/* When something may begin: 0 is now. */
uint64_t rate_wait_ns(const struct rate *r, uint64_t now_ns);

#endif
