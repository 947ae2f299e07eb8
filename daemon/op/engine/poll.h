/* SPDX-License-Identifier: MIT */
/*
 * poll.h - what a fabric has brought.
 */
#ifndef RDMAD_OP_ENGINE_POLL_H
#define RDMAD_OP_ENGINE_POLL_H

#include "daemon/op/engine/route.h"

/* A poll did so much: lets routes that were full try again. */
static inline unsigned poll_came(struct worker *w, struct op_fabric *fabric, unsigned work) {
    if (work && !list_empty(&fabric->full))
        routes_retry(w, fabric);
    return work;
}

/* Once a turn: takes what the fabric has brought. Returns how much there was. */
static inline unsigned poll_fabric(struct worker *w, struct op_fabric *fabric) {
    return poll_came(w, fabric, op_fabric_poll(fabric, w->now_ns));
}

/* Called before something of the fabric is closed: takes all that the fabric has brought so far,
 * however much, for a device acknowledges messages that we have not looked at, and their senders
 * rely on that. Polls once a turn, however many things close. */
void poll_before_close(struct worker *w, struct op_fabric *fabric);

#endif
