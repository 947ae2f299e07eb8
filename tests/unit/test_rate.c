/* SPDX-License-Identifier: MIT */
/* A rate is exact over time, whatever the pieces, and nobody has more in store than its burst. */
#include "daemon/base/rate.h"
#include <criterion/criterion.h>

#define SECOND UINT64_C(1000000000)

static uint64_t due_ns;

/* How many pieces of n go within a second that begins at from_ns. */
static uint64_t pieces(struct rate *r, uint64_t n, uint64_t from_ns) {
    uint64_t count = 0;
    for (uint64_t now = from_ns; now < from_ns + SECOND;) {
        uint64_t wait_ns = rate_wait_ns(r, now);
        if (wait_ns) {
            now = wait_ns;
            continue;
        }
        rate_use(r, n, now);
        count++;
    }
    return count;
}

Test(rate, is_exact_for_pieces_that_take_less_than_a_nanosecond) {
    struct rate r = {.per_second = 3000000000, .due_ns = &due_ns};
    for (unsigned i = 0; i < 3000000; i++)
        rate_use(&r, 1, SECOND); /* a millisecond's worth */
    cr_assert_geq(due_ns, SECOND - RATE_BURST_NS + 999999);
    cr_assert_leq(due_ns, SECOND - RATE_BURST_NS + 1000001);
}

Test(rate, lets_through_what_it_says_and_a_burst) {
    struct rate r = {.per_second = 1000000, .due_ns = &due_ns};
    uint64_t bytes = 997 * pieces(&r, 997, 10 * SECOND);
    cr_assert_geq(bytes, 995000);
    cr_assert_leq(bytes, 1000000 + 25000 + 997);
    bytes = 997 * pieces(&r, 997, 100 * SECOND);
    cr_assert_leq(bytes, 1000000 + 25000 + 997, "it saved up while nothing was asked for");
}

Test(rate, a_large_piece_is_paid_for_afterwards) {
    struct rate r = {.per_second = 1000, .due_ns = &due_ns};
    rate_use(&r, 5000, SECOND);
    cr_assert_gt(rate_wait_ns(&r, 5 * SECOND), 5 * SECOND);
    cr_assert_eq(rate_wait_ns(&r, 6 * SECOND), 0);
}

Test(rate, none_is_none) {
    struct rate r = {0};
    rate_use(&r, UINT64_MAX, SECOND);
    cr_assert_eq(rate_wait_ns(&r, SECOND), 0);
}
