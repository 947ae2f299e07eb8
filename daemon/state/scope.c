/* SPDX-License-Identifier: MIT */
/*
 * scope.c - who may attach to a lease, or connect to a service.
 */
#include "daemon/state/scope.h"
#include "common/uri.h"
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
    if (s->kind == RDMAD_SCOPE_PEER && !address_parse(s->peer, &ignored) && !rdmad_name_ok(s->peer))
        return error_set(err, RDMAD_E_INVAL,
                         "scope_peer \"%s\" is neither an IP address nor the name of a node; name "
                         "the lessee's daemon by the address it connects from, or as its "
                         "certificate does",
                         s->peer);
    return 0;
}

bool scope_shows(const struct scope *s, const struct session *who) {
    return s->tenant == SCOPE_TENANTS_ALL || s->tenant == who->tenant;
}

bool scope_admits(const struct scope *s, const struct lessee *who) {
    struct in6_addr want, have;
    if (who->session && !scope_shows(s, who->session))
        return false;
    if (s->kind == RDMAD_SCOPE_ANY)
        return true;
    if (s->kind == RDMAD_SCOPE_UID)
        return who->session && who->session->uid == s->uid;
    if (who->session)
        return false;
    if (!address_parse(s->peer, &want))
        return who->node && who->node[0] && strcmp(s->peer, who->node) == 0;
    return address_parse(who->address, &have) && memcmp(&want, &have, sizeof(want)) == 0;
}

struct scope_class scope_class(const struct scope *s) {
    /* Peers see those that are for them whoever's they are. */
    uint32_t tenant = s->kind == RDMAD_SCOPE_PEER ? 0 : s->tenant;
    struct scope_class c = {.kind = s->kind, .tenant = tenant};
    struct in6_addr address;
    if (s->kind == RDMAD_SCOPE_UID)
        c.uid = s->uid;
    else if (s->kind == RDMAD_SCOPE_PEER && address_parse(s->peer, &address))
        memcpy(c.address, &address, sizeof(c.address));
    else if (s->kind == RDMAD_SCOPE_PEER)
        strncpy(c.node, s->peer, sizeof(c.node) - 1);
    return c;
}

unsigned scope_classes(const struct lessee *who, struct scope_class out[SCOPE_CLASSES]) {
    struct scope theirs = {.kind = RDMAD_SCOPE_PEER, .peer = who->address};
    struct in6_addr ignored;
    uint32_t tenant = who->session ? who->session->tenant : 0;
    out[0] = (struct scope_class){.kind = RDMAD_SCOPE_ANY, .tenant = tenant};
    if (who->session)
        theirs =
            (struct scope){.kind = RDMAD_SCOPE_UID, .uid = who->session->uid, .tenant = tenant};
    else if (!address_parse(who->address, &ignored))
        return 1;
    out[1] = scope_class(&theirs);
    if (who->session || !who->node || !who->node[0])
        return 2;
    theirs.peer = who->node;
    out[2] = scope_class(&theirs);
    return 3;
}

int scope_check(const struct scope *s, const char *what, const struct lessee *who,
                struct error *err) {
    if (scope_admits(s, who))
        return 0;
    if (who->session && !scope_shows(s, who->session))
        return error_set(err, RDMAD_E_SCOPE, "%s is not for sessions that come by this socket",
                         what);
    if (s->kind == RDMAD_SCOPE_UID)
        return error_set(err, RDMAD_E_SCOPE, "%s is for uid %" PRIu32 " on its owner's node only",
                         what, s->uid);
    if (who->session)
        return error_set(err, RDMAD_E_SCOPE,
                         "%s is for clients of the daemon at %s only, not for clients of its "
                         "owner's daemon",
                         what, s->peer);
    return error_set(err, RDMAD_E_SCOPE,
                     "%s is for clients of the daemon at %s only; this one connects from %s%s%s",
                     what, s->peer, who->address, who->node && who->node[0] ? " and is " : "",
                     who->node ? who->node : "");
}
