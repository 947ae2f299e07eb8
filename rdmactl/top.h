/* SPDX-License-Identifier: MIT */
/*
 * top.h - what top shows: tables of two looks and what came between them.
 */
#ifndef RDMACTL_TOP_H
#define RDMACTL_TOP_H

#include "rdmactl/cli.h"
#include <stdio.h>

/* What an op counts besides its bytes: as in daemon/op/engine/user.h. */
#define TOP_OP_COST 2048.0

/* What is first: the most of it. */
enum sort_key { SORT_BYTES, SORT_OPS, SORT_P99, SORT_MEMORY, SORT_QUEUE };

static inline double top_latency(const json_t *row, const char *share) {
    return cli_number(json_object_get(row, "lat_us"), share);
}

/* Its p50 and p99, since it began. */
static inline void top_latency_cells(struct table *t, const json_t *row) {
    char buf[CELL_MAX];
    bool some = top_latency(row, "count") > 0;
    table_cell(t, true, some ? cli_human_us(buf, top_latency(row, "p50")) : "-");
    table_cell(t, true, some ? cli_human_us(buf, top_latency(row, "p99")) : "-");
}

/* Ops that have not ended, when it was looked: taken, or (of a session or user) in its rings. */
static inline double top_queue(const json_t *row) {
    return cli_number(row, "ops_inflight") + cli_number(row, "ops_in_rings");
}

/* A uid by a tenant's socket is another user. */
static inline bool top_same_user(const json_t *a, const json_t *b) {
    return cli_number(a, "uid") == cli_number(b, "uid") &&
           json_equal(json_object_get(a, "tenant"), json_object_get(b, "tenant"));
}

/* As limit show has it: "1000", "1000@blue". */
static inline void top_user_cell(struct table *t, const json_t *row) {
    char buf[CELL_MAX];
    const char *tenant = json_string_value(json_object_get(row, "tenant"));
    snprintf(buf, sizeof(buf), "%.0f%s%s", cli_number(row, "uid"), tenant ? "@" : "",
             tenant ? tenant : "");
    table_cell(t, true, buf);
}

static inline void top_count_cell(struct table *t, double number) {
    char buf[CELL_MAX];
    snprintf(buf, sizeof(buf), "%.0f", number);
    table_cell(t, true, buf);
}

static inline void top_share_cell(struct table *t, double share) {
    char buf[CELL_MAX];
    snprintf(buf, sizeof(buf), "%.0f%%", 100 * share);
    table_cell(t, true, buf);
}

/* Users, of two answers to user.show. */
struct table *top_users(const json_t *before, const json_t *after, double span_s,
                        enum sort_key key);
json_t *top_users_json(const json_t *before, const json_t *after, double span_s, enum sort_key key);

/* ---- links, and peers by them: of two answers to link.show, span_s apart -------------------- */

struct link_rate {
    const json_t *row;                                          /* borrowed from the newer look */
    double ops, failed, bytes_read, bytes_written, retransmits; /* a second */
    size_t at;                                                  /* in the newer look */
};

/* Of each link of the newer look, in its order; the caller's to free. NULL: out of memory. */
struct link_rate *top_link_rates(const json_t *before, const json_t *after, double span_s,
                                 size_t *count);

static inline void top_link_rates_json(json_t *row, const struct link_rate *r) {
    json_object_set_new(row, "ops_per_s", json_real(r->ops));
    json_object_set_new(row, "ops_failed_per_s", json_real(r->failed));
    json_object_set_new(row, "bytes_read_per_s", json_real(r->bytes_read));
    json_object_set_new(row, "bytes_written_per_s", json_real(r->bytes_written));
    json_object_set_new(row, "retransmits_per_s", json_real(r->retransmits));
}

/* Memory is none of theirs: then by bytes. */
struct table *top_links(const json_t *before, const json_t *after, double span_s,
                        enum sort_key key);
json_t *top_links_json(const json_t *before, const json_t *after, double span_s, enum sort_key key);

struct table *top_peers(const json_t *before, const json_t *after, double span_s,
                        enum sort_key key);
json_t *top_peers_json(const json_t *before, const json_t *after, double span_s, enum sort_key key);

#endif
