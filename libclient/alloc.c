/* SPDX-License-Identifier: MIT */
/*
 * alloc.c - rdmad_alloc and rdmad_free: the arena's offsets as pointers into the pool.
 */
#include "libclient/internal.h"

#include <stdio.h>
#include <stdlib.h>

void *rdmad_alloc(rdmad_pool *pool, size_t bytes) {
    uint64_t offset = rdmad_arena_take(pool->arena, bytes);

    if (offset == RDMAD_ARENA_NONE) {
        rdmad_fail(pool->session, RDMAD_E_NOMEM,
                   "pool %llu of %zu bytes has no room for a piece of %zu bytes: free some, or "
                   "create a larger pool",
                   (unsigned long long)pool->handle, pool->bytes, bytes);
        return NULL;
    }
    return pool->base + offset;
}

void rdmad_free(rdmad_pool *pool, void *piece) {
    uintptr_t at = (uintptr_t)piece, base = (uintptr_t)pool->base;

    if (!piece)
        return;
    if (at < base || !rdmad_arena_give(pool->arena, at - base)) {
        fprintf(stderr,
                "rdmad_free: %p is no piece that rdmad_alloc handed out of pool %llu, or it was "
                "freed before\n",
                piece, (unsigned long long)pool->handle);
        abort();
    }
}
