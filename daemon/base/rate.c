/* SPDX-License-Identifier: MIT */
/*
 * rate.c - at most so many a second.
 */
#include "daemon/base/rate.h"
#include <stdbool.h>

#define NSEC_A_SECOND UINT64_C(1000000000)

void rate_use(struct rate *r, uint64_t n, uint64_t now_ns) {
    if (!r->per_second)
        return;
    unsigned __int128 whole = (unsigned __int128)n * NSEC_A_SECOND + r->rest;
    uint64_t takes_ns = (uint64_t)(whole / r->per_second);
    r->rest = (uint64_t)(whole % r->per_second);

    uint64_t earliest = now_ns > RATE_BURST_NS ? now_ns - RATE_BURST_NS : 0;
    uint64_t due = __atomic_load_n(r->due_ns, __ATOMIC_RELAXED), next;
    do {
        uint64_t from = due > earliest ? due : earliest;
        next = from + takes_ns < from ? UINT64_MAX - RATE_REST_NS : from + takes_ns;
    } while (!__atomic_compare_exchange_n(r->due_ns, &due, next, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
}

void rate_owe_at_most(uint64_t *due_ns, uint64_t latest_ns) {
    uint64_t due = __atomic_load_n(due_ns, __ATOMIC_RELAXED);
    while (due > latest_ns && !__atomic_compare_exchange_n(due_ns, &due, latest_ns, true,
                                                           __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

uint64_t rate_wait_ns(const struct rate *r, uint64_t now_ns) {
    if (!r->per_second)
        return 0;
    uint64_t due = __atomic_load_n(r->due_ns, __ATOMIC_RELAXED);
    return due > now_ns ? due + RATE_REST_NS : 0;
}
