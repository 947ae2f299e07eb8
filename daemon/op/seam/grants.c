/* SPDX-License-Identifier: MIT */
/*
 * grants.c - who may hear of notifications, and who may send them, as the control thread says.
 */
#include "daemon/base/log.h"
#include "daemon/op/notify/grant.h"
#include "daemon/op/notify/notify_peer.h"
#include "daemon/op/seam/call.h"

/* ---- the owner's session ----------------------------------------------------------------- */

static void apply_add(struct call *c) {
    int rc = grant_add(c->worker, &c->session->op, c->object, c->handle);
    if (rc < 0)
        call_fail(c, rc, "notifications of a lease: no room in the worker's table");
    else
        call_finish(c);
}

void plane_grant_add(struct plane_session *s, uint64_t lease_id, plane_done *done, void *arg) {
    struct call *c = call_new(s->plane, s->worker, apply_add, done, arg);
    c->session = s;
    c->handle = lease_id;
    c->object = op_grant_new();
    if (c->object)
        call_post(c);
    else
        call_refuse(c, RDMAD_E_NOMEM, "notifications of a lease: out of memory");
}

static bool grant_settled(struct call *c) {
    return grant_end(c->worker, c->object, c->reason);
}

static void apply_drop(struct call *c) {
    c->object = grant_hide(c->worker, &c->session->op, c->handle);
    if (c->object)
        call_wait(c, grant_settled);
    else
        call_finish(c);
}

void plane_grant_drop(struct plane_session *s, uint64_t lease_id, int reason, plane_done *done,
                      void *arg) {
    struct call *c = call_new(s->plane, s->worker, apply_drop, done, arg);
    c->session = s;
    c->handle = lease_id;
    c->reason = reason;
    call_post(c);
}

/* ---- a lessee at a peer ------------------------------------------------------------------ */

static void apply_notify(struct call *c) {
    notifier_attach(c->worker, &c->window->op, c->object);
    call_finish(c);
}

void plane_window_notify(struct plane_window *w, uint64_t ref, struct plane_session *owner,
                         uint64_t lease_id) {
    struct op_notifier *n = notifier_new(&owner->op, lease_id);
    if (!n) {
        LOG(ERR, ("out of memory: a lessee of lease %lu cannot notify its owner",
                  (unsigned long)w->op.spec.lease_id));
        return;
    }
    n->ref = ref;
    struct call *c = call_new(w->plane, w->worker, apply_notify, NULL, NULL);
    c->window = w;
    c->object = n;
    call_post(c);
}
