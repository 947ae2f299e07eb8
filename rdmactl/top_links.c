/* SPDX-License-Identifier: MIT */
/*
 * top_links.c - links by what goes over them right now.
 */
#include "rdmactl/top.h"
#include <stdio.h>
#include <stdlib.h>

#define COLUMNS 11

static enum sort_key link_sort;

static double link_key(const struct link_rate *r) {
    const double by[] = {[SORT_BYTES] = r->bytes_read + r->bytes_written,
                         [SORT_OPS] = r->ops,
                         [SORT_P99] = top_latency(r->row, "p99"),
                         [SORT_MEMORY] = r->bytes_read + r->bytes_written,
                         [SORT_QUEUE] = top_queue(r->row)};
    return by[link_sort];
}

static int most_first(const void *a, const void *b) {
    const struct link_rate *x = a, *y = b;
    double kx = link_key(x), ky = link_key(y);
    if (kx != ky)
        return kx < ky ? 1 : -1;
    return x->at > y->at ? 1 : -1;
}

static struct link_rate *sorted_rates(const json_t *before, const json_t *after, double span_s,
                                      enum sort_key key, size_t *count) {
    struct link_rate *rate = top_link_rates(before, after, span_s, count);
    link_sort = key;
    if (rate)
        qsort(rate, *count, sizeof(*rate), most_first);
    return rate;
}

static void link_cells(struct table *t, const struct link_rate *r, double span_s) {
    char buf[CELL_MAX];
    top_count_cell(t, cli_number(r->row, "peer"));
    table_cell(t, false, cli_text(r->row, "node"));
    table_cell(t, false, cli_text(r->row, "fabric"));
    table_cell(t, false, cli_text(r->row, "state"));
    top_count_cell(t, r->ops);
    table_cell(t, true, cli_human_bytes(buf, r->bytes_read));
    table_cell(t, true, cli_human_bytes(buf, r->bytes_written));
    top_latency_cells(t, r->row);
    top_count_cell(t, top_queue(r->row));
    top_count_cell(t, r->retransmits * span_s);
}

struct table *top_links(const json_t *before, const json_t *after, double span_s,
                        enum sort_key key) {
    static const char *const head[COLUMNS] = {"PEER",  "NODE",   "FABRIC",     "STATE",
                                              "OPS/S", "READ/S", "WRITTEN/S",  "P50",
                                              "P99",   "QUEUE",  "RETRANSMITS"};
    struct table *t = table_new(COLUMNS);
    size_t count = 0;
    struct link_rate *rate = sorted_rates(before, after, span_s, key, &count);
    for (unsigned k = 0; k < COLUMNS; k++)
        table_cell(t, k == 0 || k > 3, head[k]);
    for (size_t i = 0; i < count; i++)
        link_cells(t, &rate[i], span_s);
    free(rate);
    return t;
}

json_t *top_links_json(const json_t *before, const json_t *after, double span_s,
                       enum sort_key key) {
    size_t count = 0;
    struct link_rate *rate = sorted_rates(before, after, span_s, key, &count);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *row = json_copy((json_t *)rate[i].row);
        top_link_rates_json(row, &rate[i]);
        json_array_append_new(list, row);
    }
    free(rate);
    return list;
}
