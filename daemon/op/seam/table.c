/* SPDX-License-Identifier: MIT */
/*
 * table.c - what the control thread adds to a worker and takes away again.
 *
 * Adding is immediate. Taking away shuts the door first (no new op finds the thing), cancels the
 * ops that hold it, some a turn (ends.c), and answers when none is left: if they are few, and with
 * fabrics that let go at once, before the call returns, otherwise in a later turn through
 * calls_settle.
 *
 * The objects were allocated by the control thread; rings, pools and leases are freed here, a
 * session by its answer, because its violated_mail may still be under way.
 */
#include "daemon/op/channel/channel.h"
#include "daemon/op/engine/account.h"
#include "daemon/op/engine/batch.h"
#include "daemon/op/engine/cancel.h"
#include "daemon/op/engine/ends.h"
#include "daemon/op/engine/life.h"
#include "daemon/op/engine/names.h"
#include "daemon/op/engine/route.h"
#include "daemon/op/notify/grant.h"
#include "daemon/op/notify/notifier.h"
#include "daemon/op/seam/call.h"
#include "daemon/op/turn/loop.h"
#include <stdlib.h>

#define LANDING_NS UINT64_C(100000000) /* for answers that are behind the end of their lease */

void table_session_add(struct call *c) {
    list_append(&c->worker->sessions, &c->session->op.node);
    call_finish(c);
}

void table_shut_out(struct op_session *s) {
    uint32_t cursor = 0;
    uint64_t handle;
    s->shut = true;
    for (struct op_ring *r; (r = slots_next(&s->rings, &cursor, &handle));)
        list_remove(&r->node);
}

/* ---- rings ------------------------------------------------------------------------------- */

void table_ring_add(struct call *c) {
    struct worker *w = c->worker;
    struct op_session *s = &c->session->op;
    struct op_ring *r = c->object;
    if (slots_put(&s->rings, c->handle, r) < 0) {
        free(r);
        call_fail(c, RDMAD_E_NOMEM, "ring: no room in the worker's table");
        return;
    }
    if (loop_watch_ring(w, r, &c->result) < 0) {
        slots_remove(&s->rings, c->handle);
        free(r);
        call_finish(c);
        return;
    }
    r->ring->owner = r;
    r->active_ns = w->now_ns;
    tags_init(&r->tags, w->secret, names_charge, s);
    tags_init(&r->batch_tags, w->secret, names_charge, s);
    list_append(&s->every_ring, &r->session_node);
    if (!s->shut)
        list_append(&w->hot, &r->node);
    call_finish(c);
}

/* What was answered in this turn is published first; then nothing here points to the ring. */
static void ring_free(struct worker *w, struct op_ring *r) {
    if (!list_empty(&r->dirty_node))
        ring_flush(r->ring);
    loop_unwatch_ring(w, r);
    batch_drop(w, r);
    ring_forget_names(r);
    list_remove(&r->session_node);
    list_remove(&r->fence_node);
    list_remove(&r->knocks.node);
    list_remove(&r->dirty_node);
    list_remove(&r->node);
    free(r);
}

static bool ring_settled(struct call *c) {
    struct op_ring *r = c->object;
    if (!ends_ring(r, RDMAD_E_CANCELED))
        return false;
    ring_free(c->worker, r);
    return true;
}

void table_ring_drop(struct call *c) {
    struct op_session *s = &c->session->op;
    struct op_ring *r = slots_remove(&s->rings, c->handle);
    if (!r) {
        call_fail(c, RDMAD_E_HANDLE, "ring: no such handle");
        return;
    }
    r->parked = false; /* a knock does not make it hot again */
    list_remove(&r->node);
    ends_doom_ring(r);
    c->object = r;
    call_wait(c, ring_settled);
}

/* ---- pools ------------------------------------------------------------------------------- */

void table_pool_add(struct call *c) {
    if (slots_put(&c->session->op.pools, c->handle, c->object) < 0) {
        free(c->object);
        call_fail(c, RDMAD_E_NOMEM, "pool: no room in the worker's table");
        return;
    }
    call_finish(c);
}

static bool pool_settled(struct call *c) {
    struct op_pool *pool = c->object;
    if (!ends_pool(&c->session->op, pool, RDMAD_E_CANCELED))
        return false;
    free(pool);
    return true;
}

void table_pool_drop(struct call *c) {
    struct op_session *s = &c->session->op;
    struct op_pool *pool = slots_remove(&s->pools, c->handle);
    if (!pool) {
        call_fail(c, RDMAD_E_HANDLE, "pool: no such handle");
        return;
    }
    ops_cancel_pool(s, pool, RDMAD_E_CANCELED);
    c->object = pool;
    call_wait(c, pool_settled);
}

/* ---- leases ------------------------------------------------------------------------------ */

/* Route local: our own window on the local fabric; it is the second wall here too. */
static int open_local(struct worker *w, struct op_lease *lease, struct call *c) {
    lease->route = &w->local_route;
    lease->keyed = true;
    return w->local.ops->window_open(w->local.fabric, &c->window_spec, &lease->window, &lease->key,
                                     &c->result);
}

/* Without a key, or with one for a link that broke meanwhile, its ops wait for plane_lease_key. */
static int open_link(struct op_lease *lease, struct call *c) {
    struct op_lane *lane = &c->lane->op;
    lease->route = &lane->route;
    lease->keyed = lane->route.up && lease->key.size > 0;
    list_append(&lane->leases, &lease->lane_node);
    return 0;
}

static void lease_close(struct worker *w, struct op_lease *lease) {
    if (!lease->window)
        return;
    w->local.ops->window_close(lease->window, lease->reason);
    lease->window = NULL;
}

static void lease_free(struct worker *w, struct op_lease *lease) {
    lease_close(w, lease);
    notifier_drop(lease->notifier);
    share_put(lease->share);
    list_remove(&lease->lane_node);
    free(lease);
}

void table_lease_add(struct call *c) {
    struct worker *w = c->worker;
    struct op_lease *lease = c->object;
    int rc = lease->leased_link ? open_link(lease, c) : open_local(w, lease, c);
    lease->share = share_get(&c->session->op, lease->route, c->share);
    if (rc == 0 && slots_put(&c->session->op.leases, c->handle, lease) < 0)
        rc = error_set(&c->result, RDMAD_E_NOMEM, "lease: no room in the worker's table");
    if (rc < 0)
        lease_free(w, lease);
    call_finish(c);
}

static void set_due(struct worker *w, const struct op_lease *lease) {
    list_for_each (pos, &lease->ops)
        op_set_due(w, list_entry(pos, struct op, holds_node));
}

void table_lease_extend(struct call *c) {
    struct worker *w = c->worker;
    struct op_session *s = &c->session->op;
    struct op_lease *lease = slots_get(&s->leases, c->handle);
    if (lease && !lease->reason) {
        bool sooner = c->deadline_ns < lease->deadline_ns;
        lease->deadline_ns = c->deadline_ns;
        if (lease->window)
            w->local.ops->window_extend(lease->window, c->deadline_ns);
        if (sooner) /* later is found out when the wheel comes to the old moment */
            set_due(w, lease);
    }
    call_finish(c);
}

/* A key that comes after the link it was for is lost is of no use: another will come. */
void table_lease_key(struct call *c) {
    struct op_lease *lease = slots_get(&c->session->op.leases, c->handle);
    if (lease && lease->leased_link && lease->route && lease->route->up && c->given.size > 0)
        lease_key(c->worker, lease, &c->given);
    call_finish(c);
}

static bool lease_end_settled(struct call *c) {
    struct op_lease *lease = c->object;
    if (lease->inflight)
        return false;
    lease_close(c->worker, lease);
    return true;
}

static bool lease_forget_settled(struct call *c) {
    struct op_lease *lease = c->object;
    if (lease->inflight)
        return false;
    lease_free(c->worker, lease);
    return true;
}

static void lease_stop(struct worker *w, struct op_lease *lease, int reason) {
    if (!lease->reason)
        lease->reason = reason;
    ops_cancel_lease(w, lease, NULL, lease->reason);
}

static bool has_more_to_post(const struct op *op) {
    return op->todo || op->posted < op->length || !list_empty(&op->again) || list_empty(&op->parts);
}

/* The end came by another way than the answers to what is under way, which are behind it: an owner
 * that ends its lease as soon as it was notified must not take the success from who notified it. So
 * these ops may have their answers, for a moment; the owner's daemon lets no more of them in. */
static void lease_let_land(struct worker *w, struct op_lease *lease) {
    uint64_t until_ns = w->now_ns + LANDING_NS + w->settings->expiry_margin_ns;
    if (lease->deadline_ns > until_ns)
        lease->deadline_ns = until_ns;
    set_due(w, lease);
}

/* A handle that names nothing is no error for these two: the add may have failed. */
void table_lease_end(struct call *c) {
    struct op_session *s = &c->session->op;
    struct op_lease *lease = slots_get(&s->leases, c->handle);
    if (!lease) {
        call_finish(c);
        return;
    }
    bool by_owner = c->reason == RDMAD_E_LEASE_REVOKED || c->reason == RDMAD_E_LEASE_ADMIN ||
                    c->reason == RDMAD_E_LEASE_ORPHANED;
    if (lease->leased_link && by_owner && !lease->reason) {
        lease->reason = c->reason;
        ops_cancel_lease(c->worker, lease, has_more_to_post, c->reason);
        lease_let_land(c->worker, lease);
    } else {
        lease_stop(c->worker, lease, c->reason);
    }
    c->object = lease;
    call_wait(c, lease_end_settled);
}

void table_lease_forget(struct call *c) {
    struct op_session *s = &c->session->op;
    struct op_lease *lease = slots_remove(&s->leases, c->handle);
    if (!lease) {
        call_finish(c);
        return;
    }
    lease_stop(c->worker, lease, RDMAD_E_LEASE_RELEASED);
    c->object = lease;
    call_wait(c, lease_forget_settled);
}

/* ---- sessions ---------------------------------------------------------------------------- */

static bool session_settled(struct call *c) {
    struct worker *w = c->worker;
    struct op_session *s = &c->session->op;
    if (!ends_session(s, RDMAD_E_CANCELED) || !channels_session_settled(s) ||
        !grants_session_gone(w, s))
        return false;

    uint32_t cursor = 0;
    uint64_t handle;
    channels_session_gone(w, s);
    for (void *r; (r = slots_next(&s->rings, &cursor, &handle));)
        ring_free(w, r);
    cursor = 0;
    for (void *pool; (pool = slots_next(&s->pools, &cursor, &handle));)
        free(pool);
    cursor = 0;
    for (void *lease; (lease = slots_next(&s->leases, &cursor, &handle));)
        lease_free(w, lease);
    slots_fini(&s->rings);
    slots_fini(&s->pools);
    slots_fini(&s->leases);
    slots_fini(&s->channels);
    list_remove(&s->node);
    list_remove(&s->violated_node);
    account_return(s);
    c->left = s->uid;
    c->garbage = c->session;
    return true;
}

void table_session_drop(struct call *c) {
    struct op_session *s = &c->session->op;
    table_shut_out(s);
    channels_session_end(s);
    ends_doom_session(s);
    call_wait(c, session_settled);
}
