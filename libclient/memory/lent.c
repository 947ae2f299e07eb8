/* SPDX-License-Identifier: MIT */
/*
 * lent.c - marking what is lent, and who lends it.
 */
#include "libclient/memory/lent.h"
#include "libclient/memory/deferred.h"
#include <assert.h>
#include <rdmad/abi.h>
#include <sched.h>
#include <stdio.h>

static int lent_mark(struct rdmad_pool *pool, const void *memory, uint64_t length,
                     struct rdmad_lent *lent) {
    uint64_t offset = (uintptr_t)memory - (uintptr_t)pool->base;
    struct rdmad_hold_map *map = __atomic_load_n(&pool->holders.lent_map, __ATOMIC_ACQUIRE);
    int rc;

    assert(!lent->pool && offset < pool->bytes);
    if (length > pool->bytes - offset)
        length = pool->bytes - offset; /* the daemon refuses it */
    if (length == 0)
        return 0;
    if (!map) {
        map = rdmad_hold_map_new(pool->bytes);
        if (!map)
            return RDMAD_E_NOMEM;
        __atomic_store_n(&pool->holders.lent_map, map, __ATOMIC_RELEASE);
    }
    /* A thread that asks whether a piece is lent holds it for a moment. */
    while ((rc = rdmad_hold_map_take(map, offset, length, false)) == RDMAD_E_BUSY)
        sched_yield();
    if (rc) {
        rdmad_deferred_unlent(pool, offset,
                              length); /* a thread that asked meanwhile was told that it is lent */
        return rc;
    }
    *lent = (struct rdmad_lent){
        .link = pool->holders.last_lent, .pool = pool, .offset = offset, .length = length};
    *lent->link = lent;
    pool->holders.last_lent = &lent->next;
    return 0;
}

struct rdmad_pool *rdmad_lend(struct rdmad_session *s, const void *memory, uint64_t length,
                              struct rdmad_lent *lent, int *rc) {
    pthread_mutex_lock(&s->lock);
    struct rdmad_pool *pool = rdmad_pool_of(s, memory);
    *rc = pool ? lent_mark(pool, memory, length, lent) : 0;
    pthread_mutex_unlock(&s->lock);
    return pool;
}

/* The list may have been half changed when the process was forked; in the child nobody reads it. */
void rdmad_lent_forget(struct rdmad_lent *l) {
    if (!l->pool || rdmad_is_inherited(l->pool->session))
        return;
    *l->link = l->next;
    if (l->next)
        l->next->link = l->link;
    else
        l->pool->holders.last_lent = l->link;
    l->pool = NULL;
}

void rdmad_lent_back(struct rdmad_lent *l) {
    struct rdmad_pool *pool = l->pool;
    if (!pool || rdmad_is_inherited(pool->session))
        return;
    rdmad_lent_forget(l);
    rdmad_hold_map_drop(pool->holders.lent_map, l->offset, l->length, false);
    rdmad_deferred_unlent(pool, l->offset, l->length);
}

void rdmad_lent_end(struct rdmad_session *s, struct rdmad_lent *l) {
    pthread_mutex_lock(&s->lock);
    rdmad_lent_back(l);
    pthread_mutex_unlock(&s->lock);
}

void rdmad_lent_pool_ends(struct rdmad_pool *pool) {
    while (pool->holders.lent)
        rdmad_lent_forget(pool->holders.lent);
}

void rdmad_lent_name(struct rdmad_pool *pool, uint64_t offset, uint64_t length, char *who,
                     size_t size) {
    snprintf(who, size, "a lease that has just ended");
    pthread_mutex_lock(&pool->session->lock);
    for (const struct rdmad_lent *l = pool->holders.lent; l; l = l->next) {
        if (l->offset >= offset + length || offset >= l->offset + l->length)
            continue;
        if (l->lease)
            snprintf(who, size, "lease %llu", (unsigned long long)l->lease);
        else if (l->service)
            snprintf(who, size, "the budget of service %s", l->service);
    }
    pthread_mutex_unlock(&pool->session->lock);
}
