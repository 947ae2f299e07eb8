/* SPDX-License-Identifier: MIT */
/*
 * grant.c - the owner's side: what a peer's sessions have of our leases.
 *
 * The happy path: ATTACH_REQ is checked (secret or name, scope, count), the data plane opens a
 * window that only this peer's connections can use, or only the one named by via, and the answer
 * carries its key. A lessee without a link yet, or with a new one, asks by KEY_REQ, and the window
 * is opened (again) for that link; each of them has one answer. One opening at a time: of those
 * that come meanwhile the last one waits, the others are answered as overtaken.
 *
 * A revoke sends REVOKED and waits for STOPPED; lease.c closes the window after that, or when its
 * patience ends. RELEASE closes it at once. RENEWED only makes the lessee ask, so another one is
 * not sent before it has: however often an owner renews, it cannot fill the connection that others
 * share.
 *
 * A lease can end while the window opens: the lessee then gets the reason instead of a key. When
 * the connection is lost all windows of the peer are closed without asking, and its links cut.
 * Numbers that name nothing (any more) are ignored: both sides may let go at the same time.
 */
#include "daemon/peer/owner/grant.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct grant *of_attachment(struct attachment *a) {
    return container_of(a, struct grant, attachment);
}

void peer_grant_free(struct grant *g) {
    struct peer *p = g->peer;
    slots_remove(&p->grants, g->slot);
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
    if (!a->window) /* nothing that it could still reach, so nothing to wait for */
        attachment_stopped(a);
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

/* The answer to a RELEASE that hands over: what REVOKED says otherwise by itself. */
static void tell_handed(struct grant *g) {
    struct peer_msg m = {
        .type = PEER_MSG_REVOKED,
        .revoked = {.lessee_ref = g->lessee_ref, .reason = RDMAD_E_LEASE_RELEASED}};
    snprintf(m.revoked.text, sizeof(m.revoked.text), "lease %" PRIu64 " was handed over",
             g->lease_id);
    peer_send(g->peer, &m);
}

static void gone(struct attachment *a, int reason) {
    struct grant *g = of_attachment(a);
    (void)reason;
    g->gone = true;
    if (g->handed)
        tell_handed(g);
    if (!g->opening)
        peer_grant_free(g);
}

const struct attachment_ops grant_ops = {.stop = stop, .renewed = renewed, .gone = gone};

/* ---- attach ------------------------------------------------------------------------------ */

void grant_refuse(struct peer *p, uint64_t lessee_ref, const struct error *why) {
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REP,
                         .attach_rep = {.lessee_ref = lessee_ref, .status = why->code}};
    memcpy(m.attach_rep.text, why->text, sizeof(m.attach_rep.text));
    peer_send(p, &m);
}

/* Where all atomics have to be the device's, those that came over another fabric would not be
 * atomic with them. */
static uint32_t rights_of(const struct peer *p, const struct lease *l) {
    bool may = atomics_may_come_over(p->peers->state, p->fabric);
    return l->terms.rights & (may ? ~0u : ~(uint32_t)RDMAD_RIGHT_ATOMIC);
}

static void say_without_atomics(const struct grant *g, char text[RDMAD_TEXT_MAX + 1]) {
    const struct peer *p = g->peer;
    const struct state *st = p->peers->state;
    snprintf(text, RDMAD_TEXT_MAX + 1,
             "lease %" PRIu64 " has no atomics over %s: those of %s are its RDMA device's, and not "
             "atomic with others; reach it over %s for them",
             g->lease_id, peer_fabric(p)->name, st->node_name, plane_fabric(st->plane, 0)->name);
    LOG_LIMITED(NOTICE, ("%s at %s attached: %s", p->name, p->address, text),
                FIELD_U64("LEASE", g->lease_id), FIELD_U64("PEER", p->id));
}

static void answer_attach(struct grant *g, const struct fabric_blob *key) {
    const struct lease *l = g->attachment.lease;
    uint64_t now = state_now(g->peer->peers->state);
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REP};
    m.attach_rep = (struct peer_attach_rep){
        .lessee_ref = g->lessee_ref,
        .owner_ref = g->ref,
        .rights = g->rights,
        .lease = l->id,
        .length = l->terms.length,
        .ttl_ns = clock_left(now, l->deadline_ns),
        .key = *key, /* NOLINT: there whenever it went well */
    };
    if (g->rights != l->terms.rights)
        say_without_atomics(g, m.attach_rep.text);
    g->told = true;
    peer_send(g->peer, &m);
}

static void refuse_key(struct grant *g, uint64_t via, const struct error *why) {
    struct peer_msg m = {.type = PEER_MSG_KEY_REP};
    m.key_rep = (struct peer_key_rep){.lessee_ref = g->lessee_ref, .via = via, .status = why->code};
    memcpy(m.key_rep.text, why->text, sizeof(m.key_rep.text));
    peer_send(g->peer, &m);
}

static void answer_key(struct grant *g, const struct fabric_blob *key) {
    struct peer_msg m = {.type = PEER_MSG_KEY_REP};
    m.key_rep = (struct peer_key_rep){
        .lessee_ref = g->lessee_ref, .via = g->via, .key = *key /* NOLINT: it went well */
    };
    peer_send(g->peer, &m);
}

static void overtaken(struct grant *g, uint64_t via) {
    struct error why;
    error_set(&why, RDMAD_E_CANCELED, "a key for another link was asked for since");
    refuse_key(g, via, &why);
}

static void open_window(struct grant *g, uint64_t via);

/* The first answer to the lessee. A link that was gone when the window should be opened for it is
 * no reason to refuse the lease: the lessee asks again with its next one. */
static void attach_settled(struct grant *g, const struct error *result,
                           const struct fabric_blob *key) {
    static const struct fabric_blob none;
    if (!result || !result->code) {
        answer_attach(g, key);
    } else if (result->code == RDMAD_E_PEER_LOST) {
        answer_attach(g, &none);
    } else {
        grant_refuse(g->peer, g->lessee_ref, result);
        attachment_drop(&g->attachment);
    }
}

static void key_settled(struct grant *g, const struct error *result,
                        const struct fabric_blob *key) {
    uint64_t next = g->next_via;
    g->next_via = 0;
    if (next) {
        overtaken(g, g->via);
        open_window(g, next);
    } else if (result && result->code) {
        refuse_key(g, g->via, result);
    } else {
        answer_key(g, key);
    }
}

/* The lease ended while the window opened. */
static void ended_meanwhile(struct grant *g) {
    struct error why;
    lease_ended_error(g->lease_id, g->attachment.reason, 0, &why);
    if (!g->told) {
        grant_refuse(g->peer, g->lessee_ref, &why);
    } else {
        refuse_key(g, g->via, &why);
        if (g->next_via)
            refuse_key(g, g->next_via, &why);
    }
    g->next_via = 0;
    if (g->gone)
        peer_grant_free(g);
}

/* The window is open, or not. */
static void window_opened(void *arg, const struct error *result, const struct fabric_blob *key) {
    struct grant *g = arg;
    g->opening = false;
    if (g->gone || g->attachment.stage != ATTACHMENT_HELD)
        ended_meanwhile(g);
    else if (g->told)
        key_settled(g, result, key);
    else
        attach_settled(g, result, key);
}

static struct plane_window *new_window(struct grant *g) {
    struct plane *plane = g->peer->peers->state->plane;
    struct attachment *a = &g->attachment;
    const struct lease *l = a->lease;
    const struct lease *told = lease_notified(l);
    struct plane_session *owner = told ? l->owner->plane : NULL;
    struct fabric_window_spec spec = {
        .peer = g->peer->id,
        .via = g->via,
        .base = (char *)l->pool->base + l->terms.offset,
        .memory = l->pool->memory,
        .length = l->terms.length,
        .rights = g->rights & ~RDMAD_RIGHT_DELEGATE, /* the rest is no fabric's business */
        .deadline_ns = l->deadline_ns,
        .lease_id = l->id,
        .audit = &a->audit,
    };
    struct plane_window *window =
        plane_window_open(plane, g->peer->fabric, &spec, window_opened, g);
    if (window && owner)
        plane_window_notify(window, g->ref, owner, told->id);
    return window;
}

/* Opens it, or opens it again, for another link. */
static void open_window(struct grant *g, uint64_t via) {
    struct attachment *a = &g->attachment;
    struct error why;
    g->opening = true;
    g->via = via;
    if (a->window) {
        plane_window_reopen(a->window, via, window_opened, g);
    } else if (!(a->window = new_window(g))) {
        error_set(&why, RDMAD_E_NOMEM, "%s has no memory to let one more lessee attach",
                  g->peer->peers->state->node_name);
        window_opened(g, &why, NULL);
    }
}

/* The worker of a lease's window tells lessees apart by it, and has more than one peer's: the
 * connection's number, which is not used again in a long time, then the place in its table and how
 * often that was used. */
static uint64_t ref_of(const struct peer *p, uint64_t slot) {
    return p->id << 40 | (slot >> 32 & 0xffffff) << 16 | (slot & 0xffff);
}

struct grant *peer_grant_new(struct peer *p, uint64_t lessee_ref, struct error *err) {
    struct grant *g = calloc(1, sizeof(*g));
    if (g && (g->slot = slots_add(&p->grants, g))) {
        g->peer = p;
        g->ref = ref_of(p, g->slot);
        g->lessee_ref = lessee_ref;
        return g;
    }
    error_set(err, g ? RDMAD_E_LIMIT : RDMAD_E_NOMEM,
              "%s has no room for one more lessee of your daemon: it holds %" PRIu32
              " of at most %u; release some",
              p->peers->state->node_name, p->grants.used, p->grants.max);
    free(g);
    return NULL;
}

struct lessee grant_lessee(struct peer *p, uint64_t lessee_ref) {
    struct peer *self = peer_other_end(p);
    return (struct lessee){
        .session = self ? claim_session(self, lessee_ref) : NULL, .peer = p->id, .address = p->ip};
}

void grant_attached(struct grant *g, const struct lease *l, uint64_t via) {
    struct error err = {.code = RDMAD_E_UNSUPPORTED};
    g->lease_id = l->id;
    g->rights = rights_of(g->peer, l);
    liveness_update(g->peer);
    if (!(g->rights & ~RDMAD_RIGHT_DELEGATE)) { /* nothing is left to be done with it */
        say_without_atomics(g, err.text);
        grant_refuse(g->peer, g->lessee_ref, &err);
        attachment_drop(&g->attachment);
    } else if (via)
        open_window(g, via);
    else
        answer_attach(g, &(struct fabric_blob){0});
}

void grant_attach_req(struct peer *p, const struct peer_attach_req *m) {
    struct lessee who = grant_lessee(p, m->lessee_ref);
    struct rdmad_uri uri = {.lease = m->lease};
    struct error err;
    struct lease *l;

    memcpy(uri.key, m->key, sizeof(uri.key));
    memcpy(uri.name, m->name, sizeof(uri.name));
    struct grant *g = peer_grant_new(p, m->lessee_ref, &err);
    if (!g) {
        grant_refuse(p, m->lessee_ref, &err);
        return;
    }
    if (lease_find(p->peers->state->leases, &uri, &l, &err) ||
        lease_attach(l, &who, &g->attachment, &grant_ops, &err)) {
        grant_refuse(p, m->lessee_ref, &err);
        peer_grant_free(g);
        return;
    }
    LOG(DEBUG,
        ("lease %" PRIu64 ": attached from %s, uid %" PRIu32 " there", l->id, p->name, m->uid),
        FIELD_U64("LEASE", l->id), FIELD_U64("PEER", p->id));
    grant_attached(g, l, m->via);
}

/* ---- what the lessee says later ----------------------------------------------------------- */

struct grant *peer_grant_find(struct peer *p, uint64_t ref) {
    uint32_t index = ref & 0xffff;
    struct grant *g = index < p->grants.size ? p->grants.slot[index].ptr : NULL;
    return g && g->ref == ref && g->told && !g->gone ? g : NULL;
}

void grant_key_req(struct peer *p, const struct peer_key_req *m) {
    struct grant *g = peer_grant_find(p, m->owner_ref);
    struct error why;
    if (!g)
        return;
    if (g->opening) { /* also when the lease is ending: the last asked is the last answered */
        if (g->next_via)
            overtaken(g, g->next_via);
        g->next_via = m->via;
    } else if (g->attachment.stage != ATTACHMENT_HELD) {
        lease_ended_error(g->lease_id, g->attachment.reason, 0, &why);
        refuse_key(g, m->via, &why);
    } else {
        open_window(g, m->via);
    }
}

void grant_release(struct peer *p, const struct peer_release *m) {
    struct grant *g = peer_grant_find(p, m->owner_ref);
    if (!g)
        return;
    if (m->returned == 2) {
        g->handed = g->attachment.stage ==
                    ATTACHMENT_HELD; /* else REVOKED is on its way, and says why not */
        if (!g->attachment.lease->requested)
            peer_refuse(p, RDMAD_E_PROTOCOL, "lease %" PRIu64 " was not requested", g->lease_id);
        else
            attachment_hand_over(&g->attachment); /* may free g */
    } else if (m->returned) {
        attachment_release(&g->attachment);
    } else {
        attachment_drop(&g->attachment);
    }
}

void grant_used(struct peer *p, const struct peer_used *m) {
    struct grant *g = peer_grant_find(p, m->owner_ref);
    if (g)
        attachment_said(&g->attachment, &(struct lease_said){.bytes_read = m->bytes_read,
                                                             .bytes_written = m->bytes_written,
                                                             .ops = m->ops});
}

void grant_stopped(struct peer *p, const struct peer_stopped *m) {
    struct grant *g = peer_grant_find(p, m->owner_ref);
    if (g)
        attachment_stopped(&g->attachment);
}

void grant_ttl_req(struct peer *p, const struct peer_ttl *m) {
    struct grant *g = peer_grant_find(p, m->ref);
    if (!g || g->attachment.stage != ATTACHMENT_HELD)
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
    p->links += !result || !result->code;
    answer_link(p, o->ref, result, blob);
    free(o);
    p->offers--;
    p->holds--;
    peer_check_free(p);
}

void grant_link_req(struct peer *p, const struct peer_link_req *m) {
    struct plane *plane = p->peers->state->plane;
    struct offer *o = NULL;
    struct error err;

    if (p->grants.used == 0 && list_empty(&p->chans_in))
        error_set(&err, RDMAD_E_NO_LEASE,
                  "a link needs a lease or a channel; what it was for has ended");
    else if (m->worker != PEER_ANY_WORKER && m->worker >= plane_workers(plane))
        error_set(&err, RDMAD_E_INVAL, "there is no worker %" PRIu32 " here, only %u", m->worker,
                  plane_workers(plane));
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
    plane_offer_on(plane, p->fabric,
                   m->worker == PEER_ANY_WORKER ? plane_worker_of_peer(plane, p->id) : m->worker,
                   p->id, &m->hello, offered, o);
}

static void forgotten(void *arg, const struct error *result) {
    struct peer *p = arg;
    (void)result;
    p->forgets--;
    p->holds--;
    peer_check_free(p);
}

/* Of links that were never offered nothing is to be forgotten, and the data plane hears nothing. Of
 * those that were, one LINK_GONE each is heard; whose number it names is the peer's business. */
void grant_link_gone(struct peer *p, const struct peer_link_gone *m) {
    if (!p->links || p->forgets >= PEER_FORGETS_MAX)
        return;
    p->links--;
    p->forgets++;
    p->holds++;
    plane_forget(p->peers->state->plane, p->fabric, p->id, m->via, forgotten, p);
}

/* ---- the connection is gone ---------------------------------------------------------------- */

void grants_lost(struct peer *p) {
    uint32_t cursor = 0;
    uint64_t ref;
    struct grant *g;
    while ((g = slots_next(&p->grants, &cursor, &ref))) {
        if (g->requesting)
            g->lost = true;
        else if (!g->gone)
            attachment_drop(&g->attachment);
    }
}
