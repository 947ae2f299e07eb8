/* SPDX-License-Identifier: MIT */
/*
 * top_links.c - links by what goes over them right now.
 */
#include "rdmactl/top.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 11

struct link_rate {
    const json_t *row; /* borrowed from the newer look */
    double ops, bytes_read, bytes_written, retransmits, p99, first;
};

/* A link is one of a peer, of a worker, of a fabric, perhaps of one session. */
static bool is_same(const json_t *a, const json_t *b) {
    static const char *const numbers[] = {"peer", "worker", "session"};
    for (unsigned i = 0; i < 3; i++)
        if (cli_number(a, numbers[i]) != cli_number(b, numbers[i]))
            return false;
    return strcmp(cli_text(a, "fabric"), cli_text(b, "fabric")) == 0;
}

static const json_t *former_of(const json_t *before, const json_t *row) {
    size_t i;
    json_t *old;
    json_array_foreach(before, i, old) {
        if (is_same(old, row))
            return old;
    }
    return NULL;
}

/* Of one that began in between, or anew, there is none yet. */
static double rate_of(const json_t *old, const json_t *row, const char *key, double span_s) {
    double more = old ? cli_number(row, key) - cli_number(old, key) : 0;
    return more > 0 ? more / span_s : 0;
}

static int most_first(const void *a, const void *b) {
    const struct link_rate *x = a, *y = b;
    return x->first < y->first ? 1 : x->first > y->first ? -1 : 0;
}

static struct link_rate rate_link(const json_t *old, const json_t *row, double span_s,
                                  enum sort_key key) {
    struct link_rate r = {.row = row,
                          .ops = rate_of(old, row, "ops", span_s),
                          .bytes_read = rate_of(old, row, "bytes_read", span_s),
                          .bytes_written = rate_of(old, row, "bytes_written", span_s),
                          .retransmits = rate_of(old, row, "retransmits", 1),
                          .p99 = top_latency(row, "p99")};
    r.first = key == SORT_OPS     ? r.ops
              : key == SORT_P99   ? r.p99
              : key == SORT_QUEUE ? top_queue(row)
                                  : r.bytes_read + r.bytes_written;
    return r;
}

static void link_cells(struct table *t, const struct link_rate *r) {
    char buf[CELL_MAX];
    snprintf(buf, sizeof(buf), "%.0f", cli_number(r->row, "peer"));
    table_cell(t, true, buf);
    table_cell(t, false, cli_text(r->row, "node"));
    table_cell(t, false, cli_text(r->row, "fabric"));
    table_cell(t, false, cli_text(r->row, "state"));
    snprintf(buf, sizeof(buf), "%.0f", r->ops);
    table_cell(t, true, buf);
    table_cell(t, true, cli_human_bytes(buf, r->bytes_read));
    table_cell(t, true, cli_human_bytes(buf, r->bytes_written));
    top_latency_cells(t, r->row);
    snprintf(buf, sizeof(buf), "%.0f", top_queue(r->row));
    table_cell(t, true, buf);
    snprintf(buf, sizeof(buf), "%.0f", r->retransmits);
    table_cell(t, true, buf);
}

struct table *top_links(const json_t *before, const json_t *after, double span_s,
                        enum sort_key key) {
    static const char *const head[COLUMNS] = {"PEER",  "NODE",   "FABRIC",     "STATE",
                                              "OPS/S", "READ/S", "WRITTEN/S",  "P50",
                                              "P99",   "QUEUE",  "RETRANSMITS"};
    struct table *t = table_new(COLUMNS);
    size_t count = json_array_size(after), i;
    struct link_rate *rate = calloc(count + 1, sizeof(*rate));
    json_t *row;
    for (unsigned k = 0; k < COLUMNS; k++)
        table_cell(t, k == 0 || k > 3, head[k]);
    json_array_foreach(after, i, row) {
        if (rate)
            rate[i] = rate_link(former_of(before, row), row, span_s, key);
    }
    if (rate)
        qsort(rate, count, sizeof(*rate), most_first);
    for (i = 0; rate && i < count; i++)
        link_cells(t, &rate[i]);
    free(rate);
    return t;
}
