/* SPDX-License-Identifier: MIT */
/*
 * admit.c - whether a user of ours may reach a peer.
 *
 * Who answers at an address is for whoever is there to say, and names are given out by a resolver:
 * neither is proof. Where there is no identity nothing else is known.
 */
#include "daemon/peer/control/admit.h"
#include "daemon/state/policy.h"
#include <string.h>

static const char *admit_name(const struct peer *p) {
    if (p->secured)
        return p->certificate.name;
    if (p->outgoing)
        return p->host;
    bool mapped = strncmp(p->ip, "::ffff:", 7) == 0 && strchr(p->ip, '.');
    return mapped ? p->ip + 7 : p->ip; /* IPv4, by a socket of both */
}

int admit_session(const struct peer *p, const struct session *s, struct error *err) {
    if (p->stage != PEER_UP || p->is_self)
        return 0;
    return policy_check_peer(&s->policy, admit_name(p), err);
}
