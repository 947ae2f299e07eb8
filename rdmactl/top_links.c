/* SPDX-License-Identifier: MIT */
/*
 * top_links.c - links by what goes over them right now.
 */
#include "rdmactl/top.h"

#define LINK_COLUMNS 11

static struct top_rank link_rank(const struct link_rate *r, enum sort_key key, size_t at) {
    const double by[SORT_KEYS] = {[SORT_BYTES] = r->rates.bytes_read + r->rates.bytes_written,
                                  [SORT_OPS] = r->rates.ops,
                                  [SORT_P99] = top_latency_of(r->took).p99,
                                  [SORT_MEMORY] = r->rates.bytes_read + r->rates.bytes_written,
                                  [SORT_QUEUE] = top_queue(r->row)};
    return top_rank_by(by, key, at);
}

static struct link_rate *sorted_rates(const json_t *before, const json_t *after, double span_s,
                                      enum sort_key key, size_t *count) {
    struct link_rate *rate = top_link_rates(before, after, span_s, count);
    for (size_t i = 0; i < *count; i++)
        rate[i].rank = link_rank(&rate[i], key, i);
    top_sort(rate, *count, sizeof(*rate));
    return rate;
}

static void link_cells(struct table *t, const struct link_rate *r, double span_s) {
    const struct top_latency latency = top_latency_of(r->took);
    top_count_cell(t, cli_number(r->row, "peer"));
    table_cell(t, false, cli_text(r->row, "node"));
    table_cell(t, false, cli_text(r->row, "fabric"));
    table_cell(t, false, cli_text(r->row, "state"));
    top_rates_cells(t, &r->rates);
    top_time_cell(t, &latency, latency.p50);
    top_time_cell(t, &latency, latency.p99);
    top_count_cell(t, top_queue(r->row));
    top_count_cell(t, r->retransmits * span_s);
}

struct table *top_links(const json_t *before, const json_t *after, double span_s,
                        enum sort_key key) {
    static const char *const head[LINK_COLUMNS] = {"PEER",  "NODE",   "FABRIC",     "STATE",
                                                   "OPS/S", "READ/S", "WRITTEN/S",  "P50",
                                                   "P99",   "QUEUE",  "RETRANSMITS"};
    struct table *t = table_new(LINK_COLUMNS);
    size_t count = 0;
    struct link_rate *rate = sorted_rates(before, after, span_s, key, &count);
    for (unsigned k = 0; k < LINK_COLUMNS; k++)
        table_cell(t, k == 0 || k > 3, head[k]);
    for (size_t i = 0; i < count; i++)
        link_cells(t, &rate[i], span_s);
    top_link_rates_free(rate, count);
    return t;
}

json_t *top_links_json(const json_t *before, const json_t *after, double span_s,
                       enum sort_key key) {
    size_t count = 0;
    struct link_rate *rate = sorted_rates(before, after, span_s, key, &count);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *row = json_copy((json_t *)rate[i].row);
        const struct top_latency latency = top_latency_of(rate[i].took);
        top_latency_json(row, &latency);
        top_link_rates_json(row, &rate[i]);
        json_array_append_new(list, row);
    }
    top_link_rates_free(rate, count);
    return list;
}
