/* SPDX-License-Identifier: MIT */
/*
 * attach_again.h - an attach at a daemon that is just giving way to its next life is asked again.
 *
 * Leases that there are wait for a peer that has gone (peer/lessee/return.h); who attaches in that
 * moment waits as well, as long as his attach may take and leases would wait, if his session
 * outlives its daemon. Each time that it is asked again is a request by the user's rate. That
 * the peer leaves is known by its own word, by the loss of a connection that was up, or because
 * leases of its are away.
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
    struct timer timer;
    struct session_call waiting;
    struct quota_charge charge;
    void (*due)(struct attach_again *a, const struct error *why);
};

/* The attach has failed, and its handle is gone. True: due is called when it is time to ask again
 * (why is NULL), or when the session closes. False: it is as it is. */
bool attach_waits(struct attach_again *a, const struct error *why);

#endif
