/* SPDX-License-Identifier: MIT */
/*
 * alloc.c - rdmad_alloc and rdmad_free: the arena's offsets as pointers into the pool.
 *
 * A piece that is freed while somebody holds bytes of it is not the program's any more (to free it
 * once more aborts), but is handed out again only when the last of them has given it up: until then
 * it waits in a list, which whoever gives up something looks through (hold.c).
 */
#include "libclient/guard.h"
#include "libclient/internal.h"

#include <stdio.h>
#include <stdlib.h>

struct rdmad_deferred {
    struct rdmad_deferred *next;
    uint64_t offset, bytes;
};

void *rdmad_alloc(rdmad_pool *pool, size_t bytes) {
    uint64_t offset =
        pool->guard ? rdmad_guard_take(pool, bytes) : rdmad_arena_take(pool->arena, bytes);

    if (offset == RDMAD_ARENA_NONE) {
        rdmad_fail(pool->session, RDMAD_E_NOMEM,
                   "pool %llu of %zu bytes has no room for a piece of %zu bytes%s: free some, or "
                   "create a larger pool",
                   (unsigned long long)pool->handle, pool->bytes, bytes,
                   pool->guard ? ", each of which takes whole pages in guard mode" : "");
        return NULL;
    }
    return pool->base + offset;
}

void rdmad_deferred_collect(struct rdmad_pool *pool) {
    struct rdmad_holders *h = &pool->holders;

    for (struct rdmad_deferred **at = &h->deferred, *d; (d = *at);) {
        if (!rdmad_hold_map_unheld(h->map, d->offset, d->bytes)) {
            at = &d->next;
            continue;
        }
        *at = d->next;
        __atomic_sub_fetch(&h->attention, 1, __ATOMIC_SEQ_CST);
        rdmad_arena_return(pool->arena, d->offset);
        free(d);
    }
}

void rdmad_deferred_dispose(struct rdmad_holders *h) {
    for (struct rdmad_deferred *d = h->deferred, *next; d; d = next) {
        next = d->next;
        free(d);
    }
    h->deferred = NULL;
}

/* Without memory for the record the piece is lost to the pool: better than handed out too early. */
static void defer(struct rdmad_pool *pool, uint64_t offset, uint64_t bytes) {
    struct rdmad_holders *h = &pool->holders;
    struct rdmad_deferred *d = malloc(sizeof(*d));

    if (!d)
        return;
    pthread_mutex_lock(&h->lock);
    *d = (struct rdmad_deferred){.next = h->deferred, .offset = offset, .bytes = bytes};
    h->deferred = d;
    __atomic_add_fetch(&h->attention, 1, __ATOMIC_SEQ_CST);
    rdmad_deferred_collect(pool); /* the last holder may have gone before it could see this */
    pthread_mutex_unlock(&h->lock);
}

static bool is_deferred(struct rdmad_pool *pool, uint64_t offset) {
    struct rdmad_deferred *d;

    pthread_mutex_lock(&pool->holders.lock);
    for (d = pool->holders.deferred; d && d->offset != offset; d = d->next)
        ;
    pthread_mutex_unlock(&pool->holders.lock);
    return d != NULL;
}

static void refuse_free(struct rdmad_pool *pool, const void *piece) {
    const char *why;

    if (pool->guard)
        rdmad_guard_explain_free(pool, (uintptr_t)piece - (uintptr_t)pool->base);
    why = is_deferred(pool, (uintptr_t)piece - (uintptr_t)pool->base)
              ? "was freed before, while ops or locks still hold it"
              : "is no piece that rdmad_alloc handed out of it, or it was freed before";

    fprintf(stderr, "rdmad_free: %p of pool %llu %s\n", piece, (unsigned long long)pool->handle,
            why);
    abort();
}

void rdmad_free(rdmad_pool *pool, void *piece) {
    uint64_t offset = (uintptr_t)piece - (uintptr_t)pool->base, bytes;

    if (!piece)
        return;
    if (!rdmad_arena_retire(pool->arena, offset))
        refuse_free(pool, piece);
    if (pool->guard) {
        rdmad_guard_give(pool, offset);
        return;
    }
    bytes = rdmad_arena_piece_bytes(pool->arena, offset);
    if (rdmad_hold_map_unheld(pool->holders.map, offset, bytes))
        rdmad_arena_return(pool->arena, offset);
    else
        defer(pool, offset, bytes);
}
