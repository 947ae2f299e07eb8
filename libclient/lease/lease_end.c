/* SPDX-License-Identifier: MIT */
/*
 * lease_end.c - a lease ends by the program's will: its owner revokes it, or either side lets go of
 * the object.
 */
#include "libclient/lease/lease.h"

/* Also of a lease that has ended: until then the daemon keeps the handle, to say why. Whichever
 * daemon answers, the handle is not asked for again; if it is being asked for, it is given back. */
static void lease_tell_release(struct rdmad_lease *lease) {
    struct rdmad_lease_release_req request = {.handle = lease->handle};
    pthread_mutex_lock(&lease->session->lock);
    lease->let_go = true;
    pthread_mutex_unlock(&lease->session->lock);
    rdmad_control_tell(lease->session, RDMAD_MSG_LEASE_RELEASE, &request, sizeof(request), true);
}

/* With the lock, as soon as the daemon has answered: the next one is not shown the lease. */
static void lease_revoked(struct rdmad_session *s, const struct rdmad_call *call) {
    (void)s;
    rdmad_lease_ended(call->object.lease, RDMAD_E_LEASE_REVOKED, "the lease was revoked");
}

/* The same of one that the program frees, which hears no more of it. */
static void lease_freed(struct rdmad_session *s, const struct rdmad_call *call) {
    struct rdmad_lease *lease = call->object.lease;
    (void)s;
    if (lease->ended)
        return;
    lease->ended = RDMAD_E_LEASE_REVOKED;
    rdmad_lent_back(&lease->lent);
}

static int lease_tell_revoke(struct rdmad_lease *lease, bool free_it) {
    struct rdmad_lease_revoke_req request = {.lease = 0};
    struct rdmad_call call = {.type = RDMAD_MSG_LEASE_REVOKE,
                              .request = &request,
                              .request_size = sizeof(request),
                              .accept = free_it ? lease_freed : lease_revoked,
                              .fill = rdmad_lease_fill_number,
                              .quiet = free_it,
                              .object.lease = lease};
    return rdmad_control_call(lease->session, &call);
}

static int lease_has_ended(struct rdmad_lease *lease) {
    pthread_mutex_lock(&lease->session->lock);
    int why = lease->ended;
    pthread_mutex_unlock(&lease->session->lock);
    return why;
}

int rdmad_lease_revoke(rdmad_lease *lease) {
    RDMAD_LIVE(lease, LEASE);
    int rc = rdmad_lease_owner_only(lease, "revoke");
    if (rc)
        return rc;
    if (lease_has_ended(lease))
        return 0; /* its event has come: nobody can touch the memory */
    rc = lease_tell_revoke(lease, false);
    return rc && lease_has_ended(lease) ? 0 : rc; /* it ended by itself meanwhile */
}

void rdmad_lease_free(rdmad_lease *lease) {
    if (!lease)
        return;
    rdmad_object_end(&lease->object, RDMAD_KIND_LEASE, rdmad_lease_number(lease), __func__);
    struct rdmad_session *s = lease->session;
    if (!rdmad_is_lost(s)) {
        if (!rdmad_lease_is_own(lease))
            lease_tell_release(lease);
        else if (!lease_has_ended(lease))
            lease_tell_revoke(lease, true);
    }
    rdmad_lease_forget(lease);
}
