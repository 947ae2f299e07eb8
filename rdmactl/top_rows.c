/* SPDX-License-Identifier: MIT */
/*
 * top_rows.c - what all rows of top have in common: a count becomes a rate, and the most is first.
 */
#include "rdmactl/top.h"
#include <stdlib.h>

double top_rate(const json_t *old, const json_t *row, const char *key, double span_s) {
    double more = cli_number(row, key) - cli_number(old, key);
    return more > 0 ? more / span_s : 0;
}

struct top_rank top_rank_by(const double by[SORT_KEYS], enum sort_key key, size_t at) {
    return (struct top_rank){
        .first = by[key], .second = by[key == SORT_BYTES ? SORT_OPS : SORT_BYTES], .at = at};
}

static int most_first(const void *a, const void *b) {
    const struct top_rank *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? 1 : -1;
    if (x->second != y->second)
        return x->second < y->second ? 1 : -1;
    return x->at > y->at ? 1 : x->at < y->at ? -1 : 0;
}

void top_sort(void *rows, size_t count, size_t size) {
    if (count)
        qsort(rows, count, size, most_first);
}
