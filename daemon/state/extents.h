/* SPDX-License-Identifier: MIT */
/*
 * extents.h - which parts of a range are given out: an allocator that never touches the range.
 *
 * Lengths are multiples of EXTENT_GRANULE. The first free extent that is long enough is used, from
 * its start; what comes back is merged with free neighbours. Every step takes logarithmic time in
 * the number of extents, on average.
 */
#ifndef RDMAD_STATE_EXTENTS_H
#define RDMAD_STATE_EXTENTS_H

#include "daemon/base/tree.h"
#include <stdbool.h>

#define EXTENT_GRANULE 4096u

struct extent {
    struct tree_node node;
    uint64_t offset, length;
    uint64_t longest; /* of the free ones in the subtree */
    void *user;       /* of who has it; NULL: free */
};

struct extents {
    struct tree tree;
    uint64_t free; /* bytes */
};

/* A range of length bytes, all free. 0 or RDMAD_E_NOMEM. */
int extents_init(struct extents *x, uint64_t length);
void extents_fini(struct extents *x);
/* Gives length bytes, rounded up to granules, to user (not NULL). Returns NULL when out of memory,
 * or when no free extent is that long; then *no_room is set. */
struct extent *extents_take(struct extents *x, uint64_t length, void *user, bool *no_room);
/* The same, but exactly what begins at offset. NULL with *no_room set: not all of it is free, or it
 * does not begin at a granule. */
struct extent *extents_take_at(struct extents *x, uint64_t offset, uint64_t length, void *user,
                               bool *no_room);
void extents_give(struct extents *x, struct extent *e);
/* The extent that begins at offset and is given out; NULL: there is none. */
struct extent *extents_find(const struct extents *x, uint64_t offset);
uint64_t extents_longest(const struct extents *x); /* free at a piece */

#endif
