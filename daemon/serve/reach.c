/* SPDX-License-Identifier: MIT */
/*
 * reach.c - the policy's "peers" and "services", and the wall between tenants.
 */
#include "daemon/serve/reach.h"
#include "common/uri.h"
#include "daemon/state/identity.h"
#include "daemon/state/names.h"

/* Where there is an identity the certificate's name decides, once it is known
 * (peer/control/admit.h). Who may reach no peer at all has none dialled. */
int serve_check_peer(const struct session *s, const char *host, struct error *err) {
    if (identity_of(s->state) && policy_reaches_peers(&s->policy))
        return 0;
    return policy_check_peer(&s->policy, host, err);
}

/* A name of another tenant's is none here. */
int serve_check_reach(const struct session *s, const struct rdmad_uri *uri, bool here,
                      struct error *err) {
    int rc = here ? 0 : serve_check_peer(s, uri->host, err);
    if (!rc && uri->name[0])
        rc = policy_check_reach(&s->policy, uri->name, err);
    if (rc || !here || !uri->name[0])
        return rc;
    const struct name *name = names_find(s->state->names, uri->name);
    if (!name || scope_shows(&name->scope, s))
        return 0;
    return error_set(err, name->kind == RDMAD_NAME_SERVICE ? RDMAD_E_NO_SERVICE : RDMAD_E_NO_LEASE,
                     "nothing is published as \"%s\" at %s", uri->name, s->state->node_name);
}
