/* SPDX-License-Identifier: MIT */
/*
 * ranges.h - finds the range of memory that an address lies in, among as many as there may be.
 *
 * An intrusive tree that random ranks keep low, so there is no memory to be out of. A secret keeps
 * whoever has ranges made from knowing its shape. Ranges do not overlap; of those that are the same
 * any is found. Not thread-safe.
 */
#ifndef RDMAD_OP_RANGES_H
#define RDMAD_OP_RANGES_H

#include <stdint.h>

struct range { /* embedded in the thing */
    struct range *left, *right;
    uint64_t rank;  /* those below have lower ones */
    uintptr_t base; /* set by who adds it, as the next one: */
    uint64_t bytes;
};

struct ranges {
    struct range *root;
    uint64_t random;
};

void ranges_init(struct ranges *ranges, uint64_t secret);
void ranges_add(struct ranges *ranges, struct range *r);
void ranges_remove(struct ranges *ranges, struct range *r); /* which is among them */
struct range *ranges_find(const struct ranges *ranges, const void *address); /* NULL: in none */

#endif
