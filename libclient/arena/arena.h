/* SPDX-License-Identifier: MIT */
/*
 * arena.h - the allocator of one pool, in offsets: it never sees the pool's memory.
 *
 * Small pieces (up to a page) come from a magazine of the calling thread (magazine.c), which is
 * filled and emptied in batches from spans of their size class (spans.c); larger ones are runs of
 * pages (pages.c). One bit for each 64 bytes of the pool says which pieces the program has, so that
 * freeing what was not handed out is noticed at once, whichever thread does it.
 */
#ifndef RDMAD_LIBCLIENT_ARENA_H
#define RDMAD_LIBCLIENT_ARENA_H

#include "libclient/arena/magazine.h"

struct rdmad_arena {
    struct rdmad_depot depot;
    uint64_t bytes;
    uint64_t *live; /* bit per granule: a piece handed out starts here */
};

struct rdmad_arena *rdmad_arena_new(uint64_t bytes); /* NULL: out of memory */
void rdmad_arena_free(struct rdmad_arena *a);        /* NULL is allowed */

/* The offset of a piece, or RDMAD_ARENA_NONE: no room. */
uint64_t rdmad_arena_take(struct rdmad_arena *a, size_t bytes);
/* Giving back, in two steps. retire: the program has the piece no more (false: no piece that is
 * handed out starts at offset, and nothing changes). return: it may be handed out again. */
bool rdmad_arena_retire(struct rdmad_arena *a, uint64_t offset);
void rdmad_arena_return(struct rdmad_arena *a, uint64_t offset);
/* How large a piece really is: at least as large as was asked for. It must not be returned yet. */
uint64_t rdmad_arena_piece_bytes(const struct rdmad_arena *a, uint64_t offset);

#endif
