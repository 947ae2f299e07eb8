/* SPDX-License-Identifier: MIT */
/*
 * grants.c - who may hear of notifications, as the control thread says.
 */
#include "daemon/op/notify/grant.h"
#include "daemon/op/seam/call.h"

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
