/* SPDX-License-Identifier: MIT */
/*
 * alloc.c - rdmad_alloc and rdmad_free: the arena's offsets as pointers into the pool.
 *
 * The event of a lease's end may still be unread in the socket: before rdmad_alloc says that there
 * is no room, it looks there.
 */
#include "libclient/base/error.h"
#include "libclient/control/control.h"
#include "libclient/memory/deferred.h"
#include "libclient/memory/guard.h"
#include <stdio.h>
#include <stdlib.h>

static uint64_t alloc_take(struct rdmad_pool *pool, size_t bytes) {
    return pool->guard ? rdmad_guard_take(pool, bytes) : rdmad_arena_take(pool->arena, bytes);
}

static uint64_t alloc_take_after_look(struct rdmad_pool *pool, size_t bytes) {
    if (!__atomic_load_n(&pool->holders.lent_map, __ATOMIC_ACQUIRE))
        return RDMAD_ARENA_NONE;
    pthread_mutex_lock(&pool->session->lock);
    rdmad_control_look(pool->session);
    pthread_mutex_unlock(&pool->session->lock);
    return alloc_take(pool, bytes);
}

static void alloc_fail_no_room(struct rdmad_pool *pool, size_t bytes) {
    uint64_t lent = rdmad_deferred_lent_bytes(pool);
    char why[96] = "";
    if (lent)
        snprintf(why, sizeof(why), " (%llu bytes were freed, and are under leases that are alive)",
                 (unsigned long long)lent);
    rdmad_fail(pool->session, RDMAD_E_NOMEM,
               "pool %llu of %zu bytes has no room for a piece of %zu bytes%s%s: free some, or "
               "create a larger pool",
               (unsigned long long)pool->handle, pool->bytes, bytes,
               pool->guard ? ", each of which takes whole pages in guard mode" : "", why);
}

void *rdmad_alloc(rdmad_pool *pool, size_t bytes) {
    RDMAD_LIVE(pool, POOL);
    if (rdmad_is_inherited(pool->session)) {
        rdmad_fail_lost(pool->session);
        return NULL;
    }
    uint64_t offset = alloc_take(pool, bytes);
    if (offset == RDMAD_ARENA_NONE)
        offset = alloc_take_after_look(pool, bytes);
    if (offset == RDMAD_ARENA_NONE) {
        alloc_fail_no_room(pool, bytes);
        return NULL;
    }
    return pool->base + offset;
}

static void free_refuse(struct rdmad_pool *pool, const void *piece) {
    if (pool->guard)
        rdmad_guard_explain_free(pool, (uintptr_t)piece - (uintptr_t)pool->base);
    const char *why = rdmad_deferred_why(pool, (uintptr_t)piece - (uintptr_t)pool->base);
    if (!why)
        why = "is no piece that rdmad_alloc handed out of it, or it was freed before";

    fprintf(stderr, "rdmad_free: %p of pool %llu %s\n", piece, (unsigned long long)pool->handle,
            why);
    abort();
}

void rdmad_free(rdmad_pool *pool, void *piece) {
    uint64_t offset, bytes;
    if (!piece)
        return;
    RDMAD_LIVE(pool, POOL);
    if (rdmad_is_inherited(pool->session))
        return;
    offset = (uintptr_t)piece - (uintptr_t)pool->base;
    if (!rdmad_arena_retire(pool->arena, offset))
        free_refuse(pool, piece);
    if (pool->guard) {
        rdmad_guard_give(pool, offset);
        return;
    }
    bytes = rdmad_arena_piece_bytes(pool->arena, offset);
    if (rdmad_is_held(&pool->holders, offset, bytes) ||
        rdmad_is_lent(&pool->holders, offset, bytes))
        rdmad_deferred_add(pool, offset, bytes);
    else
        rdmad_arena_return(pool->arena, offset);
}
