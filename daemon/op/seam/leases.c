/* SPDX-License-Identifier: MIT */
/*
 * leases.c - leases as their lessee's session has them: added, extended, given keys, ended.
 */
#include "daemon/op/seam/leases.h"
#include "daemon/op/engine/ends.h"
#include "daemon/op/engine/route.h"
#include "daemon/op/engine/sooner.h"
#include "daemon/op/notify/allowance.h"
#include "daemon/op/seam/call.h"
#include <stdlib.h>

#define LANDING_NS UINT64_C(100000000) /* for answers that are behind the end of their lease */

/* ---- while they live --------------------------------------------------------------------- */

/* Route local: our own window on the local fabric; it is the second wall here too. */
static int open_here(struct worker *w, struct op_lease *lease, struct call *c) {
    lease->route = &w->local_route;
    lease->keyed = true;
    return w->local.ops->window_open(w->local.instance, &call_lease_add(c)->window, &lease->window,
                                     &lease->key, &c->result);
}

/* Without a key, or with one for a link that broke meanwhile, its ops wait for plane_lease_key. */
static int open_there(struct op_lease *lease, struct call *c) {
    struct op_lane *lane = &call_lease_add(c)->lane->op;
    lease->route = &lane->route;
    lease->keyed = lane->route.up && lease->key.size > 0;
    list_append(&lane->leases, &lease->lane_node);
    return 0;
}

static void close_here(struct worker *w, struct op_lease *lease) {
    if (!lease->window)
        return;
    w->local.ops->window_close(lease->window, lease->reason);
    lease->window = NULL;
}

static void free_lease(struct worker *w, struct op_lease *lease) {
    assert(lease->inflight == 0 && list_empty(&lease->ops) && list_empty(&lease->doomed) &&
           list_empty(&lease->held));
    close_here(w, lease);
    allowance_free(lease->allowance);
    share_put(lease->share);
    list_remove(&lease->lane_node);
    list_remove(&lease->sooner_node);
    free(lease);
}

static void add_lease(struct call *c) {
    struct worker *w = c->worker;
    const struct call_lease_add *about = call_lease_add(c);
    struct op_lease *lease = about->lease;
    int rc = lease->leased_link ? open_there(lease, c) : open_here(w, lease, c);
    lease->share = share_get(&c->session->op, lease->route, about->share);
    if (lease->leased_link) /* after that, or a route that is new to the user would forget it */
        user_spend_beside(c->session->op.user, USER_ATTACH_COST);
    if (rc == 0 && slots_put(&c->session->op.leases, about->handle, lease) < 0)
        rc = error_set(&c->result, RDMAD_E_NOMEM, "lease: no room in the worker's table");
    if (rc < 0)
        free_lease(w, lease);
    call_finish(c);
}

static void extend_lease(struct call *c) {
    const struct call_lease_extend *about = call_lease_extend(c);
    struct worker *w = c->worker;
    struct op_session *s = &c->session->op;
    struct op_lease *lease = slots_get(&s->leases, about->handle);
    if (lease && !lease->reason) {
        bool sooner = about->deadline_ns < lease->deadline_ns;
        lease->deadline_ns = about->deadline_ns;
        if (lease->window)
            w->local.ops->window_extend(lease->window, about->deadline_ns);
        if (sooner)
            lease_is_sooner(w, lease);
    }
    call_finish(c);
}

/* Its notices are counted from nothing, because nothing of the earlier life is left there. */
static void return_lease(struct call *c) {
    const struct call_lease_extend *about = call_lease_extend(c);
    struct op_lease *lease = slots_get(&c->session->op.leases, about->handle);
    if (lease && !lease->reason && lease->allowance)
        allowance_begin_again(lease->allowance, about->notify_ref);
    extend_lease(c);
}

/* A key that comes after the link it was for is lost is of no use: another will come. */
static void key_lease(struct call *c) {
    const struct call_lease_key *about = call_lease_key(c);
    struct op_lease *lease = slots_get(&c->session->op.leases, about->handle);
    if (lease && lease->leased_link && lease->route && lease->route->up && about->key.size > 0)
        lease_key(c->worker, lease, &about->key);
    call_finish(c);
}

void plane_lease_add(struct plane_session *s, uint64_t handle, const struct plane_lease_spec *spec,
                     plane_done *done, void *arg) {
    struct call *c = call_prepare_of(s, CALL_LEASE_ADD, add_lease, done, arg);
    struct op_lease *lease = calloc(1, sizeof(*lease));
    struct op_share *share = share_spare();
    const struct op_session *owner = !spec->lane && spec->owner ? &spec->owner->op : NULL;
    bool notifies = owner || (spec->lane && spec->notify_ref);
    struct op_allowance *allowance =
        notifies ? allowance_new(owner, spec->notify_lease, spec->notify_ref) : NULL;
    if (!lease || !share || (notifies && !allowance)) {
        free(lease);
        allowance_free(allowance);
        share_spare_free(share);
        call_refuse(c, RDMAD_E_NOMEM, "lease: out of memory");
        return;
    }
    lease->lease_id = spec->lease_id;
    lease->length = spec->length;
    lease->deadline_ns = spec->deadline_ns;
    lease->rights = spec->rights;
    lease->leased_link = spec->lane != NULL;
    lease->key = spec->key;
    lease->use = spec->lane ? spec->audit : NULL;
    lease->allowance = allowance;
    op_lease_init(lease);
    *call_lease_add(c) = (struct call_lease_add){
        .handle = handle,
        .lease = lease,
        .share = share,
        .lane = spec->lane,
        .window = {.base = spec->base,
                   .length = spec->length,
                   .rights = spec->rights,
                   .deadline_ns = spec->deadline_ns,
                   .lease_id = spec->lease_id,
                   .audit = spec->audit},
    };
    call_post(c);
}

void plane_lease_extend(struct plane_session *s, uint64_t handle, uint64_t deadline_ns) {
    struct call *c = call_prepare_of(s, CALL_LEASE_EXTEND, extend_lease, NULL, NULL);
    *call_lease_extend(c) =
        (struct call_lease_extend){.handle = handle, .deadline_ns = deadline_ns};
    call_post(c);
}

void plane_lease_return(struct plane_session *s, uint64_t handle, uint64_t deadline_ns,
                        uint64_t notify_ref) {
    struct call *c = call_prepare_of(s, CALL_LEASE_EXTEND, return_lease, NULL, NULL);
    *call_lease_extend(c) = (struct call_lease_extend){
        .handle = handle, .deadline_ns = deadline_ns, .notify_ref = notify_ref};
    call_post(c);
}

void plane_lease_key(struct plane_session *s, uint64_t handle, const struct fabric_blob *key) {
    struct call *c = call_prepare_of(s, CALL_LEASE_KEY, key_lease, NULL, NULL);
    *call_lease_key(c) = (struct call_lease_key){.handle = handle, .key = *key};
    call_post(c);
}

/* ---- their end --------------------------------------------------------------------------- */

static bool lease_is_still(struct call *c) {
    return ends_lease(&c->session->op, call_lease_end(c)->lease);
}

static bool lease_is_gone(struct call *c) {
    struct op_lease *lease = call_lease_end(c)->lease;
    if (!ends_lease(&c->session->op, lease))
        return false;
    free_lease(c->worker, lease);
    return true;
}

/* However long its ops take to end, its memory is out of reach here from now on. */
static void stop_ops(struct worker *w, struct op_lease *lease, int reason) {
    if (!lease->reason)
        lease->reason = reason;
    lease->lands = false;
    close_here(w, lease);
    ends_doom_lease(lease);
}

/* The end is told over the control connection, and may overtake answers on the link. An owner that
 * ends its lease as soon as it was notified must not turn the NOTIFY's success into a failure. So
 * ops whose every byte is posted may wait a moment for their answers; the owner's daemon lets no
 * more of them in. */
static void let_land(const struct worker *w, struct op_lease *lease, int reason) {
    uint64_t until_ns = w->now_ns + LANDING_NS + w->settings->expiry_margin_ns;
    if (lease->deadline_ns > until_ns)
        lease->deadline_ns = until_ns;
    lease->reason = reason;
    lease->lands = true;
    ends_doom_lease(lease);
}

/* A handle that names nothing is no error for these two: the add may have failed. */
static void end_lease(struct call *c) {
    struct op_session *s = &c->session->op;
    struct call_lease_end *about = call_lease_end(c);
    struct op_lease *lease = slots_get(&s->leases, about->handle);
    if (!lease) {
        call_finish(c);
        return;
    }
    bool by_owner = about->reason == RDMAD_E_LEASE_REVOKED ||
                    about->reason == RDMAD_E_LEASE_ADMIN || about->reason == RDMAD_E_LEASE_ORPHANED;
    if (lease->leased_link && by_owner && !lease->reason)
        let_land(c->worker, lease, about->reason);
    else
        stop_ops(c->worker, lease, about->reason);
    about->lease = lease;
    call_wait(c, lease_is_still);
}

static void forget_lease(struct call *c) {
    struct op_session *s = &c->session->op;
    struct call_lease_end *about = call_lease_end(c);
    struct op_lease *lease = slots_remove(&s->leases, about->handle);
    if (!lease) {
        call_finish(c);
        return;
    }
    stop_ops(c->worker, lease, RDMAD_E_LEASE_RELEASED);
    about->lease = lease;
    call_wait(c, lease_is_gone);
}

void plane_lease_end(struct plane_session *s, uint64_t handle, int reason, plane_done *done,
                     void *arg) {
    struct call *c = call_prepare_of(s, CALL_LEASE_END, end_lease, done, arg);
    *call_lease_end(c) = (struct call_lease_end){.handle = handle, .reason = reason};
    call_post(c);
}

void plane_lease_forget(struct plane_session *s, uint64_t handle) {
    struct call *c = call_prepare_of(s, CALL_LEASE_END, forget_lease, NULL, NULL);
    call_lease_end(c)->handle = handle;
    call_post(c);
}

void session_leases_free(struct worker *w, struct op_session *s) {
    uint32_t cursor = 0;
    uint64_t handle;
    for (struct op_lease *lease; (lease = slots_next(&s->leases, &cursor, &handle));)
        free_lease(w, lease);
    slots_fini(&s->leases);
}
