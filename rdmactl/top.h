/* SPDX-License-Identifier: MIT */
/*
 * top.h - what top shows: tables of two looks and what came between them.
 */
#ifndef RDMACTL_TOP_H
#define RDMACTL_TOP_H

#include "rdmactl/cli.h"

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

/* Ops that were taken and have not ended, when it was looked. */
static inline double top_queue(const json_t *row) {
    return cli_number(row, "ops_inflight");
}

/* Links, of two answers to link.show span_s apart. Memory is none of theirs: then by bytes. */
struct table *top_links(const json_t *before, const json_t *after, double span_s,
                        enum sort_key key);

#endif
