/* SPDX-License-Identifier: MIT */
/*
 * poll.h - what a fabric has brought.
 */
#ifndef RDMAD_OP_ENGINE_POLL_H
#define RDMAD_OP_ENGINE_POLL_H

#include "daemon/op/engine/route.h"

/* Once a turn: takes what the fabric has brought, and lets routes that were full try again. Returns
 * how much there was. */
static inline unsigned poll_fabric(struct worker *w, struct op_fabric *fabric) {
    unsigned work = op_fabric_poll(fabric, w->now_ns);
    if (work && !list_empty(&fabric->full))
        routes_retry(w, fabric);
    return work;
}

/* Called before something of the fabric is closed: takes what the fabric has brought so far, for a
 * device acknowledges messages that we have not looked at, and their senders rely on that. Polls
 * once a turn, however many things close. */
void poll_before_close(struct worker *w, struct op_fabric *fabric);

#endif
