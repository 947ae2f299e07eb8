/* SPDX-License-Identifier: MIT */
/*
 * top_peers.c - peers by what goes over all links to each right now.
 *
 * A peer is a name here, not a connection: two daemons that have dialled each other are two
 * connections. One that has not said its name is its address.
 */
#include "rdmactl/top.h"
#include <stdio.h>
#include <stdlib.h>

#define COLUMNS 9

struct peer_sum {
    const char *name;     /* borrowed from the newer look */
    struct link_rate sum; /* row: none */
    double links, queue;
    bool timed; /* ops were done on one of its links, and p99 is the longest of theirs */
    double p99, first;
};

static const char *name_of(const json_t *link) {
    const char *node = cli_text(link, "node");
    return json_string_length(json_object_get(link, "node")) ? node : cli_text(link, "address");
}

static void add_link(struct peer_sum *p, const struct link_rate *r) {
    double p99 = top_latency(r->row, "p99");
    p->sum.ops += r->ops;
    p->sum.failed += r->failed;
    p->sum.bytes_read += r->bytes_read;
    p->sum.bytes_written += r->bytes_written;
    p->sum.retransmits += r->retransmits;
    p->links++;
    p->queue += top_queue(r->row);
    p->timed = p->timed || top_latency(r->row, "count") > 0;
    if (p99 > p->p99)
        p->p99 = p99;
}

static double key_of(const struct peer_sum *p, enum sort_key key) {
    const double by[] = {[SORT_BYTES] = p->sum.bytes_read + p->sum.bytes_written,
                         [SORT_OPS] = p->sum.ops,
                         [SORT_P99] = p->p99,
                         [SORT_MEMORY] = p->sum.bytes_read + p->sum.bytes_written,
                         [SORT_QUEUE] = p->queue};
    return by[key];
}

static int most_first(const void *a, const void *b) {
    const struct peer_sum *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? 1 : -1;
    return x->sum.at > y->sum.at ? 1 : -1;
}

/* Which of the sums is that of the name; a new one if there is none. */
static struct peer_sum *find_sum(struct peer_sum *sums, size_t *count, json_t *places,
                                 const char *name) {
    const json_t *place = json_object_get(places, name);
    if (place)
        return &sums[json_integer_value(place)];
    struct peer_sum *p = &sums[*count];
    *p = (struct peer_sum){.name = name, .sum.at = *count};
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
    for (size_t i = 0; i < *count; i++)
        sums[i].first = key_of(&sums[i], key);
    if (sums)
        qsort(sums, *count, sizeof(*sums), most_first);
    json_decref(places);
    free(rate);
    return sums;
}

static void peer_cells(struct table *t, const struct peer_sum *p, double span_s) {
    char buf[CELL_MAX];
    table_cell(t, false, p->name);
    top_count_cell(t, p->links);
    top_count_cell(t, p->sum.ops);
    table_cell(t, true, cli_human_bytes(buf, p->sum.bytes_read));
    table_cell(t, true, cli_human_bytes(buf, p->sum.bytes_written));
    table_cell(t, true, p->timed ? cli_human_us(buf, p->p99) : "-");
    top_count_cell(t, p->queue);
    top_count_cell(t, p->sum.failed * span_s);
    top_count_cell(t, p->sum.retransmits * span_s);
}

struct table *top_peers(const json_t *before, const json_t *after, double span_s,
                        enum sort_key key) {
    static const char *const head[COLUMNS] = {"PEER", "LINKS", "OPS/S",  "READ/S",     "WRITTEN/S",
                                              "P99",  "QUEUE", "FAILED", "RETRANSMITS"};
    struct table *t = table_new(COLUMNS);
    size_t count = 0;
    struct peer_sum *sums = sum_peers(before, after, span_s, key, &count);
    for (unsigned k = 0; k < COLUMNS; k++)
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
        json_t *row = json_pack("{s:s, s:I, s:I, s:o}", "peer", p->name, "links",
                                (json_int_t)p->links, "ops_inflight", (json_int_t)p->queue,
                                "p99_us", p->timed ? json_real(p->p99) : json_null());
        top_link_rates_json(row, &p->sum);
        json_array_append_new(list, row);
    }
    free(sums);
    return list;
}
