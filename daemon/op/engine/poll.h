/* SPDX-License-Identifier: MIT */
/*
 * poll.h - what a fabric has brought.
 */
#ifndef RDMAD_OP_ENGINE_POLL_H
#define RDMAD_OP_ENGINE_POLL_H

#include "daemon/op/engine/route.h"

/* Of a turn: takes it, and lets routes that were full try again; returns how much there was. */
static inline unsigned poll_fabric(struct worker *w, struct op_fabric *fabric) {
    unsigned work = op_fabric_poll(fabric, w->now_ns);
    if (work && !list_empty(&fabric->full))
        routes_retry(w, fabric);
    return work;
}

/* For a mail that is about to close something there: takes first what the fabric has brought. A
 * device acknowledges messages that we have not looked at, so their senders may have gone on. Once
 * a turn, however many things close. */
void poll_before_close(struct worker *w, struct op_fabric *fabric);

#endif
