/* SPDX-License-Identifier: MIT */
/*
 * told.c - what a lease's owner says of it to its lessee: its end, its renewals, how long it lasts.
 *
 * Durations count from when they were asked for. So RENEWED, which nobody asked for, only makes us
 * ask (TTL_REQ), one question at a time.
 */
#include "daemon/peer/lessee/told.h"
#include "daemon/base/clock.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/lessee/claim.h"
#include <string.h>

static void told_set_deadline(struct claim *c, uint64_t deadline_ns) {
    c->spec.deadline_ns = deadline_ns;
    if (claim_is_known(c))
        handle_renewed(c->handle, deadline_ns);
}

static void told_ask_ttl(struct claim *c) {
    struct peer_msg m = {.type = PEER_MSG_TTL_REQ, .ttl.ref = c->owner_ref};
    if (c->ttl != CLAIM_TTL_KNOWN) {
        c->ttl = CLAIM_TTL_ASK_AGAIN;
        return;
    }
    c->ttl = CLAIM_TTL_ASKED;
    c->asked_ns = state_now(claim_state_of(c));
    peer_send(c->peer, &m);
}

void told_take_revoked(struct peer *p, const struct peer_msg *msg) {
    const struct peer_revoked *m = &msg->revoked;
    struct claim *c = claim_find(p, m->lessee_ref);
    if (!c || c->stage == CLAIM_ABANDONED)
        return; /* we let go first, RELEASE is on its way */
    struct error why = {.code = m->reason};
    memcpy(why.text, m->text, sizeof(why.text));
    if (c->stage == CLAIM_HANDING) { /* reason RELEASED: as we asked; else it ended before */
        if (why.code == RDMAD_E_LEASE_RELEASED)
            why.code = RDMAD_OK;
        claim_handed(c, &why);
        return;
    }
    if (c->stage != CLAIM_LINKING && !claim_is_known(c)) {
        peer_refuse(p, RDMAD_E_PROTOCOL, "REVOKED of an attach that was not granted");
        return;
    }
    bool attached = claim_is_known(c);
    if (c->stage != CLAIM_REVOKED) /* a peer may say so twice */
        claim_enter(c, CLAIM_REVOKED);
    c->revoked_why = why;
    if (attached)
        handle_end(c->handle, m->reason, m->text);
    else
        claim_fail(c, &why);
}

/* NULL: the data plane has no handle of it, any more. */
static struct claim *told_find_attached(struct peer *p, uint64_t ref) {
    struct claim *c = claim_find(p, ref);
    return c && claim_is_known(c) ? c : NULL;
}

void told_take_keep_rep(struct peer *p, const struct peer_msg *msg) {
    const struct peer_keep_rep *m = &msg->keep_rep;
    struct claim *c = told_find_attached(p, m->lessee_ref);
    struct error result = {.code = m->status};
    if (!c)
        return;
    memcpy(result.text, m->text, sizeof(result.text));
    if (!m->status)
        told_ask_ttl(c);
    handle_kept(c->handle, &result);
}

/* A shorter time holds at once. A longer one must be asked for: counted from now, it would end
 * later here than at the owner. */
void told_take_renewed(struct peer *p, const struct peer_msg *msg) {
    const struct peer_ttl *m = &msg->ttl;
    struct claim *c = claim_find(p, m->ref);
    if (!c || (c->stage != CLAIM_LINKING && !claim_is_known(c)))
        return;
    uint64_t latest = clock_after(state_now(claim_state_of(c)), m->ttl_ns);
    if (latest < c->spec.deadline_ns)
        told_set_deadline(c, latest);
    told_ask_ttl(c);
}

void told_take_ttl_rep(struct peer *p, const struct peer_msg *msg) {
    const struct peer_ttl *m = &msg->ttl;
    struct claim *c = claim_find(p, m->ref);
    if (!c || c->ttl == CLAIM_TTL_KNOWN)
        return;
    bool again = c->ttl == CLAIM_TTL_ASK_AGAIN;
    c->ttl = CLAIM_TTL_KNOWN;
    told_set_deadline(c, clock_after(c->asked_ns, m->ttl_ns));
    if (again)
        told_ask_ttl(c);
}
