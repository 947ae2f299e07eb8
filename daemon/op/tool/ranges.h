/* SPDX-License-Identifier: MIT */
/*
 * ranges.h - finds the range of memory that an address lies in, among as many as there may be: a
 * tree (base/tree.h), so there is no memory to be out of.
 *
 * Ranges do not overlap; of those that are the same any is found. Not thread-safe.
 */
#ifndef RDMAD_OP_RANGES_H
#define RDMAD_OP_RANGES_H

#include "daemon/base/tree.h"

struct range { /* embedded in the thing */
    struct tree_node node;
    uintptr_t base; /* set by who adds it, as the next one: */
    uint64_t bytes;
};

struct ranges {
    struct tree tree;
};

void ranges_init(struct ranges *ranges);
void ranges_add(struct ranges *ranges, struct range *r);
void ranges_remove(struct ranges *ranges, struct range *r); /* which is among them */
struct range *ranges_find(const struct ranges *ranges, const void *address); /* NULL: in none */

#endif
