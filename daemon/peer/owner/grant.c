/* SPDX-License-Identifier: MIT */
/*
 * grant.c - the owner's side: what a peer's sessions have of our leases, and what their daemon says
 * of it later.
 *
 * A revoke sends REVOKED and waits for STOPPED; state/lease.c closes the window after that, or when
 * lease.revoke_grace_ms are over. RELEASE closes it at once. RENEWED only makes the lessee ask, so
 * another one is not sent before it has: however often an owner renews, it cannot fill the
 * connection that others share.
 *
 * When the connection is lost all windows of the peer are closed without asking, and its links cut.
 * Numbers that name nothing (any more) are ignored: both sides may let go at the same time.
 */
#include "daemon/peer/owner/grant.h"
#include "daemon/base/audit.h"
#include "daemon/base/audit_cause.h"
#include "daemon/base/clock.h"
#include "daemon/peer/connect/rights.h"
#include "daemon/peer/connect/self.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/liveness.h"
#include "daemon/peer/lessee/claim.h"
#include "daemon/peer/tables.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct grant *grant_of(struct attachment *a) {
    return container_of(a, struct grant, attachment);
}

int grant_open(struct grant *g, uint64_t bytes, struct error *err) {
    struct peer *p = g->peer;
    p->opened_bytes -= g->opened;
    g->opened = 0;
    if (rights_to_open(p, bytes, err))
        return err->code;
    p->opened_bytes += bytes;
    g->opened = bytes;
    return 0;
}

int grant_notify(struct grant *g, struct error *err) {
    struct peer *p = g->peer;
    assert(!g->notifications);
    if (rights_to_notify(p, err))
        return err->code;
    p->notifications += RDMAD_NOTIFY_DEPTH;
    g->notifications = RDMAD_NOTIFY_DEPTH;
    return 0;
}

void grant_free(struct grant *g) {
    struct peer *p = g->peer;
    p->opened_bytes -= g->opened;
    p->notifications -= g->notifications;
    p->attaches--;
    assert(!g->opening && g->stage != GRANT_REQUESTED && g->stage != GRANT_ORPHANED);
    slots_remove(&tables_of(p)->grants, g->slot);
    peer_unneed(p, PEER_NEED_ACCESS);
    free(g);
    liveness_update(p);
    peer_check_free(p);
}

/* ---- its stages ---------------------------------------------------------------------------- */

static void grant_enter(struct grant *g, enum grant_stage stage) {
    static const unsigned from[] = {
        [GRANT_REQUESTED] = 1u << GRANT_UNTOLD,
        [GRANT_ORPHANED] = 1u << GRANT_REQUESTED,
        [GRANT_UNTOLD] = 1u << GRANT_REQUESTED | 1u << GRANT_ORPHANED,
        [GRANT_TOLD] = 1u << GRANT_UNTOLD,
        [GRANT_HANDING] = 1u << GRANT_TOLD,
        [GRANT_OVER] = 1u << GRANT_TOLD | 1u << GRANT_HANDING,
        [GRANT_OVER_UNTOLD] = 1u << GRANT_UNTOLD,
    };
    assert(from[stage] & 1u << g->stage);
    g->stage = stage;
}

void grant_await_lease(struct grant *g) {
    grant_enter(g, GRANT_REQUESTED);
    peer_need(g->peer, PEER_NEED_FIRM); /* there is no access yet */
    peer_unneed(g->peer, PEER_NEED_ACCESS);
}

bool grant_end_await(struct grant *g) {
    bool orphaned = g->stage == GRANT_ORPHANED;
    grant_enter(g, GRANT_UNTOLD);
    peer_need(g->peer, PEER_NEED_ACCESS);
    peer_unneed(g->peer, PEER_NEED_FIRM);
    return !orphaned;
}

void grant_set_told(struct grant *g) {
    grant_enter(g, GRANT_TOLD);
}

bool grant_is_told(const struct grant *g) {
    return g->stage == GRANT_TOLD || g->stage == GRANT_HANDING || g->stage == GRANT_OVER;
}

bool grant_is_over(const struct grant *g) {
    return g->stage == GRANT_OVER || g->stage == GRANT_OVER_UNTOLD;
}

/* ---- what state/lease.c asks ------------------------------------------------------------- */

static void grant_stop(struct attachment *a, int reason) {
    struct grant *g = grant_of(a);
    struct error why;

    if (!grant_is_told(g)) { /* it never will have it */
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

static void grant_send_ttl(struct grant *g, uint16_t type) {
    const struct lease *l = g->attachment.lease;
    uint64_t now = state_now(g->peer->peers->state);
    struct peer_msg m = {.type = type,
                         .ttl = {.ref = g->lessee_ref, .ttl_ns = clock_left(now, l->deadline_ns)}};
    peer_send(g->peer, &m);
}

static void grant_renewed(struct attachment *a) {
    struct grant *g = grant_of(a);
    if (!grant_is_told(g) || g->renewed)
        return;
    g->renewed = true;
    grant_send_ttl(g, PEER_MSG_RENEWED);
}

/* The answer to a RELEASE that hands the memory over. */
static void grant_tell_handed(struct grant *g) {
    struct peer_msg m = {
        .type = PEER_MSG_REVOKED,
        .revoked = {.lessee_ref = g->lessee_ref, .reason = RDMAD_E_LEASE_RELEASED}};
    snprintf(m.revoked.text, sizeof(m.revoked.text), "lease %" PRIu64 " was handed over",
             g->lease_id);
    peer_send(g->peer, &m);
}

static void grant_is_gone(struct attachment *a, int reason) {
    struct grant *g = grant_of(a);
    bool handing = g->stage == GRANT_HANDING;
    (void)reason;
    grant_enter(g, grant_is_told(g) ? GRANT_OVER : GRANT_OVER_UNTOLD);
    if (handing)
        grant_tell_handed(g);
    if (!g->opening)
        grant_free(g);
}

static void grant_who(const struct attachment *a, struct lease_holder *out) {
    const struct grant *g = container_of(a, struct grant, attachment);
    *out = (struct lease_holder){
        .peer = g->peer->id, .uid = g->uid, .uid_known = g->uid_known, .name = g->peer->name};
}

const struct attachment_ops grant_ops = {
    .stop = grant_stop, .renewed = grant_renewed, .gone = grant_is_gone, .who = grant_who};

/* ---- a new one ----------------------------------------------------------------------------- */

/* The worker of a lease's window tells lessees apart by this number, and has those of several
 * peers. So it is made of the connection's number, which is not used again in a long time, the
 * place in its table, and how often that was used. */
static uint64_t grant_ref_of(const struct peer *p, uint64_t slot) {
    return p->id << 40 | (slot >> 32 & 0xffffff) << 16 | (slot & 0xffff);
}

struct grant *grant_new(struct peer *p, uint64_t lessee_ref, struct error *err) {
    struct slots *grants = &tables_of(p)->grants;
    if (rights_to_hold(p, err))
        return NULL;
    struct grant *g = calloc(1, sizeof(*g));
    if (g && (g->slot = slots_add(grants, g))) {
        g->peer = p;
        g->ref = grant_ref_of(p, g->slot);
        g->lessee_ref = lessee_ref;
        p->attaches++;
        peer_need(p, PEER_NEED_ACCESS);
        return g;
    }
    error_set(err, g ? RDMAD_E_LIMIT : RDMAD_E_NOMEM,
              "%s has no room for one more lessee of your daemon: it holds %" PRIu32
              " of at most %u; release some",
              p->peers->state->node_name, grants->used, grants->max);
    free(g);
    return NULL;
}

struct lessee grant_lessee(struct peer *p, uint64_t lessee_ref) {
    struct peer *self = self_other_end(p);
    struct lessee who = rights_lessee(p);
    who.session = self ? claim_session(self, lessee_ref) : NULL;
    return who;
}

void grant_refuse(struct peer *p, uint64_t lessee_ref, const struct error *why) {
    const char *cause = audit_cause_of(why->code);
    bool told = p->told;
    p->told = false;
    if (cause && !told) /* the policy's own cause says more */
        AUDIT(REFUSED, cause, peer_who(p), audit_object("peer", p->id), ("%s", why->text));
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REP,
                         .attach_rep = {.lessee_ref = lessee_ref, .status = why->code}};
    memcpy(m.attach_rep.text, why->text, sizeof(m.attach_rep.text));
    peer_send(p, &m);
}

/* ---- what the lessee says later ----------------------------------------------------------- */

struct grant *grant_by_ref(struct peer *p, uint64_t ref) {
    const struct slots *grants = &tables_of(p)->grants;
    uint32_t index = ref & 0xffff;
    struct grant *g = index < grants->size ? grants->slot[index].ptr : NULL;
    return g && g->ref == ref && grant_is_told(g) && !grant_is_over(g) ? g : NULL;
}

void grant_take_release(struct peer *p, const struct peer_msg *msg) {
    const struct peer_release *m = &msg->release;
    struct grant *g = grant_by_ref(p, m->owner_ref);
    if (!g)
        return;
    if (m->returned == PEER_HANDED_OVER) {
        if (g->attachment.stage == ATTACHMENT_HELD) /* else REVOKED is on its way, with why not */
            grant_enter(g, GRANT_HANDING);
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

void grant_take_used(struct peer *p, const struct peer_msg *msg) {
    const struct peer_used *m = &msg->used;
    struct grant *g = grant_by_ref(p, m->owner_ref);
    if (g)
        attachment_said(&g->attachment, &(struct lease_said){.bytes_read = m->bytes_read,
                                                             .bytes_written = m->bytes_written,
                                                             .ops = m->ops});
}

void grant_take_stopped(struct peer *p, const struct peer_msg *msg) {
    const struct peer_stopped *m = &msg->stopped;
    struct grant *g = grant_by_ref(p, m->owner_ref);
    if (g)
        attachment_stopped(&g->attachment);
}

void grant_take_ttl_req(struct peer *p, const struct peer_msg *msg) {
    const struct peer_ttl *m = &msg->ttl;
    struct grant *g = grant_by_ref(p, m->ref);
    if (!g || g->attachment.stage != ATTACHMENT_HELD)
        return;
    g->renewed = false;
    grant_send_ttl(g, PEER_MSG_TTL_REP);
}

/* ---- the connection is gone ---------------------------------------------------------------- */

void grants_lose(struct peer *p) {
    uint32_t cursor = 0;
    uint64_t ref;
    struct grant *g;
    assert(p->stage == PEER_LOST);
    while ((g = slots_next(&tables_of(p)->grants, &cursor, &ref))) {
        if (g->stage == GRANT_REQUESTED)
            grant_enter(g, GRANT_ORPHANED);
        else if (!grant_is_over(g))
            attachment_drop(&g->attachment);
    }
}
