/* SPDX-License-Identifier: MIT */
/* How long ops took, as an answer tells it: no answer grows without bound, however many rows it
 * has. */
#include "daemon/ctl/tally_json.h"
#include <criterion/criterion.h>

static struct histogram of_every_length(void) {
    struct histogram h = {0};
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        h.bucket[i] = i + 1;
    return h;
}

Test(tally_json, buckets_are_those_with_ops_the_shortest_first) {
    struct histogram h = {0};
    size_t told = 0;
    histogram_add(&h, 90000, 2);
    histogram_add(&h, 3000, 1);
    json_t *list = tally_buckets(&h, &told);
    double first = json_real_value(json_object_get(json_array_get(list, 0), "us"));
    double second = json_real_value(json_object_get(json_array_get(list, 1), "us"));
    cr_expect_eq(json_array_size(list), 2);
    cr_expect_eq(told, 2);
    cr_expect_float_eq(first, 3, 3 * 0.07);
    cr_expect_float_eq(second, 90, 90 * 0.07);
    cr_expect_eq(json_integer_value(json_object_get(json_array_get(list, 1), "count")), 2);
    json_decref(list);
}

Test(tally_json, an_answer_of_4096_rows_tells_no_more_buckets_than_its_bound) {
    struct histogram h = of_every_length();
    size_t told = 0, rows = 0, buckets = 0;
    for (unsigned i = 0; i < 4096; i++) {
        json_t *list = tally_buckets(&h, &told);
        rows += json_is_array(list);
        buckets += json_array_size(list);
        cr_assert(json_is_array(list) || json_is_null(list));
        json_decref(list);
    }
    cr_expect_eq(buckets, told);
    cr_expect_eq(rows, (TALLY_BUCKETS_MAX + HISTOGRAM_BUCKETS - 1) / HISTOGRAM_BUCKETS);
    cr_expect_lt(buckets, TALLY_BUCKETS_MAX + HISTOGRAM_BUCKETS);
}
