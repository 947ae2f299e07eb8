/* SPDX-License-Identifier: MIT */
/*
 * grants.c - who may hear of notifications, and who may send them, as the control thread says.
 */
#include "daemon/base/log.h"
#include "daemon/op/notify/grant.h"
#include "daemon/op/notify/notifier.h"
#include "daemon/op/notify/notify_peer.h"
#include "daemon/op/seam/call.h"

/* ---- the owner's session ----------------------------------------------------------------- */

static void begin_grant(struct call *c) {
    const struct call_grant *about = call_grant(c);
    int rc = grant_add(c->worker, &c->session->op, about->grant, about->lease_id);
    if (rc < 0)
        call_fail(c, rc, "notifications of a lease: no room in the worker's table");
    else
        call_finish(c);
}

void plane_grant_add(struct plane_session *s, uint64_t lease_id, plane_done *done, void *arg) {
    struct call *c = call_prepare_of(s, CALL_GRANT, begin_grant, done, arg);
    struct op_grant *g = op_grant_new();
    *call_grant(c) = (struct call_grant){.lease_id = lease_id, .grant = g};
    if (g)
        call_post(c);
    else
        call_refuse(c, RDMAD_E_NOMEM, "notifications of a lease: out of memory");
}

static bool grant_gone(struct call *c) {
    const struct call_grant *about = call_grant(c);
    return grant_end(c->worker, about->grant, about->reason);
}

static void end_grant(struct call *c) {
    struct call_grant *about = call_grant(c);
    about->grant = grant_hide(c->worker, &c->session->op, about->lease_id);
    if (about->grant)
        call_wait(c, grant_gone);
    else
        call_finish(c);
}

void plane_grant_drop(struct plane_session *s, uint64_t lease_id, int reason, plane_done *done,
                      void *arg) {
    struct call *c = call_prepare_of(s, CALL_GRANT, end_grant, done, arg);
    *call_grant(c) = (struct call_grant){.lease_id = lease_id, .reason = reason};
    call_post(c);
}

/* ---- a lessee at a peer ------------------------------------------------------------------ */

static void attach_notifier(struct call *c) {
    const struct call_window_notify *about = call_window_notify(c);
    notifier_attach(c->worker, &about->window->op, about->notifier);
    call_finish(c);
}

void plane_window_notify(struct plane_window *w, uint64_t ref, struct plane_session *owner,
                         uint64_t lease_id) {
    struct op_notifier *n = notifier_new(&owner->op, lease_id);
    if (!n) {
        LOG_LIMITED_OF(log_of_user(owner->op.account->who), ERR,
                       ("out of memory: a lessee of lease %lu cannot notify its owner",
                        (unsigned long)w->op.spec.lease_id));
        return;
    }
    n->ref = ref;
    struct call *c =
        call_prepare(w->plane, w->worker, CALL_WINDOW_NOTIFY, attach_notifier, NULL, NULL);
    *call_window_notify(c) = (struct call_window_notify){.window = w, .notifier = n};
    call_post(c);
}
