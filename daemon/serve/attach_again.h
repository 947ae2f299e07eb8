/* SPDX-License-Identifier: MIT */
/*
 * attach_again.h - an attach at a daemon that is just giving way to its next life is asked again.
 *
 * Leases that there are wait for a peer that has gone (peer/lessee/return.h); who attaches in that
 * moment waits as well, as long as his attach may take and leases would wait, if his session
 * outlives its daemon. Each time that it is asked again is a request by the user's rate. That
 * the peer leaves is known by its own word, by the loss of a connection that was up, or because
 * leases of its are away.
 *
 * Handles of an earlier life of this daemon (ATTACH_RESUME) are asked for again by their library.
 * It is told for how long (attach_is_early): this life does not remember whom it has lost, so for
 * peer.return_ms after its start any owner who is not there may be about to come back.
 */
#ifndef RDMAD_SERVE_ATTACH_AGAIN_H
#define RDMAD_SERVE_ATTACH_AGAIN_H

#include "common/uri.h"
#include "daemon/state/session.h"

struct attach_again {
    struct session *session; /* NULL, like all else here: it is not asked again */
    struct rdmad_uri uri;
    uint64_t until_ns; /* how long the attach may take, or 0 */
    uint64_t pause_ns; /* until it is asked again, doubled each time */
    bool patient;      /* the other daemon is known to have left */
    bool resumed;      /* the handle is one of an earlier life */
    struct timer timer;
    struct session_call waiting;
    struct quota_charge charge;
    void (*due)(struct attach_again *a, const struct error *why);
};

/* The attach has failed, and its handle is gone. True: due is called when it is time to ask again
 * (why is NULL), or when the session closes. False: it is as it is. */
bool attach_waits(struct attach_again *a, const struct error *why);

/* The attach has failed and does not wait. Of a handle of an earlier life, whose lease may still
 * come back, *why becomes RDMAD_E_BUSY, which says what is missing and for how long it is waited
 * for; else it stays. */
void attach_is_early(const struct attach_again *a, struct error *why);

#endif
