/* SPDX-License-Identifier: MIT */
/*
 * scope.c - who may attach to a lease, or connect to a service.
 */
#include "daemon/state/scope.h"
#include "daemon/base/address.h"
#include "daemon/state/session.h"
#include <inttypes.h>
#include <string.h>

int scope_validate(const struct scope *s, struct error *err) {
    struct in6_addr ignored;
    if (s->kind > RDMAD_SCOPE_UID)
        return error_set(err, RDMAD_E_INVAL,
                         "scope %" PRIu32 " is unknown: use any (0), peer (1) or uid (2)", s->kind);
    if (s->kind != RDMAD_SCOPE_UID && s->uid)
        return error_set(err, RDMAD_E_INVAL,
                         "scope_uid %" PRIu32 " is given, but the scope is not uid", s->uid);
    if (s->kind != RDMAD_SCOPE_PEER && s->peer[0])
        return error_set(err, RDMAD_E_INVAL,
                         "scope_peer \"%s\" is given, but the scope is not peer", s->peer);
    if (s->kind == RDMAD_SCOPE_PEER && !address_parse(s->peer, &ignored))
        return error_set(err, RDMAD_E_INVAL,
                         "scope_peer \"%s\" is no IP address; name the lessee's daemon by the "
                         "address it connects from",
                         s->peer);
    return 0;
}

bool scope_admits(const struct scope *s, const struct lessee *who) {
    struct in6_addr want, have;
    if (s->kind == RDMAD_SCOPE_ANY)
        return true;
    if (s->kind == RDMAD_SCOPE_UID)
        return who->session && who->session->uid == s->uid;
    return !who->session && address_parse(s->peer, &want) && address_parse(who->address, &have) &&
           memcmp(&want, &have, sizeof(want)) == 0;
}

struct scope_class scope_class(const struct scope *s) {
    struct scope_class c = {.kind = s->kind};
    struct in6_addr address;
    if (s->kind == RDMAD_SCOPE_UID)
        c.uid = s->uid;
    else if (s->kind == RDMAD_SCOPE_PEER && address_parse(s->peer, &address))
        memcpy(c.address, &address, sizeof(c.address));
    return c;
}

unsigned scope_classes(const struct lessee *who, struct scope_class out[2]) {
    struct scope theirs = {.kind = RDMAD_SCOPE_PEER, .peer = who->address};
    struct in6_addr ignored;
    out[0] = (struct scope_class){.kind = RDMAD_SCOPE_ANY};
    if (who->session)
        theirs = (struct scope){.kind = RDMAD_SCOPE_UID, .uid = who->session->uid};
    else if (!address_parse(who->address, &ignored))
        return 1;
    out[1] = scope_class(&theirs);
    return 2;
}

int scope_check(const struct scope *s, const char *what, const struct lessee *who,
                struct error *err) {
    if (scope_admits(s, who))
        return 0;
    if (s->kind == RDMAD_SCOPE_UID)
        return error_set(err, RDMAD_E_SCOPE, "%s is for uid %" PRIu32 " on its owner's node only",
                         what, s->uid);
    if (who->session)
        return error_set(err, RDMAD_E_SCOPE,
                         "%s is for clients of the daemon at %s only, not for clients of its "
                         "owner's daemon",
                         what, s->peer);
    return error_set(err, RDMAD_E_SCOPE,
                     "%s is for clients of the daemon at %s only; this one connects from %s", what,
                     s->peer, who->address);
}
