/* SPDX-License-Identifier: MIT */
/*
 * offer.c - the other end of a peer's lanes: links that our workers offer it, and are told to
 * forget.
 *
 * A link needs a lease or a channel that it is for. The offer is the worker's, the peer connects by
 * it. Some fabrics cannot see that the other end has closed its end: LINK_GONE says so.
 */
#include "daemon/peer/lane/offer.h"
#include "daemon/peer/connect/rights.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/tables.h"
#include "daemon/plane/plane.h"
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct offer {
    struct peer *peer;
    uint64_t ref;
};

/* What so many links hold at a device for messages. Those of which it is not known that they are
 * gone count, but no more than the device's fabric lets a peer have. */
static uint64_t offer_bytes(struct peer *p, uint64_t links) {
    const struct state *st = p->peers->state;
    uint64_t most = st->config->verbs_links_per_peer * plane_workers(st->plane);
    return peer_fabric(p)->target_bytes * (links < most ? links : most);
}

static uint64_t offer_links(struct peer *p) {
    const struct peer_tables *t = tables_of(p);
    return t->offers + t->links + t->forgets;
}

/* They count for its name as what it has opened. */
static void offer_count(struct peer *p) {
    struct peer_tables *t = tables_of(p);
    uint64_t bytes = offer_bytes(p, offer_links(p));
    p->opened_bytes += bytes - t->link_bytes;
    t->link_bytes = bytes;
}

static int offer_fits(struct peer *p, struct error *err) {
    uint64_t more = offer_bytes(p, offer_links(p) + 1) - tables_of(p)->link_bytes;
    return more ? rights_to_open(p, more, err) : 0;
}

static void offer_answer(struct peer *p, uint64_t ref, const struct error *why,
                         const struct fabric_blob *blob) {
    struct peer_msg m = {.type = PEER_MSG_LINK_REP, .link_rep.ref = ref};
    if (why && why->code) {
        m.link_rep.status = why->code;
        memcpy(m.link_rep.text, why->text, sizeof(m.link_rep.text));
    } else {
        m.link_rep.offer = *blob; /* NOLINT: there whenever it went well */
    }
    peer_send(p, &m);
}

static void offer_made(void *arg, const struct error *result, const struct fabric_blob *blob) {
    struct offer *o = arg;
    struct peer *p = o->peer;
    struct peer_tables *t = tables_of(p);
    t->links += !result || !result->code;
    offer_answer(p, o->ref, result, blob);
    free(o);
    assert(t->offers);
    t->offers--;
    offer_count(p);
    peer_release(p);
}

void offer_take_link_req(struct peer *p, const struct peer_msg *msg) {
    const struct peer_link_req *m = &msg->link_req;
    struct plane *plane = p->peers->state->plane;
    struct peer_tables *t = tables_of(p);
    struct offer *o = NULL;
    struct error err;

    assert(!p->outgoing);
    if (!peer_is_relied_on(p))
        error_set(&err, RDMAD_E_NO_LEASE,
                  "a link needs a lease or a channel; what it was for has ended");
    else if (m->worker != PEER_ANY_WORKER && m->worker >= plane_workers(plane))
        error_set(&err, RDMAD_E_INVAL, "there is no worker %" PRIu32 " here, only %u", m->worker,
                  plane_workers(plane));
    else if (t->offers >= PEER_OFFERS_MAX)
        error_set(&err, RDMAD_E_LIMIT, "%u links are being offered already, at most %u at a time",
                  t->offers, PEER_OFFERS_MAX);
    else if (offer_fits(p, &err) == 0 && !(o = malloc(sizeof(*o))))
        error_set(&err, RDMAD_E_NOMEM, "%s has no memory for a link", p->peers->state->node_name);
    if (!o) {
        offer_answer(p, m->ref, &err, NULL);
        return;
    }
    *o = (struct offer){.peer = p, .ref = m->ref};
    t->offers++;
    offer_count(p);
    peer_hold(p);
    plane_offer_on(plane, p->fabric,
                   m->worker == PEER_ANY_WORKER ? plane_worker_of_peer(plane, p->id) : m->worker,
                   p->id, p->secured, &m->hello, offer_made, o);
}

static void offer_forgotten(void *arg, const struct error *result) {
    struct peer *p = arg;
    (void)result;
    tables_of(p)->forgets--;
    offer_count(p);
    peer_release(p);
}

/* No more are told to the data plane than were offered, however many the peer names; if it names a
 * wrong one it harms only itself. */
void offer_take_link_gone(struct peer *p, const struct peer_msg *msg) {
    const struct peer_link_gone *m = &msg->link_gone;
    struct peer_tables *t = tables_of(p);
    if (!t->links || t->forgets >= PEER_FORGETS_MAX)
        return;
    t->links--;
    t->forgets++;
    peer_hold(p);
    plane_forget(p->peers->state->plane, p->fabric, p->id, m->via, offer_forgotten, p);
}
