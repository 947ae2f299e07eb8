/* SPDX-License-Identifier: MIT */
/*
 * opening.c - the owner's side: an attach, and the window that is opened for it.
 *
 * The happy path: ATTACH_REQ is checked (secret or name, scope, count), the data plane opens a
 * window that only this peer's connections can use, or only the one named by via, and the answer
 * carries its key. A lessee without a link yet, or with a new one, asks by KEY_REQ, and the window
 * is opened (again) for that link; each of them has one answer. One opening at a time: of the
 * requests that come meanwhile the last one waits, and the others are answered that a later one
 * replaced them.
 *
 * A lease can end while the window opens: the lessee then gets the reason instead of a key.
 */
#include "daemon/peer/owner/opening.h"
#include "daemon/base/audit.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/peer/connect/rights.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/liveness.h"
#include "daemon/state/handle.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Where all atomics have to be the device's, those that came over another fabric would not be
 * atomic with them. */
static uint32_t opening_rights(const struct peer *p, const struct lease *l) {
    bool may = atomics_may_come_over(p->peers->state, p->fabric);
    return l->terms.rights & (may ? ~0u : ~(uint32_t)RDMAD_RIGHT_ATOMIC);
}

static void opening_say_without_atomics(const struct grant *g, char text[RDMAD_TEXT_MAX + 1]) {
    const struct peer *p = g->peer;
    const struct state *st = p->peers->state;
    snprintf(text, RDMAD_TEXT_MAX + 1,
             "lease %" PRIu64 " has no atomics over %s: those of %s are its RDMA device's, and not "
             "atomic with others; reach it over %s for them",
             g->lease_id, peer_fabric(p)->name, st->node_name, plane_fabric(st->plane, 0)->name);
    LOG_LIMITED_OF(peer_log(p), NOTICE, ("%s at %s attached: %s", p->name, p->address, text),
                   FIELD_U64("LEASE", g->lease_id), FIELD_U64("PEER", p->id));
}

static void opening_answer_attach(struct grant *g, const struct fabric_blob *key) {
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
        opening_say_without_atomics(g, m.attach_rep.text);
    grant_set_told(g);
    peer_send(g->peer, &m);
}

static void opening_refuse_key(struct grant *g, uint64_t via, const struct error *why) {
    struct peer_msg m = {.type = PEER_MSG_KEY_REP};
    m.key_rep = (struct peer_key_rep){.lessee_ref = g->lessee_ref, .via = via, .status = why->code};
    memcpy(m.key_rep.text, why->text, sizeof(m.key_rep.text));
    peer_send(g->peer, &m);
}

static void opening_answer_key(struct grant *g, const struct fabric_blob *key) {
    struct peer_msg m = {.type = PEER_MSG_KEY_REP};
    m.key_rep = (struct peer_key_rep){
        .lessee_ref = g->lessee_ref, .via = g->via, .key = *key /* NOLINT: it went well */
    };
    peer_send(g->peer, &m);
}

static void opening_overtaken(struct grant *g, uint64_t via) {
    struct error why;
    error_set(&why, RDMAD_E_CANCELED, "a key for another link was asked for since");
    opening_refuse_key(g, via, &why);
}

static void opening_begin(struct grant *g, uint64_t via);

/* The first answer to the lessee. A link that was gone when the window should be opened for it is
 * no reason to refuse the lease: the lessee asks again with its next one. */
static void opening_settle_attach(struct grant *g, const struct error *result,
                                  const struct fabric_blob *key) {
    static const struct fabric_blob none;
    if (!result || !result->code) {
        opening_answer_attach(g, key);
    } else if (result->code == RDMAD_E_PEER_LOST) {
        opening_answer_attach(g, &none);
    } else {
        grant_refuse(g->peer, g->lessee_ref, result);
        attachment_drop(&g->attachment);
    }
}

static void opening_settle_key(struct grant *g, const struct error *result,
                               const struct fabric_blob *key) {
    uint64_t next = g->next_via;
    g->next_via = 0;
    if (next) {
        opening_overtaken(g, g->via);
        opening_begin(g, next);
    } else if (result && result->code) {
        opening_refuse_key(g, g->via, result);
    } else {
        opening_answer_key(g, key);
    }
}

/* The lease ended while the window opened. */
static void opening_ended_meanwhile(struct grant *g) {
    struct error why;
    lease_ended_error(g->lease_id, g->attachment.reason, 0, &why);
    if (!grant_is_told(g)) {
        grant_refuse(g->peer, g->lessee_ref, &why);
    } else {
        opening_refuse_key(g, g->via, &why);
        if (g->next_via)
            opening_refuse_key(g, g->next_via, &why);
    }
    g->next_via = 0;
    if (grant_is_over(g))
        grant_free(g);
}

/* The window is open, or not. */
static void opening_done(void *arg, const struct error *result, const struct fabric_blob *key) {
    struct grant *g = arg;
    assert(g->opening);
    g->opening = false;
    if (grant_is_over(g) || g->attachment.stage != ATTACHMENT_HELD)
        opening_ended_meanwhile(g);
    else if (grant_is_told(g))
        opening_settle_key(g, result, key);
    else
        opening_settle_attach(g, result, key);
}

static struct plane_window *opening_new_window(struct grant *g) {
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
        .owner = user_id_number(session_user_id(l->owner)),
        .audit = &a->audit,
    };
    const struct plane_window_notify notify = {
        .ref = g->ref, .owner = owner, .lease_id = told ? told->id : 0};
    return plane_window_open(plane, g->peer->fabric, &spec, owner ? &notify : NULL, opening_done,
                             g);
}

/* Opens it, or opens it again, for another link. */
static void opening_begin(struct grant *g, uint64_t via) {
    struct attachment *a = &g->attachment;
    struct error why;
    assert(!g->opening && a->stage == ATTACHMENT_HELD);
    g->opening = true;
    g->via = via;
    if (a->window) {
        plane_window_reopen(a->window, via, opening_done, g);
    } else if (!(a->window = opening_new_window(g))) {
        error_set(&why, RDMAD_E_NOMEM, "%s has no memory to let one more lessee attach",
                  g->peer->peers->state->node_name);
        opening_done(g, &why, NULL);
    }
}

void opening_attached(struct grant *g, const struct lease *l, uint64_t via) {
    struct error err = {.code = RDMAD_E_UNSUPPORTED};
    g->lease_id = l->id;
    g->rights = opening_rights(g->peer, l);
    liveness_update(g->peer);
    if (!(g->rights & ~RDMAD_RIGHT_DELEGATE)) { /* nothing is left to be done with it */
        opening_say_without_atomics(g, err.text);
        grant_refuse(g->peer, g->lessee_ref, &err);
        attachment_drop(&g->attachment);
    } else if ((g->rights & RDMAD_RIGHT_WRITE) && lease_notified(l) && grant_notify(g, &err)) {
        grant_refuse(g->peer, g->lessee_ref, &err);
        attachment_drop(&g->attachment);
    } else if (via)
        opening_begin(g, via);
    else
        opening_answer_attach(g, &(struct fabric_blob){0});
}

void opening_take_attach_req(struct peer *p, const struct peer_msg *msg) {
    const struct peer_attach_req *m = &msg->attach_req;
    struct lessee who = grant_lessee(p, m->lessee_ref);
    struct rdmad_uri uri = {.lease = m->lease};
    struct error err;
    struct lease *l;

    memcpy(uri.key, m->key, sizeof(uri.key));
    memcpy(uri.name, m->name, sizeof(uri.name));
    struct grant *g = grant_new(p, m->lessee_ref, &err);
    if (!g) {
        grant_refuse(p, m->lessee_ref, &err);
        return;
    }
    g->uid = m->uid;
    g->uid_known = true;
    if (rights_to_attach(p, &err) || rights_to_name(p, uri.name, &err) ||
        lease_find(p->peers->state->leases, &uri, &l, &err) ||
        rights_to_name(p, l->terms.name, &err) || grant_open(g, l->terms.length, &err) ||
        lease_attach(l, &who, &g->attachment, &grant_ops, &err)) {
        grant_refuse(p, m->lessee_ref, &err);
        grant_free(g);
        return;
    }
    AUDIT(ATTACHED, "peer", peer_who(p), audit_object("lease", l->id),
          ("lease %" PRIu64 ": attached from %s, uid %" PRIu32 " there", l->id, p->name, m->uid));
    opening_attached(g, l, m->via);
}

void opening_take_key_req(struct peer *p, const struct peer_msg *msg) {
    const struct peer_key_req *m = &msg->key_req;
    struct grant *g = grant_by_ref(p, m->owner_ref);
    struct error why;
    if (!g)
        return;
    if (g->opening) { /* also when the lease is ending: the last asked is the last answered */
        if (g->next_via)
            opening_overtaken(g, g->next_via);
        g->next_via = m->via;
    } else if (g->attachment.stage != ATTACHMENT_HELD) {
        lease_ended_error(g->lease_id, g->attachment.reason, 0, &why);
        opening_refuse_key(g, m->via, &why);
    } else {
        opening_begin(g, m->via);
    }
}
