/* SPDX-License-Identifier: MIT */
/*
 * grant.c - the owner's side: what a peer's sessions have of our leases.
 *
 * The happy path: ATTACH_REQ is checked (secret or name, scope, count), the data plane opens a
 * window that only this peer's connections can use, the answer carries its key. A revoke sends
 * REVOKED and waits for STOPPED; lease.c closes the window after that, or when its patience ends.
 * RELEASE closes it at once. RENEWED only makes the lessee ask, so another one is not sent before
 * it has: however often an owner renews, it cannot fill the connection that others share.
 *
 * A lease can end while the window opens: the lessee then gets the reason instead of a key. When
 * the connection is lost all windows of the peer are closed without asking, and its links cut.
 * Numbers that name nothing (any more) are ignored: both sides may let go at the same time.
 */
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/peer/internal.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct grant {
    struct peer *peer;
    uint64_t ref; /* in peer->grants */
    uint64_t lessee_ref;
    uint64_t lease_id;
    struct attachment attachment;
    bool opening; /* the data plane owes the key */
    bool told;    /* the lessee has it */
    bool renewed; /* RENEWED is out, the lessee has not asked for how long yet */
    bool gone;    /* out of its reach; only waits for the above */
};

static struct grant *of_attachment(struct attachment *a) {
    return container_of(a, struct grant, attachment);
}

static void grant_free(struct grant *g) {
    struct peer *p = g->peer;
    slots_remove(&p->grants, g->ref);
    free(g);
    liveness_update(p);
    peer_check_free(p);
}

/* ---- what lease.c asks ------------------------------------------------------------------- */

static void stop(struct attachment *a, int reason) {
    struct grant *g = of_attachment(a);
    struct error why;

    if (!g->told) { /* it never will have it */
        attachment_stopped(a);
        return;
    }
    struct peer_msg m = {.type = PEER_MSG_REVOKED,
                         .revoked = {.lessee_ref = g->lessee_ref, .reason = reason}};
    lease_ended_error(g->lease_id, reason, 0, &why);
    memcpy(m.revoked.text, why.text, sizeof(m.revoked.text));
    peer_send(g->peer, &m);
}

static void send_ttl(struct grant *g, uint16_t type) {
    const struct lease *l = g->attachment.lease;
    uint64_t now = state_now(g->peer->peers->state);
    struct peer_msg m = {.type = type,
                         .ttl = {.ref = g->lessee_ref, .ttl_ns = clock_left(now, l->deadline_ns)}};
    peer_send(g->peer, &m);
}

static void renewed(struct attachment *a) {
    struct grant *g = of_attachment(a);
    if (!g->told || g->renewed)
        return;
    g->renewed = true;
    send_ttl(g, PEER_MSG_RENEWED);
}

static void gone(struct attachment *a, int reason) {
    struct grant *g = of_attachment(a);
    (void)reason;
    g->gone = true;
    if (!g->opening)
        grant_free(g);
}

static const struct attachment_ops grant_ops = {.stop = stop, .renewed = renewed, .gone = gone};

/* ---- attach ------------------------------------------------------------------------------ */

static void refuse_attach(struct peer *p, uint64_t lessee_ref, const struct error *why) {
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REP,
                         .attach_rep = {.lessee_ref = lessee_ref, .status = why->code}};
    memcpy(m.attach_rep.text, why->text, sizeof(m.attach_rep.text));
    peer_send(p, &m);
}

static void answer_attach(struct grant *g, const struct fabric_blob *key) {
    const struct lease *l = g->attachment.lease;
    uint64_t now = state_now(g->peer->peers->state);
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REP};
    m.attach_rep = (struct peer_attach_rep){
        .lessee_ref = g->lessee_ref,
        .owner_ref = g->ref,
        .rights = l->terms.rights,
        .lease = l->id,
        .length = l->terms.length,
        .ttl_ns = clock_left(now, l->deadline_ns),
        .key = *key, /* NOLINT: there whenever it went well */
    };
    g->told = true;
    peer_send(g->peer, &m);
}

/* The window is open, or not; the lease may have ended meanwhile. */
static void window_opened(void *arg, const struct error *result, const struct fabric_blob *key) {
    struct grant *g = arg;
    struct attachment *a = &g->attachment;
    struct error why;

    g->opening = false;
    if (g->gone || a->stopping) {
        lease_ended_error(g->lease_id, a->reason, 0, &why);
        refuse_attach(g->peer, g->lessee_ref, &why);
        if (g->gone)
            grant_free(g);
    } else if (result && result->code) {
        refuse_attach(g->peer, g->lessee_ref, result);
        attachment_drop(a);
    } else {
        answer_attach(g, key);
    }
}

static void open_window(struct grant *g) {
    struct state *st = g->peer->peers->state;
    struct attachment *a = &g->attachment;
    const struct lease *l = a->lease;
    struct fabric_window_spec spec = {
        .peer = g->peer->id,
        .base = (char *)l->pool->base + l->terms.offset,
        .length = l->terms.length,
        .rights = l->terms.rights,
        .deadline_ns = l->deadline_ns,
        .lease_id = l->id,
        .audit = &a->audit,
    };
    g->opening = true;
    a->window = plane_window_open(st->plane, &spec, window_opened, g);
    if (!a->window) {
        struct error why;
        error_set(&why, RDMAD_E_NOMEM, "%s has no memory to let one more lessee attach",
                  st->node_name);
        window_opened(g, &why, NULL);
    }
}

static struct grant *grant_new(struct peer *p, struct error *err) {
    struct grant *g = calloc(1, sizeof(*g));
    if (g && (g->ref = slots_add(&p->grants, g))) {
        g->peer = p;
        return g;
    }
    error_set(err, g ? RDMAD_E_LIMIT : RDMAD_E_NOMEM,
              "%s has no room for one more lessee of your daemon: it holds %" PRIu32
              " of at most %u; release some",
              p->peers->state->node_name, p->grants.used, PEER_ATTACHES_MAX);
    free(g);
    return NULL;
}

void grant_attach_req(struct peer *p, const struct peer_attach_req *m) {
    struct lessee who = {.peer = p->id, .address = p->ip};
    struct rdmad_uri uri = {.lease = m->lease};
    struct error err;
    struct lease *l;

    memcpy(uri.key, m->key, sizeof(uri.key));
    memcpy(uri.name, m->name, sizeof(uri.name));
    struct grant *g = grant_new(p, &err);
    if (!g) {
        refuse_attach(p, m->lessee_ref, &err);
        return;
    }
    g->lessee_ref = m->lessee_ref;
    if (lease_find(p->peers->state->leases, &uri, &l, &err) ||
        lease_attach(l, &who, &g->attachment, &grant_ops, &err)) {
        refuse_attach(p, m->lessee_ref, &err);
        grant_free(g);
        return;
    }
    g->lease_id = l->id;
    LOG(DEBUG,
        ("lease %" PRIu64 ": attached from %s, uid %" PRIu32 " there", l->id, p->name, m->uid),
        FIELD_U64("LEASE", l->id), FIELD_U64("PEER", p->id));
    liveness_update(p);
    open_window(g);
}

/* ---- what the lessee says later ----------------------------------------------------------- */

/* One that the lessee can know of. */
static struct grant *find(struct peer *p, uint64_t ref) {
    struct grant *g = slots_get(&p->grants, ref);
    return g && g->told && !g->gone ? g : NULL;
}

void grant_release(struct peer *p, const struct peer_release *m) {
    struct grant *g = find(p, m->owner_ref);
    if (g && m->returned)
        attachment_release(&g->attachment);
    else if (g)
        attachment_drop(&g->attachment);
}

void grant_stopped(struct peer *p, const struct peer_stopped *m) {
    struct grant *g = find(p, m->owner_ref);
    if (g)
        attachment_stopped(&g->attachment);
}

void grant_ttl_req(struct peer *p, const struct peer_ttl *m) {
    struct grant *g = find(p, m->ref);
    if (!g || g->attachment.stopping)
        return;
    g->renewed = false;
    send_ttl(g, PEER_MSG_TTL_REP);
}

/* ---- links ------------------------------------------------------------------------------- */

struct offer {
    struct peer *peer;
    uint64_t ref;
};

static void answer_link(struct peer *p, uint64_t ref, const struct error *why,
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

static void offered(void *arg, const struct error *result, const struct fabric_blob *blob) {
    struct offer *o = arg;
    struct peer *p = o->peer;
    answer_link(p, o->ref, result, blob);
    free(o);
    p->offers--;
    p->holds--;
    peer_check_free(p);
}

void grant_link_req(struct peer *p, const struct peer_link_req *m) {
    struct offer *o = NULL;
    struct error err;

    if (p->grants.used == 0)
        error_set(&err, RDMAD_E_NO_LEASE, "a link needs a lease; the one it was for has ended");
    else if (p->offers >= PEER_OFFERS_MAX)
        error_set(&err, RDMAD_E_LIMIT, "%u links are being offered already, at most %u at a time",
                  p->offers, PEER_OFFERS_MAX);
    else if (!(o = malloc(sizeof(*o))))
        error_set(&err, RDMAD_E_NOMEM, "%s has no memory for a link", p->peers->state->node_name);
    if (!o) {
        answer_link(p, m->ref, &err, NULL);
        return;
    }
    *o = (struct offer){.peer = p, .ref = m->ref};
    p->offers++;
    p->holds++;
    plane_offer(p->peers->state->plane, p->id, &m->hello, offered, o);
}

/* ---- the connection is gone ---------------------------------------------------------------- */

void grants_lost(struct peer *p) {
    uint32_t cursor = 0;
    uint64_t ref;
    struct grant *g;
    while ((g = slots_next(&p->grants, &cursor, &ref))) {
        if (!g->gone)
            attachment_drop(&g->attachment);
    }
}
