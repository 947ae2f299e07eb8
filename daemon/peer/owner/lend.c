/* SPDX-License-Identifier: MIT */
/*
 * lend.c - the owner's side of what a lessee may ask beyond an attach: a narrower lease for others,
 * memory of a service's budget, and more time.
 *
 * A request becomes an attach like any other, only that its lease has to be made first, for which
 * its memory is zeroed. When the peer has gone by then, the lease goes at once.
 */
#include "daemon/peer/owner/lend.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/peer/connect/rights.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/owner/opening.h"
#include "daemon/state/budget.h"
#include "daemon/state/delegate.h"
#include "daemon/state/service.h"
#include <inttypes.h>
#include <string.h>

/* ---- a lease of a lease -------------------------------------------------------------------- */

static int lend_part(struct peer *p, const struct peer_delegate_req *m, struct lease **out,
                     struct error *err) {
    struct grant *g = grant_by_ref(p, m->owner_ref);
    struct lease_part part = {.offset = m->offset,
                              .length = m->length,
                              .ttl_ns = m->ttl_ns,
                              .rights = m->rights,
                              .max_attaches = m->max_attaches};
    if (!g)
        return error_set(err, RDMAD_E_NO_LEASE, "the lease is not attached to any more");
    if (g->attachment.stage != ATTACHMENT_HELD)
        return lease_ended_error(g->lease_id, g->attachment.reason, 0, err);
    return lease_delegate(g->attachment.lease, &part, out, err);
}

void lend_take_delegate_req(struct peer *p, const struct peer_msg *msg) {
    const struct peer_delegate_req *m = &msg->delegate_req;
    struct peer_msg rep = {.type = PEER_MSG_DELEGATE_REP, .delegate_rep.ref = m->ref};
    struct lease *l;
    struct error err;

    if (lend_part(p, m, &l, &err)) {
        rep.delegate_rep.status = err.code;
        memcpy(rep.delegate_rep.text, err.text, sizeof(rep.delegate_rep.text));
    } else {
        rep.delegate_rep.lease = l->id; /* NOLINT: whatever ended has a reason */
        rep.delegate_rep.ttl_ns = clock_left(state_now(l->state), l->deadline_ns);
        memcpy(rep.delegate_rep.key, l->key, sizeof(rep.delegate_rep.key));
    }
    peer_send(p, &rep);
}

/* ---- more time ----------------------------------------------------------------------------- */

void lend_take_keep_req(struct peer *p, const struct peer_msg *msg) {
    const struct peer_keep_req *m = &msg->keep_req;
    struct grant *g = grant_by_ref(p, m->owner_ref);
    struct peer_msg rep = {.type = PEER_MSG_KEEP_REP};
    struct error err;

    if (!g || g->attachment.stage != ATTACHMENT_HELD)
        return; /* REVOKED is on its way */
    rep.keep_rep.lessee_ref = g->lessee_ref;
    if (lease_keep(g->attachment.lease, &err)) {
        rep.keep_rep.status = err.code;
        memcpy(rep.keep_rep.text, err.text, sizeof(rep.keep_rep.text));
    }
    peer_send(p, &rep);
}

/* ---- a request ----------------------------------------------------------------------------- */

static void lend_granted(void *arg, struct lease *l, const struct error *result) {
    struct grant *g = arg;
    struct lessee who = grant_lessee(g->peer, g->lessee_ref);
    uint64_t via = g->via;
    struct error err = *result;

    bool wanted = grant_end_await(g);
    if (l && wanted && grant_open(g, l->terms.length, &err) == 0 &&
        lease_attach(l, &who, &g->attachment, &grant_ops, &err) == 0) {
        opening_attached(g, l, via);
        return;
    }
    if (wanted)
        grant_refuse(g->peer, g->lessee_ref, &err);
    if (l)
        lease_end(l, RDMAD_E_LEASE_RELEASED, NULL, NULL);
    grant_free(g);
}

static int lend_begin(struct grant *g, const struct peer_request_req *m, struct error *err) {
    struct peer *p = g->peer;
    struct budget_ask ask = {.bytes = m->bytes,
                             .ttl_ns = m->ttl_ns,
                             .rights = m->rights,
                             .who = grant_lessee(p, m->lessee_ref),
                             .uid = m->uid,
                             .node = p->name};
    struct service *sv;
    int rc;
    if ((rc = rights_to_attach(p, err)) || (rc = rights_to_name(p, m->service, err)) ||
        (rc = service_find(p->peers->state, m->service, &sv, err)) ||
        (rc = grant_open(g, m->bytes, err)))
        return rc;
    if (!sv->budget)
        return error_set(err, RDMAD_E_BUDGET, "service \"%s\" gives out no memory", m->service);
    grant_await_lease(g);
    g->via = m->via;
    LOG_LIMITED_OF(peer_log(p), DEBUG,
                   ("service \"%s\": %" PRIu64 " bytes are asked for from %s, uid %" PRIu32
                    " there",
                    m->service, m->bytes, p->name, m->uid),
                   FIELD_U64("PEER", p->id));
    budget_request(sv->budget, &ask, lend_granted, g);
    return 0;
}

void lend_take_request_req(struct peer *p, const struct peer_msg *msg) {
    const struct peer_request_req *m = &msg->request_req;
    struct error err;
    struct grant *g = grant_new(p, m->lessee_ref, &err);

    if (g && lend_begin(g, m, &err) == 0)
        return;
    grant_refuse(p, m->lessee_ref, &err);
    if (g)
        grant_free(g);
}
