/* SPDX-License-Identifier: MIT */
/* Each span is in the bucket that has it, and a share is that of a sorted list, within a bucket. */
#include "daemon/base/histogram.h"
#include <criterion/criterion.h>
#include <stdlib.h>

Test(histogram, each_span_is_within_the_bounds_of_its_bucket) {
    for (unsigned power = 0; power < 63; power++) {
        for (int around = -2; around <= 2; around++) {
            for (unsigned eighth = 0; eighth < 8; eighth++) {
                uint64_t base = (UINT64_C(1) << power) + eighth * ((UINT64_C(1) << power) / 8);
                uint64_t span = base + (uint64_t)around;
                unsigned bucket = histogram_bucket_of(span);
                cr_assert_lt(bucket, HISTOGRAM_BUCKETS);
                if (span >= UINT64_MAX / 2)
                    continue; /* before zero */
                cr_assert_leq(span, histogram_bound_ns(bucket), "%lu", (unsigned long)span);
                if (bucket && span)
                    cr_assert_gt(span, histogram_bound_ns(bucket - 1), "%lu", (unsigned long)span);
            }
        }
    }
    cr_expect_eq(histogram_bucket_of(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
}

Test(histogram, every_power_of_two_is_a_bound) {
    for (unsigned power = HISTOGRAM_MIN_BITS; power <= HISTOGRAM_MAX_BITS; power++) {
        uint64_t bound = UINT64_C(1) << power;
        cr_expect_eq(histogram_bound_ns(histogram_bucket_of(bound)), bound, "2^%u", power);
    }
}

Test(histogram, counts_up_to_a_bound_are_exact) {
    struct histogram h = {0};
    histogram_add(&h, 1024, 3);
    histogram_add(&h, 1025, 5);
    histogram_add(&h, UINT64_C(1) << 40, 1);
    cr_expect_eq(histogram_count_to(&h, 512), 0);
    cr_expect_eq(histogram_count_to(&h, 1024), 3);
    cr_expect_eq(histogram_count_to(&h, 2048), 8);
    cr_expect_eq(histogram_count(&h), 9);
    cr_expect_eq(h.sum_ns, 3 * 1024 + 5 * 1025 + (UINT64_C(1) << 40));
}

static int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

Test(histogram, a_share_is_that_of_the_sorted_list_within_seven_percent) {
    enum { COUNT = 20000 };
    static uint64_t spans[COUNT];
    struct histogram h = {0}, sum = {0};
    srandom(7);
    for (unsigned i = 0; i < COUNT; i++) {
        spans[i] = UINT64_C(1) << (8 + random() % 20);
        spans[i] += (uint64_t)random() % spans[i];
        histogram_add(&h, spans[i], 1);
    }
    histogram_sum(&sum, &h);
    histogram_sum(&sum, &h); /* twice as many, the same shares */
    qsort(spans, COUNT, sizeof(spans[0]), ascending);
    static const unsigned shares[] = {1, 250, 500, 900, 990, 999};
    for (unsigned i = 0; i < 6; i++) {
        const unsigned rank = COUNT / 1000 * shares[i];
        double is = (double)spans[rank - 1];
        cr_expect_float_eq((double)histogram_share_ns(&h, shares[i]), is, is * 0.07, "%u",
                           shares[i]);
        cr_expect_eq(histogram_share_ns(&sum, shares[i]), histogram_share_ns(&h, shares[i]));
    }
}

Test(histogram, nothing_has_no_share) {
    struct histogram h = {0};
    cr_expect_eq(histogram_share_ns(&h, 500), 0);
    histogram_add(&h, 1000, 1);
    cr_expect_eq(histogram_share_ns(&h, 500), histogram_share_ns(&h, 999));
}
