/* SPDX-License-Identifier: MIT */
/*
 * scope.c - who may attach to a lease.
 */
#include "daemon/state/scope.h"
#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>

/* IPv4 as v4-mapped IPv6, so that one comparison does. */
static bool address_parse(const char *text, struct in6_addr *out) {
    struct in_addr v4;
    if (inet_pton(AF_INET6, text, out) == 1)
        return true;
    if (inet_pton(AF_INET, text, &v4) != 1)
        return false;
    memset(out, 0, sizeof(*out));
    out->s6_addr[10] = out->s6_addr[11] = 0xff;
    memcpy(&out->s6_addr[12], &v4, sizeof(v4));
    return true;
}

int scope_validate(const struct lease_terms *t, struct error *err) {
    struct in6_addr ignored;
    if (t->scope > RDMAD_SCOPE_UID)
        return error_set(err, RDMAD_E_INVAL,
                         "scope %" PRIu32 " is unknown: use any (0), peer (1) or uid (2)",
                         t->scope);
    if (t->scope != RDMAD_SCOPE_UID && t->scope_uid)
        return error_set(err, RDMAD_E_INVAL,
                         "scope_uid %" PRIu32 " is given, but the scope is not uid", t->scope_uid);
    if (t->scope != RDMAD_SCOPE_PEER && t->scope_peer[0])
        return error_set(err, RDMAD_E_INVAL,
                         "scope_peer \"%s\" is given, but the scope is not peer", t->scope_peer);
    if (t->scope == RDMAD_SCOPE_PEER && !address_parse(t->scope_peer, &ignored))
        return error_set(err, RDMAD_E_INVAL,
                         "scope_peer \"%s\" is no IP address; name the lessee's daemon by the "
                         "address it connects from",
                         t->scope_peer);
    return 0;
}

static int check_peer(const struct lease *l, const struct lessee *who, struct error *err) {
    struct in6_addr want, have;
    if (who->session)
        return error_set(err, RDMAD_E_SCOPE,
                         "lease %" PRIu64 " is for clients of the daemon at %s only, not for "
                         "clients of its owner's daemon",
                         l->id, l->terms.scope_peer);
    if (address_parse(l->terms.scope_peer, &want) && address_parse(who->address, &have) &&
        memcmp(&want, &have, sizeof(want)) == 0)
        return 0;
    return error_set(err, RDMAD_E_SCOPE,
                     "lease %" PRIu64 " is for clients of the daemon at %s only; this one connects "
                     "from %s",
                     l->id, l->terms.scope_peer, who->address);
}

int scope_check(const struct lease *l, const struct lessee *who, struct error *err) {
    switch (l->terms.scope) {
    case RDMAD_SCOPE_ANY:
        return 0;
    case RDMAD_SCOPE_PEER:
        return check_peer(l, who, err);
    default:
        if (who->session && who->session->uid == l->terms.scope_uid)
            return 0;
        return error_set(err, RDMAD_E_SCOPE,
                         "lease %" PRIu64 " is for uid %" PRIu32 " on its owner's node only", l->id,
                         l->terms.scope_uid);
    }
}
