/* SPDX-License-Identifier: MIT */
/*
 * lend.c - the owner's side of what a lessee may ask beyond an attach: a narrower lease for others,
 * memory of a service's budget, and more time.
 *
 * A request becomes an attach like any other, only that its lease has to be made first, for which
 * its memory is zeroed. When the peer has gone by then, the lease goes at once.
 */
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/peer/owner/grant.h"
#include "daemon/state/budget.h"
#include "daemon/state/delegate.h"
#include "daemon/state/service.h"
#include <inttypes.h>
#include <string.h>

/* ---- a lease of a lease -------------------------------------------------------------------- */

static int delegate(struct peer *p, const struct peer_delegate_req *m, struct lease **out,
                    struct error *err) {
    struct grant *g = peer_grant_find(p, m->owner_ref);
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

void grant_delegate_req(struct peer *p, const struct peer_delegate_req *m) {
    struct peer_msg rep = {.type = PEER_MSG_DELEGATE_REP, .delegate_rep.ref = m->ref};
    struct lease *l;
    struct error err;

    if (delegate(p, m, &l, &err)) {
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

void grant_keep_req(struct peer *p, const struct peer_keep_req *m) {
    struct grant *g = peer_grant_find(p, m->owner_ref);
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

static void granted(void *arg, struct lease *l, const struct error *result) {
    struct grant *g = arg;
    struct lessee who = grant_lessee(g->peer, g->lessee_ref);
    uint64_t via = g->via;
    struct error err = *result;

    g->requesting = false;
    g->peer->requesting--;
    if (l && !g->lost && lease_attach(l, &who, &g->attachment, &grant_ops, &err) == 0) {
        grant_attached(g, l, via);
        return;
    }
    if (!g->lost)
        grant_refuse(g->peer, g->lessee_ref, &err);
    if (l)
        lease_end(l, RDMAD_E_LEASE_RELEASED, NULL, NULL);
    peer_grant_free(g);
}

static int begin(struct grant *g, const struct peer_request_req *m, struct error *err) {
    struct peer *p = g->peer;
    struct budget_ask ask = {.bytes = m->bytes,
                             .ttl_ns = m->ttl_ns,
                             .rights = m->rights,
                             .who = grant_lessee(p, m->lessee_ref),
                             .uid = m->uid,
                             .node = p->name};
    struct service *sv;
    int rc = service_find(p->peers->state, m->service, &sv, err);
    if (rc)
        return rc;
    if (!sv->budget)
        return error_set(err, RDMAD_E_BUDGET, "service \"%s\" gives out no memory", m->service);
    g->requesting = true;
    p->requesting++;
    g->via = m->via;
    LOG(DEBUG,
        ("service \"%s\": %" PRIu64 " bytes are asked for from %s, uid %" PRIu32 " there",
         m->service, m->bytes, p->name, m->uid),
        FIELD_U64("PEER", p->id));
    budget_request(sv->budget, &ask, granted, g);
    return 0;
}

void grant_request_req(struct peer *p, const struct peer_request_req *m) {
    struct error err;
    struct grant *g = peer_grant_new(p, m->lessee_ref, &err);

    if (g && begin(g, m, &err) == 0)
        return;
    grant_refuse(p, m->lessee_ref, &err);
    if (g)
        peer_grant_free(g);
}
