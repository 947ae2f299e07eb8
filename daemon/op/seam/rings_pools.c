/* SPDX-License-Identifier: MIT */
/*
 * rings_pools.c - a session's rings and pools: added, and taken away again.
 */
#include "daemon/op/seam/rings_pools.h"
#include "daemon/op/engine/batch.h"
#include "daemon/op/engine/ends.h"
#include "daemon/op/engine/names.h"
#include "daemon/op/engine/prompt.h"
#include "daemon/op/engine/rings.h"
#include "daemon/op/engine/untaken.h"
#include "daemon/op/engine/watch.h"
#include "daemon/op/seam/call.h"
#include <stdlib.h>

/* ---- rings ------------------------------------------------------------------------------- */

static void add_ring(struct call *c) {
    const struct call_ring *about = call_ring(c);
    struct worker *w = c->worker;
    struct op_session *s = &c->session->op;
    struct op_ring *r = about->ring;
    if (slots_put(&s->rings, about->handle, r) < 0) {
        free(r);
        call_fail(c, RDMAD_E_NOMEM, "ring: no room in the worker's table");
        return;
    }
    if (watch_ring_add(w, r, &c->result) < 0) {
        slots_remove(&s->rings, about->handle);
        free(r);
        call_finish(c);
        return;
    }
    r->ring->owner = r;
    r->ring->wakeup_cost.rest = &s->user->wakeups;
    r->active_ns = w->now_ns;
    tags_init(&r->tags, w->secret, names_charge, s);
    tags_init(&r->batch_tags, w->secret, names_charge, s);
    list_append(&s->every_ring, &r->session_node);
    untaken_tell(s);
    if (!s->shut)
        rings_heat(r);
    call_finish(c);
}

/* What was answered in this turn is published first; then nothing here points to the ring. */
static void free_ring(struct worker *w, struct op_ring *r) {
    assert(r->inflight == 0 && list_empty(&r->ops) && list_empty(&r->waits) &&
           list_empty(&r->doomed));
    if (!list_empty(&r->dirty_node) || !list_empty(&r->owed_node))
        ring_publish(r, true);
    r->ring->wakeup_cost.rest = NULL;
    watch_ring_remove(w, r);
    batch_drop(w, r);
    ring_forget_names(r);
    list_remove(&r->session_node);
    list_remove(&r->fence_node);
    list_remove(&r->doorbell.node);
    list_remove(&r->dirty_node);
    list_remove(&r->owed_node);
    prompt_forget(r);
    list_remove(&r->node);
    free(r);
}

static bool ring_is_gone(struct call *c) {
    struct op_ring *r = call_ring(c)->ring;
    if (!ends_ring(r, RDMAD_E_CANCELED))
        return false;
    free_ring(c->worker, r);
    return true;
}

static void drop_ring(struct call *c) {
    struct op_session *s = &c->session->op;
    struct op_ring *r = slots_remove(&s->rings, call_ring(c)->handle);
    if (!r) {
        call_fail(c, RDMAD_E_HANDLE, "ring: no such handle");
        return;
    }
    rings_forget(r); /* a doorbell does not make it hot again */
    prompt_forget(r);
    ends_doom_ring(r);
    untaken_tell(s);
    call_ring(c)->ring = r;
    call_wait(c, ring_is_gone);
}

void plane_ring_add(struct plane_session *s, uint64_t handle, struct ring *ring, plane_done *done,
                    void *arg) {
    struct call *c = call_prepare_of(s, CALL_RING, add_ring, done, arg);
    struct op_ring *r = calloc(1, sizeof(*r));
    if (!r) {
        call_refuse(c, RDMAD_E_NOMEM, "ring: out of memory");
        return;
    }
    r->session = &s->op;
    r->ring = ring;
    r->session_id = s->op.id;
    r->handle = handle;
    r->last_bytes = UINT64_MAX;
    list_init(&r->node);
    list_init(&r->dirty_node);
    list_init(&r->owed_node);
    list_init(&r->prompt_node);
    list_init(&r->session_node);
    list_init(&r->ops);
    list_init(&r->waits);
    list_init(&r->doomed);
    list_init(&r->behind);
    list_init(&r->fence_node);
    list_init(&r->doorbell.node);
    *call_ring(c) = (struct call_ring){.handle = handle, .ring = r};
    call_post(c);
}

void plane_ring_drop(struct plane_session *s, uint64_t handle, plane_done *done, void *arg) {
    struct call *c = call_prepare_of(s, CALL_RING, drop_ring, done, arg);
    call_ring(c)->handle = handle;
    call_post(c);
}

/* ---- pools ------------------------------------------------------------------------------- */

static void add_pool(struct call *c) {
    const struct call_pool *about = call_pool(c);
    struct op_pool *pool = about->pool;
    if (slots_put(&c->session->op.pools, about->handle, pool) < 0) {
        free(pool);
        call_fail(c, RDMAD_E_NOMEM, "pool: no room in the worker's table");
        return;
    }
    ranges_add(&c->worker->pools, &pool->range);
    call_finish(c);
}

static void free_pool(struct op_pool *pool) {
    assert(pool->inflight == 0);
    free(pool);
}

static bool pool_is_gone(struct call *c) {
    struct op_pool *pool = call_pool(c)->pool;
    if (!ends_pool(&c->session->op, pool, RDMAD_E_CANCELED))
        return false;
    free_pool(pool);
    return true;
}

static void drop_pool(struct call *c) {
    struct op_session *s = &c->session->op;
    struct op_pool *pool = slots_remove(&s->pools, call_pool(c)->handle);
    if (!pool) {
        call_fail(c, RDMAD_E_HANDLE, "pool: no such handle");
        return;
    }
    ranges_remove(&c->worker->pools, &pool->range);
    ends_doom_pool(s, pool);
    call_pool(c)->pool = pool;
    call_wait(c, pool_is_gone);
}

void plane_pool_add(struct plane_session *s, uint64_t handle, void *base, uint64_t bytes,
                    struct fabric_memory *memory, plane_done *done, void *arg) {
    struct call *c = call_prepare_of(s, CALL_POOL, add_pool, done, arg);
    struct op_pool *pool = calloc(1, sizeof(*pool));
    if (!pool) {
        call_refuse(c, RDMAD_E_NOMEM, "pool: out of memory");
        return;
    }
    pool->session = &s->op;
    pool->base = base;
    pool->bytes = bytes;
    pool->range = (struct range){.base = (uintptr_t)base, .bytes = bytes};
    pool->memory = memory;
    list_init(&pool->waits);
    list_init(&pool->doomed);
    *call_pool(c) = (struct call_pool){.handle = handle, .pool = pool};
    call_post(c);
}

void plane_pool_drop(struct plane_session *s, uint64_t handle, plane_done *done, void *arg) {
    struct call *c = call_prepare_of(s, CALL_POOL, drop_pool, done, arg);
    call_pool(c)->handle = handle;
    call_post(c);
}

/* ---- with their session ------------------------------------------------------------------ */

void session_rings_free(struct worker *w, struct op_session *s) {
    uint32_t cursor = 0;
    uint64_t handle;
    for (struct op_ring *r; (r = slots_next(&s->rings, &cursor, &handle));)
        free_ring(w, r);
    slots_fini(&s->rings);
}

void session_pools_free(struct worker *w, struct op_session *s) {
    uint32_t cursor = 0;
    uint64_t handle;
    for (struct op_pool *pool; (pool = slots_next(&s->pools, &cursor, &handle));) {
        ranges_remove(&w->pools, &pool->range);
        free_pool(pool);
    }
    slots_fini(&s->pools);
}
