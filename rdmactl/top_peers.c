/* SPDX-License-Identifier: MIT */
/*
 * top_peers.c - peers by what goes over all links to each right now.
 *
 * A peer is a name here, not a connection: two daemons that have dialled each other are two
 * connections. One that has not said its name is its address.
 */
#include "rdmactl/top.h"
#include <stdlib.h>

#define PEER_COLUMNS 10

struct peer_sum {
    struct top_rank rank; /* first: top_sort */
    const char *name;     /* borrowed from the newer look */
    struct link_rate sum; /* row: none; took: of all links of which it is known */
    double links, queue;
    struct top_latency latency;
};

static const char *name_of(const json_t *link) {
    const char *node = cli_text(link, "node");
    return json_string_length(json_object_get(link, "node")) ? node : cli_text(link, "address");
}

static void add_link(struct peer_sum *p, const struct link_rate *r) {
    p->sum.rates.ops += r->rates.ops;
    p->sum.failed += r->failed;
    p->sum.rates.bytes_read += r->rates.bytes_read;
    p->sum.rates.bytes_written += r->rates.bytes_written;
    p->sum.retransmits += r->retransmits;
    p->links++;
    p->queue += top_queue(r->row);
    if (!r->took)
        return;
    json_t *took = top_took_together(p->sum.took, r->took);
    json_decref(p->sum.took);
    p->sum.took = took;
}

static struct top_rank peer_rank(const struct peer_sum *p, enum sort_key key, size_t at) {
    const double by[SORT_KEYS] = {
        [SORT_BYTES] = p->sum.rates.bytes_read + p->sum.rates.bytes_written,
        [SORT_OPS] = p->sum.rates.ops,
        [SORT_P99] = p->latency.p99,
        [SORT_MEMORY] = p->sum.rates.bytes_read + p->sum.rates.bytes_written,
        [SORT_QUEUE] = p->queue};
    return top_rank_by(by, key, at);
}

/* Which of the sums is that of the name; a new one if there is none. */
static struct peer_sum *find_sum(struct peer_sum *sums, size_t *count, json_t *places,
                                 const char *name) {
    const json_t *place = json_object_get(places, name);
    if (place)
        return &sums[json_integer_value(place)];
    struct peer_sum *p = &sums[*count];
    *p = (struct peer_sum){.name = name};
    json_object_set_new(places, name, json_integer((json_int_t)*count));
    ++*count;
    return p;
}

/* The caller's to free; NULL: out of memory. */
static struct peer_sum *sum_peers(const json_t *before, const json_t *after, double span_s,
                                  enum sort_key key, size_t *count) {
    size_t links = 0;
    struct link_rate *rate = top_link_rates(before, after, span_s, &links);
    struct peer_sum *sums = calloc(links + 1, sizeof(*sums));
    json_t *places = json_object();
    *count = 0;
    for (size_t i = 0; sums && i < links; i++)
        add_link(find_sum(sums, count, places, name_of(rate[i].row)), &rate[i]);
    for (size_t i = 0; i < *count; i++) {
        sums[i].latency = top_latency_of(sums[i].sum.took);
        json_decref(sums[i].sum.took);
        sums[i].sum.took = NULL;
        sums[i].rank = peer_rank(&sums[i], key, i);
    }
    top_sort(sums, *count, sizeof(*sums));
    json_decref(places);
    top_link_rates_free(rate, links);
    return sums;
}

static void peer_cells(struct table *t, const struct peer_sum *p, double span_s) {
    table_cell(t, false, p->name);
    top_count_cell(t, p->links);
    top_rates_cells(t, &p->sum.rates);
    top_time_cell(t, &p->latency, p->latency.p50);
    top_time_cell(t, &p->latency, p->latency.p99);
    top_count_cell(t, p->queue);
    top_count_cell(t, p->sum.failed * span_s);
    top_count_cell(t, p->sum.retransmits * span_s);
}

struct table *top_peers(const json_t *before, const json_t *after, double span_s,
                        enum sort_key key) {
    static const char *const head[PEER_COLUMNS] = {"PEER",      "LINKS",      "OPS/S", "READ/S",
                                                   "WRITTEN/S", "P50",        "P99",   "QUEUE",
                                                   "FAILED",    "RETRANSMITS"};
    struct table *t = table_new(PEER_COLUMNS);
    size_t count = 0;
    struct peer_sum *sums = sum_peers(before, after, span_s, key, &count);
    for (unsigned k = 0; k < PEER_COLUMNS; k++)
        table_cell(t, k > 0, head[k]);
    for (size_t i = 0; i < count; i++)
        peer_cells(t, &sums[i], span_s);
    free(sums);
    return t;
}

json_t *top_peers_json(const json_t *before, const json_t *after, double span_s,
                       enum sort_key key) {
    size_t count = 0;
    struct peer_sum *sums = sum_peers(before, after, span_s, key, &count);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct peer_sum *p = &sums[i];
        json_t *row = json_pack("{s:s, s:I, s:I}", "peer", p->name, "links", (json_int_t)p->links,
                                "ops_inflight", (json_int_t)p->queue);
        top_latency_json(row, &p->latency);
        top_link_rates_json(row, &p->sum);
        json_array_append_new(list, row);
    }
    free(sums);
    return list;
}
