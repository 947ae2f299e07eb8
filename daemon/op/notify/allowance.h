/* SPDX-License-Identifier: MIT */
/*
 * allowance.h - how many more notices one attach may leave, as its lessee's worker knows.
 *
 * At most RDMAD_NOTIFY_DEPTH of them wait for the owner. Route local that is counted in the
 * notifier, which both sides see; route link by numbers of messages, and the owner's daemon is
 * asked how many of them it owes nothing more for (notify.c).
 */
#ifndef RDMAD_OP_NOTIFY_ALLOWANCE_H
#define RDMAD_OP_NOTIFY_ALLOWANCE_H

#include "daemon/op/notify/notifier.h"

struct op_allowance {
    struct op_notifier *notifier; /* route local */

    /* Route link. */
    uint64_t ref;        /* what a NOTIFY names at the owner */
    uint32_t number;     /* of the last message posted */
    uint32_t taken;      /* of so many the owner's daemon owes nothing more */
    uint32_t claims;     /* ops that may post one and have not */
    uint32_t asked;      /* number when it was last asked about that */
    uint32_t questions;  /* how often it was */
    bool asking;         /* an op that asks is under way */
    struct list waiting; /* of struct op: NOTIFYs that found no room as far as is known */
};

/* Control thread. For notices about a lease of owner, who is of this daemon; or by a reference at
 * another one (owner is NULL). NULL: out of memory. */
struct op_allowance *allowance_new(const struct op_session *owner, uint64_t lease_id, uint64_t ref);
void allowance_free(struct op_allowance *a); /* nothing waits; harmless with NULL */
/* The lease's lane was dropped: what waits for room is among the lease's held. */
void allowance_lost(struct op_lease *lease);

#endif
