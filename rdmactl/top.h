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
enum sort_key { SORT_BYTES, SORT_OPS, SORT_P99, SORT_MEMORY, SORT_QUEUE, SORT_KEYS };

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

/* ---- rows, whatever they are of (top_rows.c) ------------------------------------------------ */

/* Of a count, a second; 0 if it has fallen, as then it is another's. old NULL: it began at 0. */
double top_rate(const json_t *old, const json_t *row, const char *key, double span_s);

struct top_rates {
    double ops, bytes_read, bytes_written; /* a second */
};

struct top_rates top_rates_between(const json_t *old, const json_t *row, double span_s);
/* In the daemon's measure: the bytes that were moved and TOP_OP_COST for each op. */
double top_cost(const struct top_rates *r);
/* OPS/S, READ/S and WRITTEN/S. */
void top_rates_cells(struct table *t, const struct top_rates *r);
/* ops_per_s, bytes_read_per_s and bytes_written_per_s. */
void top_rates_json(json_t *row, const struct top_rates *r);

/* A row's place: by first, then by second, the most first; then as they were told. What top_sort
 * sorts begins with one. */
struct top_rank {
    double first, second;
    size_t at; /* in the newer look */
};

/* By the key, then by bytes; by bytes, then by ops. */
struct top_rank top_rank_by(const double by[SORT_KEYS], enum sort_key key, size_t at);
void top_sort(void *rows, size_t count, size_t size);

/* ---- how long ops took between two looks (top_latency.c) ------------------------------------ */

/* In microseconds. done: how many ops; 0: there was none, or it is not known how long they took. */
struct top_latency {
    double done, p50, p99;
};

/* The buckets of those ops, in the form of lat_buckets; the caller's. old NULL: all that row tells.
 * NULL: the daemon has not told buckets, at one look or the other. */
json_t *top_took(const json_t *old, const json_t *row);
/* Of both together; either may be NULL. The caller's. */
json_t *top_took_together(const json_t *a, const json_t *b);
/* took may be NULL. */
struct top_latency top_latency_of(const json_t *took);
struct top_latency top_latency_between(const json_t *old, const json_t *row);

/* us is one of its times. */
void top_time_cell(struct table *t, const struct top_latency *latency, double us);
/* p50_us and p99_us. */
void top_latency_json(json_t *row, const struct top_latency *latency);

/* ---- sessions, and users: of lists of two answers to session.show, user.show ---------------- */

struct table *top_sessions(const json_t *before, const json_t *after, double span_s,
                           enum sort_key key);
json_t *top_sessions_json(const json_t *before, const json_t *after, double span_s,
                          enum sort_key key);

struct table *top_users(const json_t *before, const json_t *after, double span_s,
                        enum sort_key key);
json_t *top_users_json(const json_t *before, const json_t *after, double span_s, enum sort_key key);

/* ---- links, and peers by them: of two answers to link.show, span_s apart -------------------- */

struct link_rate {
    struct top_rank rank; /* first: top_sort */
    const json_t *row;    /* borrowed from the newer look */
    struct top_rates rates;
    double failed, retransmits; /* a second */
    json_t *took;               /* top_took of it; NULL: not known */
};

/* Of each link of the newer look, in its order, without ranks. NULL: out of memory. */
struct link_rate *top_link_rates(const json_t *before, const json_t *after, double span_s,
                                 size_t *count);
void top_link_rates_free(struct link_rate *rates, size_t count);

static inline void top_link_rates_json(json_t *row, const struct link_rate *r) {
    top_rates_json(row, &r->rates);
    json_object_set_new(row, "ops_failed_per_s", json_real(r->failed));
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
