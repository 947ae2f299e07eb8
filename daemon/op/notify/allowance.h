/* SPDX-License-Identifier: MIT */
/*
 * allowance.h - how many more notices one attach may leave, as its lessee's worker knows.
 *
 * At most RDMAD_NOTIFY_DEPTH of them may wait for the owner. On the local route they are counted in
 * the notifier, which both sides see. On a link the messages that carry them are numbered, and the
 * owner's daemon is asked of how many no notice waits any more (notify.c).
 */
#ifndef RDMAD_OP_NOTIFY_ALLOWANCE_H
#define RDMAD_OP_NOTIFY_ALLOWANCE_H

#include "daemon/op/notify/notifier.h"

struct op_allowance {
    struct op_notifier *notifier; /* route local */

    /* Route link. */
    uint64_t ref;        /* what a NOTIFY names at the owner */
    uint32_t number;     /* of the last message posted */
    uint32_t taken;      /* of so many no notice waits any more, as far as is known */
    uint32_t claims;     /* ops that may post one and have not */
    uint32_t asked;      /* number, when the owner's daemon was last asked for that */
    uint32_t questions;  /* how often it was asked */
    bool asking;         /* a NOTIFY that only asks is under way */
    struct list waiting; /* of struct op: NOTIFYs that found no room as far as is known */
};

/* Control thread. For an attach to a lease of owner, a session of this daemon; or, if owner is
 * NULL, of another daemon, which knows the attach by ref. NULL: out of memory. */
struct op_allowance *allowance_new(const struct op_session *owner, uint64_t lease_id, uint64_t ref);
void allowance_free(struct op_allowance *a); /* nothing waits; harmless with NULL */
/* The owner's daemon has come back, knows the attach by ref now, and no notice waits there. */
void allowance_begin_again(struct op_allowance *a, uint64_t ref);
/* The lease's lane was dropped: the ops that wait for room join the lease's held ones. */
void allowance_lost(struct op_lease *lease);

#endif
