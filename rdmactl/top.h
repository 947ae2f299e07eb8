/* SPDX-License-Identifier: MIT */
/*
 * top.h - what top shows: tables of two looks and what came between them.
 */
#ifndef RDMACTL_TOP_H
#define RDMACTL_TOP_H

#include "rdmactl/cli.h"

/* What is first: the most of it. */
enum sort_key { SORT_BYTES, SORT_OPS, SORT_P99, SORT_MEMORY };

/* Links, of two answers to link.show span_s apart. Memory is none of theirs: then by bytes. */
struct table *top_links(const json_t *before, const json_t *after, double span_s,
                        enum sort_key key);

#endif
