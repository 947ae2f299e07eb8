/* SPDX-License-Identifier: MIT */
/*
 * The histogram of bench: percentiles are within its promised 1.6 %, the ends are exact.
 */
#include "rdmactl/hist.h"
#include <criterion/criterion.h>

static struct hist h;

static void near(double share, double truth) {
    double got = (double)hist_percentile(&h, share);
    cr_expect(got >= truth * (1 - 0.016) && got <= truth * (1 + 0.016), "%g: %g is not near %g",
              share, got, truth);
}

Test(hist, nothing_recorded_is_zero) {
    hist_reset(&h);
    cr_expect_eq(hist_percentile(&h, 0.5), 0);
}

Test(hist, one_value_is_every_percentile) {
    hist_reset(&h);
    hist_record(&h, 123456789);
    cr_expect_eq(hist_percentile(&h, 0), 123456789);
    cr_expect_eq(hist_percentile(&h, 0.5), 123456789);
    cr_expect_eq(hist_percentile(&h, 1), 123456789);
}

Test(hist, percentiles_of_a_uniform_spread_are_near_the_truth) {
    for (uint64_t scale = 1; scale < UINT64_C(1) << 40; scale *= 7) {
        hist_reset(&h);
        for (uint64_t i = 1; i <= 10000; i++)
            hist_record(&h, i * scale);
        near(0.5, 5000.0 * (double)scale);
        near(0.99, 9900.0 * (double)scale);
        near(0.999, 9990.0 * (double)scale);
        cr_expect_eq(h.min, scale);
        cr_expect_eq(h.max, 10000 * scale);
        cr_expect_eq(hist_percentile(&h, 1), h.max);
    }
}

Test(hist, small_values_are_exact) {
    hist_reset(&h);
    for (uint64_t i = 0; i < 64; i++)
        hist_record(&h, i);
    cr_expect_eq(hist_percentile(&h, 0.5), 31);
}

Test(hist, the_largest_values_have_a_bucket) {
    hist_reset(&h);
    hist_record(&h, 0);
    hist_record(&h, UINT64_MAX);
    hist_record(&h, UINT64_MAX - 1);
    cr_expect_eq(h.count, 3);
    cr_expect_geq(hist_percentile(&h, 1), UINT64_MAX - UINT64_MAX / 64);
    cr_expect_eq(hist_percentile(&h, 0.1), 0);
}

Test(hist, one_outlier_does_not_move_the_median) {
    hist_reset(&h);
    for (int i = 0; i < 999; i++)
        hist_record(&h, 1000);
    hist_record(&h, 1000000000);
    near(0.5, 1000);
    near(0.99, 1000);
    cr_expect_eq(h.max, 1000000000);
}
