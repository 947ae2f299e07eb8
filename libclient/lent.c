/* SPDX-License-Identifier: MIT */
/*
 * lent.c - memory that others may reach: what lies under a lease that was granted here, or in a
 * service's budget.
 *
 * The happy path: a range is marked in the pool's second map (hold_map.h, where a lease counts as
 * a reader) before the daemon hears of the lease, and unmarked when nobody can reach it any more:
 * when the lease's end was told or a revoke was answered, when a service's close was answered.
 * rdmad_free asks that map, and alloc.c keeps what it says for later.
 *
 * A session that is lost hears of no end. What was lent then stays so: the pool is of no more use,
 * and who knows whether the daemon still lives and serves it.
 */
#include "libclient/channel.h"

#include <sched.h>
#include <stdio.h>

static struct rdmad_hold_map *map_of(struct rdmad_pool *pool) {
    return __atomic_load_n(&pool->holders.lent_map, __ATOMIC_ACQUIRE);
}

int rdmad_lend(struct rdmad_pool *pool, const void *memory, uint64_t length,
               struct rdmad_lent *out) {
    uint64_t offset = (uintptr_t)memory - (uintptr_t)pool->base;
    struct rdmad_hold_map *map = map_of(pool);
    int rc;

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
    /* Who asks whether a piece is lent holds it for a moment. */
    while ((rc = rdmad_hold_map_take(map, offset, length, false)) == RDMAD_E_BUSY)
        sched_yield();
    if (rc)
        rdmad_deferred_unlent(pool, offset, length); /* who asked meanwhile was told that it is */
    else
        *out = (struct rdmad_lent){.pool = pool->handle, .offset = offset, .length = length};
    return rc;
}

void rdmad_lent_back(struct rdmad_session *s, struct rdmad_lent *l) {
    struct rdmad_pool *pool = l->length ? rdmad_pool_by_handle(s, l->pool) : NULL;

    if (pool) {
        rdmad_hold_map_drop(map_of(pool), l->offset, l->length, false);
        rdmad_deferred_unlent(pool, l->offset, l->length);
    }
    l->length = 0;
}

void rdmad_lent_end(struct rdmad_session *s, struct rdmad_lent *l) {
    pthread_mutex_lock(&s->lock);
    rdmad_lent_back(s, l);
    pthread_mutex_unlock(&s->lock);
}

bool rdmad_is_lent(struct rdmad_pool *pool, uint64_t offset, uint64_t length) {
    struct rdmad_hold_map *map = map_of(pool);

    return map && !rdmad_hold_map_unheld(map, offset, length);
}

static bool meets(const struct rdmad_lent *l, const struct rdmad_pool *pool, uint64_t offset,
                  uint64_t length) {
    return l->length && l->pool == pool->handle && offset < l->offset + l->length &&
           l->offset < offset + length;
}

void rdmad_lent_name(struct rdmad_pool *pool, uint64_t offset, uint64_t length, char *who,
                     size_t size) {
    struct rdmad_session *s = pool->session;

    snprintf(who, size, "a lease that has just ended");
    pthread_mutex_lock(&s->lock);
    for (const struct rdmad_service *v = s->services; v; v = v->next) {
        if (meets(&v->lent, pool, offset, length))
            snprintf(who, size, "the budget of service %s", v->name);
    }
    for (unsigned i = 0; i < RDMAD_LEASE_BUCKETS; i++) {
        for (const struct rdmad_lease *l = s->lease[i]; l; l = l->next) {
            if (meets(&l->lent, pool, offset, length))
                snprintf(who, size, "lease %llu", (unsigned long long)l->id);
        }
    }
    pthread_mutex_unlock(&s->lock);
}
