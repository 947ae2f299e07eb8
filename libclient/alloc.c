/* SPDX-License-Identifier: MIT */
/*
 * alloc.c - rdmad_alloc and rdmad_free: the arena's offsets as pointers into the pool.
 *
 * A piece that is freed while somebody holds bytes of it, or while they are lent to others
 * (lent.c), is not the program's any more (to free it once more aborts), but is handed out again
 * only when the last of them has given it up: until then it waits in a list. Whoever gives up
 * something looks through the one of what ops and locks hold (hold.c); a lease that ends through
 * the other, which may be long for as long as leases last.
 *
 * The news of a lease's end may lie unread in the socket: who finds no room looks there first.
 */
#include "libclient/guard.h"
#include "libclient/internal.h"

#include <stdio.h>
#include <stdlib.h>

struct rdmad_deferred {
    struct rdmad_deferred *next;
    uint64_t offset, bytes;
};

static uint64_t take(struct rdmad_pool *pool, size_t bytes) {
    return pool->guard ? rdmad_guard_take(pool, bytes) : rdmad_arena_take(pool->arena, bytes);
}

/* What was freed and cannot be handed out because it is lent. */
static uint64_t lent_bytes(struct rdmad_pool *pool) {
    uint64_t bytes = 0;

    pthread_mutex_lock(&pool->holders.lock);
    for (const struct rdmad_deferred *d = pool->holders.deferred_lent; d; d = d->next)
        bytes += d->bytes;
    pthread_mutex_unlock(&pool->holders.lock);
    return bytes;
}

static uint64_t take_after_a_look(struct rdmad_pool *pool, size_t bytes) {
    if (!__atomic_load_n(&pool->holders.lent_map, __ATOMIC_ACQUIRE))
        return RDMAD_ARENA_NONE;
    pthread_mutex_lock(&pool->session->lock);
    rdmad_control_look(pool->session);
    pthread_mutex_unlock(&pool->session->lock);
    return take(pool, bytes);
}

static void say_no_room(struct rdmad_pool *pool, size_t bytes) {
    uint64_t lent = lent_bytes(pool);
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
    uint64_t offset;

    if (pool->session->inherited) {
        rdmad_fail_lost(pool->session);
        return NULL;
    }
    offset = take(pool, bytes);
    if (offset == RDMAD_ARENA_NONE)
        offset = take_after_a_look(pool, bytes);
    if (offset == RDMAD_ARENA_NONE) {
        say_no_room(pool, bytes);
        return NULL;
    }
    return pool->base + offset;
}

static void push(struct rdmad_deferred **list, struct rdmad_deferred *d) {
    d->next = *list;
    *list = d;
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
        if (rdmad_is_lent(pool, d->offset, d->bytes)) {
            push(&h->deferred_lent, d);
            continue;
        }
        rdmad_arena_return(pool->arena, d->offset);
        free(d);
    }
}

/* With the lock. */
static void collect_unlent(struct rdmad_pool *pool, uint64_t offset, uint64_t length) {
    struct rdmad_holders *h = &pool->holders;

    for (struct rdmad_deferred **at = &h->deferred_lent, *d; (d = *at);) {
        if (d->offset >= offset + length || offset >= d->offset + d->bytes ||
            rdmad_is_lent(pool, d->offset, d->bytes)) {
            at = &d->next;
            continue;
        }
        *at = d->next;
        push(&h->deferred, d);
        __atomic_add_fetch(&h->attention, 1, __ATOMIC_SEQ_CST);
    }
    rdmad_deferred_collect(pool);
}

void rdmad_deferred_unlent(struct rdmad_pool *pool, uint64_t offset, uint64_t length) {
    pthread_mutex_lock(&pool->holders.lock);
    collect_unlent(pool, offset, length);
    pthread_mutex_unlock(&pool->holders.lock);
}

static void dispose(struct rdmad_deferred **list) {
    for (struct rdmad_deferred *d = *list, *next; d; d = next) {
        next = d->next;
        free(d);
    }
    *list = NULL;
}

void rdmad_deferred_dispose(struct rdmad_holders *h) {
    dispose(&h->deferred);
    dispose(&h->deferred_lent);
}

/* Without memory for the record the piece is lost to the pool: better than handed out too early. */
static void defer(struct rdmad_pool *pool, uint64_t offset, uint64_t bytes) {
    struct rdmad_holders *h = &pool->holders;
    struct rdmad_deferred *d = malloc(sizeof(*d));

    if (!d)
        return;
    pthread_mutex_lock(&h->lock);
    *d = (struct rdmad_deferred){.offset = offset, .bytes = bytes};
    push(&h->deferred_lent, d);
    /* The last holder, or lease, may have gone before it could see this. */
    collect_unlent(pool, offset, bytes);
    pthread_mutex_unlock(&h->lock);
}

static bool has(const struct rdmad_deferred *d, uint64_t offset) {
    while (d && d->offset != offset)
        d = d->next;
    return d != NULL;
}

/* What keeps a piece that was freed before, or NULL. */
static const char *deferred_by(struct rdmad_pool *pool, uint64_t offset) {
    const char *why = NULL;

    pthread_mutex_lock(&pool->holders.lock);
    if (has(pool->holders.deferred, offset))
        why = "was freed before, while ops or locks still hold it";
    else if (has(pool->holders.deferred_lent, offset))
        why = "was freed before, while a lease or a budget on it is alive";
    pthread_mutex_unlock(&pool->holders.lock);
    return why;
}

static void refuse_free(struct rdmad_pool *pool, const void *piece) {
    const char *why;

    if (pool->guard)
        rdmad_guard_explain_free(pool, (uintptr_t)piece - (uintptr_t)pool->base);
    why = deferred_by(pool, (uintptr_t)piece - (uintptr_t)pool->base);
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
    if (pool->session->inherited)
        return;
    offset = (uintptr_t)piece - (uintptr_t)pool->base;
    if (!rdmad_arena_retire(pool->arena, offset))
        refuse_free(pool, piece);
    if (pool->guard) {
        rdmad_guard_give(pool, offset);
        return;
    }
    bytes = rdmad_arena_piece_bytes(pool->arena, offset);
    if (rdmad_hold_map_unheld(pool->holders.map, offset, bytes) &&
        !rdmad_is_lent(pool, offset, bytes))
        rdmad_arena_return(pool->arena, offset);
    else
        defer(pool, offset, bytes);
}
