/* SPDX-License-Identifier: MIT */
/*
 * deferred.c - the two lists of pieces that were freed too early.
 */
#include "libclient/memory/deferred.h"
#include <assert.h>
#include <stdlib.h>

struct rdmad_deferred {
    struct rdmad_deferred *next;
    uint64_t offset, bytes;
};

static void deferred_push(struct rdmad_deferred **list, struct rdmad_deferred *d) {
    d->next = *list;
    *list = d;
}

void rdmad_deferred_collect(struct rdmad_pool *pool) {
    struct rdmad_holders *h = &pool->holders;
    for (struct rdmad_deferred **at = &h->deferred, *d; (d = *at);) {
        if (rdmad_is_held(h, d->offset, d->bytes)) {
            at = &d->next;
            continue;
        }
        *at = d->next;
        assert(__atomic_load_n(&h->attention, __ATOMIC_RELAXED) > 0);
        __atomic_sub_fetch(&h->attention, 1, __ATOMIC_SEQ_CST);
        if (rdmad_is_lent(&pool->holders, d->offset, d->bytes)) {
            deferred_push(&h->deferred_lent, d);
            continue;
        }
        rdmad_arena_return(pool->arena, d->offset);
        free(d);
    }
}

/* With the lock. */
static void deferred_collect_unlent(struct rdmad_pool *pool, uint64_t offset, uint64_t length) {
    struct rdmad_holders *h = &pool->holders;
    for (struct rdmad_deferred **at = &h->deferred_lent, *d; (d = *at);) {
        if (d->offset >= offset + length || offset >= d->offset + d->bytes ||
            rdmad_is_lent(&pool->holders, d->offset, d->bytes)) {
            at = &d->next;
            continue;
        }
        *at = d->next;
        deferred_push(&h->deferred, d);
        __atomic_add_fetch(&h->attention, 1, __ATOMIC_SEQ_CST);
    }
    rdmad_deferred_collect(pool);
}

void rdmad_deferred_unlent(struct rdmad_pool *pool, uint64_t offset, uint64_t length) {
    pthread_mutex_lock(&pool->holders.lock);
    deferred_collect_unlent(pool, offset, length);
    pthread_mutex_unlock(&pool->holders.lock);
}

static void deferred_free_all(struct rdmad_deferred **list) {
    for (struct rdmad_deferred *d = *list, *next; d; d = next) {
        next = d->next;
        free(d);
    }
    *list = NULL;
}

void rdmad_deferred_dispose(struct rdmad_holders *h) {
    deferred_free_all(&h->deferred);
    deferred_free_all(&h->deferred_lent);
}

/* Without memory for the record the piece is lost to the pool: better than handed out too early. */
void rdmad_deferred_add(struct rdmad_pool *pool, uint64_t offset, uint64_t bytes) {
    struct rdmad_holders *h = &pool->holders;
    struct rdmad_deferred *d = malloc(sizeof(*d));
    if (!d)
        return;
    pthread_mutex_lock(&h->lock);
    *d = (struct rdmad_deferred){.offset = offset, .bytes = bytes};
    deferred_push(&h->deferred_lent, d);
    /* The last holder, or lease, may have gone before it could see this. */
    deferred_collect_unlent(pool, offset, bytes);
    pthread_mutex_unlock(&h->lock);
}

static bool deferred_has(const struct rdmad_deferred *d, uint64_t offset) {
    while (d && d->offset != offset)
        d = d->next;
    return d != NULL;
}

const char *rdmad_deferred_why(struct rdmad_pool *pool, uint64_t offset) {
    const char *why = NULL;
    pthread_mutex_lock(&pool->holders.lock);
    if (deferred_has(pool->holders.deferred, offset))
        why = "was freed before, while ops or locks still hold it";
    else if (deferred_has(pool->holders.deferred_lent, offset))
        why = "was freed before, while a lease or a budget on it is alive";
    pthread_mutex_unlock(&pool->holders.lock);
    return why;
}

uint64_t rdmad_deferred_lent_bytes(struct rdmad_pool *pool) {
    uint64_t bytes = 0;
    pthread_mutex_lock(&pool->holders.lock);
    for (const struct rdmad_deferred *d = pool->holders.deferred_lent; d; d = d->next)
        bytes += d->bytes;
    pthread_mutex_unlock(&pool->holders.lock);
    return bytes;
}
