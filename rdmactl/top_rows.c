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

struct top_rates top_rates_between(const json_t *old, const json_t *row, double span_s) {
    return (struct top_rates){.ops = top_rate(old, row, "ops", span_s),
                              .bytes_read = top_rate(old, row, "bytes_read", span_s),
                              .bytes_written = top_rate(old, row, "bytes_written", span_s)};
}

double top_cost(const struct top_rates *r) {
    return r->bytes_read + r->bytes_written + r->ops * TOP_OP_COST;
}

void top_rates_cells(struct table *t, const struct top_rates *r) {
    char buf[CELL_MAX];
    top_count_cell(t, r->ops);
    table_cell(t, true, cli_human_bytes(buf, r->bytes_read));
    table_cell(t, true, cli_human_bytes(buf, r->bytes_written));
}

void top_rates_json(json_t *row, const struct top_rates *r) {
    json_object_set_new(row, "ops_per_s", json_real(r->ops));
    json_object_set_new(row, "bytes_read_per_s", json_real(r->bytes_read));
    json_object_set_new(row, "bytes_written_per_s", json_real(r->bytes_written));
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
