/* SPDX-License-Identifier: MIT */
/*
 * judge.c - connections that live on when an identity is loaded, by what is trusted now.
 *
 * A certificate costs some hundred microseconds, and a thousand connections are as much as a thread
 * may have to judge. So they wait in a list of which each turn takes a few.
 */
#include "daemon/peer/connect/judge.h"
#include "daemon/base/audit.h"
#include "daemon/base/clock.h"
#include "daemon/peer/connect/renewed.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/turn.h"
#include "daemon/state/identity.h"
#include "pki/context.h"
#include <time.h>

/* Why p may not go on, though it came to be what it is. */
static int judge_certificate(struct peer *p, const struct pki_identity *identity,
                             struct error *why) {
    struct pki_error wrong;
    STACK_OF(X509) * chain;
    int64_t until;
    if (!p->secured)
        return error_set(why, RDMAD_E_PERM,
                         "this node has an identity now, and the connection is in clear");
    renewed_judge(p); /* it may have shown one that is trusted now */
    X509 *cert = renewed_certificate(p, &chain);
    if (!pki_check_until(identity, cert, chain, &until, &wrong)) {
        p->certificate.good_until = until;
        return 0;
    }
    return error_set(why, wrong.code, "after a reload: %s", wrong.text);
}

static void judge_one(struct peer *p) {
    const struct pki_identity *identity = identity_of(p->peers->state);
    struct error why;
    char text[PEER_TEXT];
    if (!identity || p->ending || !p->way)
        return;
    if (!judge_certificate(p, identity, &why)) {
        renewed_tell(p);
        return;
    }
    AUDIT(REVOKED, "tls.reload", audit_peer(p->certificate.name, p->address),
          audit_object("peer", p->id), ("%s ends %s", peer_text(p, text), why.text));
    peer_refuse(p, why.code, "%s", why.text);
}

/* Whose handshake is under way is judged at its end. */
void judge_all(struct peers *ps) {
    list_for_each (node, &ps->all) {
        struct peer *p = list_entry(node, struct peer, node);
        if (p->ending || p->stage == PEER_CONNECTING || p->handshake || !p->way)
            continue;
        list_remove(&p->judge_node);
        list_append(&ps->unjudged, &p->judge_node);
    }
    turn_request(ps);
}

void judge_next_turn(struct peers *ps) {
    struct list *node;
    for (unsigned n = 0; n < JUDGED_A_TURN && (node = list_pop(&ps->unjudged)); n++)
        judge_one(list_entry(node, struct peer, judge_node));
    if (!list_empty(&ps->unjudged))
        turn_request(ps);
}

/* ---- certificates that end ----------------------------------------------------------------- */

static int64_t judge_seconds_left(const struct peer *p) {
    return p->certificate.good_until - (int64_t)time(NULL);
}

static void judge_ends(struct peer *p) {
    char date[PKI_DATE_TEXT], text[PEER_TEXT];
    pki_date_text(p->certificate.good_until, date);
    AUDIT(REVOKED, "tls.expired", audit_peer(p->certificate.name, p->address),
          audit_object("peer", p->id),
          ("%s ends: its certificate was good until %s, and it has shown no next one; "
           "its renewal is due",
           peer_text(p, text), date));
    p->audited = true;
    peer_refuse(
        p, RDMAD_E_PERM,
        "the certificate of %s was good until %s, and no next one was shown: its renewal is "
        "due (rdmactl cluster show there)",
        p->certificate.name, date);
}

static void judge_expires(struct timer *timer, uint64_t now_ns) {
    struct peer *p = container_of(timer, struct peer, expiry);
    if (p->ending)
        return;
    if (judge_seconds_left(p) <= 0)
        renewed_judge(p); /* the next may just have come */
    int64_t left = judge_seconds_left(p);
    if (left <= 0) {
        judge_ends(p);
        return;
    }
    uint64_t most = JUDGE_EXPIRY_NS / NSEC_PER_SEC;
    uint64_t span = (uint64_t)left < most ? (uint64_t)left : most;
    if (timer_set(&p->peers->state->timers, timer, clock_after(now_ns, span * NSEC_PER_SEC)))
        peer_refuse(p, RDMAD_E_NOMEM, "out of memory for a peer's timer");
}

void judge_begin(struct peer *p) {
    timer_init(&p->expiry, judge_expires);
    if (p->secured)
        judge_expires(&p->expiry, state_now(p->peers->state));
}

void judge_forget(struct peer *p) {
    list_remove(&p->judge_node);
    timer_unset(&p->peers->state->timers, &p->expiry);
    renewed_forget(p);
}
