/* SPDX-License-Identifier: MIT */
/*
 * attach.c - our sessions attach to a peer's leases: asked, granted, refused.
 *
 * The happy path: peer_attach makes a claim on a peer that is UP or being dialled; ATTACH_REQ;
 * the answer has the owner's number of it, key and duration; a lane of the session (lane.h), and
 * the key again if it is not good there (key.h); the handle becomes the data plane's; whoever asked
 * is told. Later REVOKED ends the handle (told.h), and when it has drained STOPPED is the answer;
 * or the session gives it back, which is RELEASE (claim.h).
 */
#include "daemon/peer/lessee/attach.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/peer/connect/dial.h"
#include "daemon/peer/connect/own_address.h"
#include "daemon/peer/control/admit.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/liveness.h"
#include "daemon/peer/lessee/claim.h"
#include "daemon/peer/lessee/key.h"
#include "daemon/peer/lessee/return.h"
#include "daemon/peer/tables.h"
#include <assert.h>
#include <string.h>

/* ---- what is asked ------------------------------------------------------------------------- */

static void attach_send_request(struct claim *c) {
    struct peer_msg m = {.type = PEER_MSG_REQUEST_REQ};
    c->via = lane_number_for(c->peer, c->handle->session);
    m.request_req = (struct peer_request_req){.lessee_ref = c->ref,
                                              .bytes = c->request.bytes,
                                              .ttl_ns = c->request.ttl_ns,
                                              .rights = c->request.rights,
                                              .uid = c->user.uid,
                                              .via = c->via};
    memcpy(m.request_req.service, c->uri.name, sizeof(m.request_req.service));
    c->asked_ns = state_now(claim_state_of(c));
    peer_send(c->peer, &m);
}

static void attach_ask(struct claim *c) {
    claim_enter(c, CLAIM_ASKED);
    if (c->requested)
        attach_send_request(c);
    else
        claim_send_attach(c);
}

/* The lease is this daemon's own, under another name: attaches to it here. False: it is reached by
 * link only, or cannot be found; then the other end says so. */
static bool attach_become_local(struct claim *c) {
    struct leases *ls = claim_state_of(c)->leases;
    struct session_waiter done = c->done;
    struct handle *h = c->handle;
    struct rdmad_uri uri = c->uri;
    struct error err;
    struct lease *l;

    if (h->session->closing || c->requested || lease_find(ls, &uri, &l, &err) ||
        handle_goes_by_link(claim_state_of(c), l->terms.rights))
        return false;
    h->ops = NULL;
    claim_free(c);
    if (handle_attach_local(h, l, done.done, done.arg, &err) == 0)
        return true;
    handle_free(h);
    done.done(done.arg, &err);
    return true;
}

/* want says which handle, of what, and for how long it may take. */
static void attach_claim(struct peers *ps, const struct claim *want, plane_done *done, void *arg) {
    struct handle *h = want->handle;
    struct rdmad_uri uri = want->uri;
    struct claim *c = NULL;
    struct peer *p;
    struct error err;

    if (peers_is_self(ps, &uri))
        own_address_dialled(ps, uri.host, &uri.port);
    if (!peer_dial(ps, uri.host, uri.port, session_user_id(h->session), &p, &err) &&
        !admit_session(p, h->session, &err))
        c = claim_new(p, h, &uri, want->timeout_ns, &err);
    if (!c) {
        handle_free(h);
        done(arg, &err);
        return;
    }
    c->requested = want->requested;
    c->request = want->request;
    c->done = (struct session_waiter){done, arg};
    claim_give_handle(c);
    key_start(c);
    liveness_update(p);
    if (p->stage == PEER_UP && !(p->is_self && attach_become_local(c)))
        attach_ask(c);
}

void peer_attach(struct peers *ps, struct handle *h, const struct rdmad_uri *uri,
                 uint64_t timeout_ns, plane_done *done, void *arg) {
    struct claim want = {.handle = h, .uri = *uri, .timeout_ns = timeout_ns};
    attach_claim(ps, &want, done, arg);
}

void peer_request(struct peers *ps, struct handle *h, const struct rdmad_uri *uri,
                  const struct request_terms *terms, uint64_t timeout_ns, plane_done *done,
                  void *arg) {
    struct claim want = {
        .handle = h, .uri = *uri, .timeout_ns = timeout_ns, .requested = true, .request = *terms};
    attach_claim(ps, &want, done, arg);
}

/* ---- the answer -------------------------------------------------------------------------- */

static void attach_granted(struct claim *c, const struct peer_attach_rep *m) {
    struct error err;
    if (m->text[0]) /* which right it does not have here */
        LOG_LIMITED_OF(peer_log(c->peer), NOTICE, ("%s", m->text), FIELD_U64("PEER", c->peer->id));
    claim_enter(c, CLAIM_LINKING);
    c->owner_ref = m->owner_ref;
    c->spec = (struct plane_lease_spec){
        .lease_id = m->lease,
        .length = m->length,
        .rights = m->rights,
        .deadline_ns = clock_after(c->asked_ns, m->ttl_ns),
        .key = m->key,
        .audit = &c->handle->attachment.audit,
        .notify_ref = c->requested ? 0 : m->owner_ref, /* its owner takes none */
    };
    if (claim_is_closing(c))
        return;
    struct lane *lane = lane_of(c->peer, c->handle->session, PEER_ANY_WORKER, &err);
    if (!lane) {
        claim_fail(c, &err);
        return;
    }
    c->lane = lane;
    lane_relied_on(lane);
    lane_join(lane, &c->lane_user);
}

void attach_take_rep(struct peer *p, const struct peer_msg *msg) {
    const struct peer_attach_rep *m = &msg->attach_rep;
    struct claim *c = claim_find(p, m->lessee_ref);
    struct error why = {.code = m->status};

    if (c && c->stage == CLAIM_ASKED_AGAIN) {
        return_take(c, m);
    } else if (!c || (c->stage != CLAIM_ASKED && c->stage != CLAIM_ABANDONED)) {
        peer_refuse(p, RDMAD_E_PROTOCOL, "an answer to an attach that nobody waits for");
    } else if (c->stage == CLAIM_ABANDONED) {
        c->owner_ref = m->owner_ref;
        if (m->status == RDMAD_OK)
            claim_send_release(c, PEER_NOT_RETURNED);
        claim_free(c);
    } else if (m->status == RDMAD_OK) {
        attach_granted(c, m);
    } else {
        memcpy(why.text, m->text, sizeof(why.text));
        claim_enter(c, CLAIM_REFUSED);
        claim_fail(c, &why);
    }
}

/* ---- what becomes of all of a peer ---------------------------------------------------------- */

void claims_begin(struct peer *p) {
    uint32_t cursor = 0;
    uint64_t ref;
    struct claim *c;
    struct error why;
    assert(p->stage == PEER_UP);
    while ((c = slots_next(&tables_of(p)->claims, &cursor, &ref))) {
        if (c->stage != CLAIM_WAITING)
            continue;
        if (admit_session(p, c->handle->session, &why))
            claim_fail(c, &why);
        else
            attach_ask(c);
    }
    return_ask_all(p);
    liveness_update(p);
}

void claims_become_local(struct peer *p) {
    uint32_t cursor = 0;
    uint64_t ref;
    struct claim *c;
    while ((c = slots_next(&tables_of(p)->claims, &cursor, &ref)))
        if (c->stage == CLAIM_WAITING) /* else it was lost, and has a handle that goes by link */
            attach_become_local(c);
}

void claims_lose(struct peer *p, const struct error *why) {
    struct error lost = *why;
    uint32_t cursor = 0;
    uint64_t ref;
    struct claim *c;

    assert(p->stage == PEER_LOST);
    if (lost.code == RDMAD_OK)
        lost.code = RDMAD_E_PEER_LOST;
    while ((c = slots_next(&tables_of(p)->claims, &cursor, &ref))) {
        if (c->stage == CLAIM_ABANDONED)
            claim_free(c);
        else if (c->stage == CLAIM_HANDING)
            claim_handed(c, &lost);
        else if (!claim_is_attached(c))
            claim_fail(c, &lost);
        else if (!return_claim(c, &lost))
            handle_end(c->handle, RDMAD_E_PEER_LOST, lost.text);
    }
    return_begin(p);
}
