/* SPDX-License-Identifier: MIT */
/*
 * judge.c - connections that live on when an identity is loaded, by what is trusted now.
 *
 * A certificate costs some hundred microseconds, and a thousand connections are as much as a thread
 * may have to judge. So they wait in a list of which each turn takes a few.
 */
#include "daemon/peer/connect/judge.h"
#include "daemon/base/audit.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/tls.h"
#include "daemon/peer/control/transport.h"
#include "daemon/peer/control/turn.h"
#include "daemon/state/identity.h"
#include "pki/context.h"

/* Why p may not go on, though it came to be what it is. */
static int judge_certificate(const struct peer *p, const struct pki_identity *identity,
                             struct error *why) {
    struct pki_error wrong;
    SSL *ssl;
    if (!p->secured)
        return error_set(why, RDMAD_E_PERM,
                         "this node has an identity now, and the connection is in clear");
    ssl = tls_ssl(transport_tls(p->way));
    if (!pki_check(identity, SSL_get0_peer_certificate(ssl), SSL_get_peer_cert_chain(ssl), &wrong))
        return 0;
    return error_set(why, wrong.code, "after a reload: %s", wrong.text);
}

static void judge_one(struct peer *p) {
    const struct pki_identity *identity = identity_of(p->peers->state);
    struct error why;
    if (!identity || p->ending || !p->way || !judge_certificate(p, identity, &why))
        return;
    AUDIT(REVOKED, "tls.reload", audit_peer(p->certificate.name, p->address),
          audit_object("peer", p->id), ("peer %s at %s ends %s", p->name, p->address, why.text));
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

void judge_forget(struct peer *p) {
    list_remove(&p->judge_node);
}
