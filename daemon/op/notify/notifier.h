/* SPDX-License-Identifier: MIT */
/*
 * notifier.h - one attach of a lessee that may notify its lease's owner.
 *
 * It counts the attach's notices that were not taken yet, of which RDMAD_NOTIFY_DEPTH are allowed,
 * and knows the way to the owner. It outlives the attach as long as one of its notices is there.
 */
#ifndef RDMAD_OP_NOTIFY_NOTIFIER_H
#define RDMAD_OP_NOTIFY_NOTIFIER_H

#include "daemon/op/engine/worker.h"

struct op_notifier {
    uint32_t refs;        /* atomic: the attach, its notices, mail */
    uint32_t queued;      /* atomic: notices promised (local) or received (peer), and not taken */
    uint64_t lease_id;    /* the grant's, of which the attach's lease may be a part */
    uint64_t session;     /* the owner's, by the plane's id */
    struct user_id whose; /* the owner's user */
    struct worker *owner;

    /* Of a peer's attach only. */
    struct id_node node; /* in the worker's notifiers, by ref */
    uint64_t ref;
    struct op_window *window;
    uint32_t number; /* the last that it used; notify_peer.c */
};

/* For notices to owner about that lease. Also called on the control thread. NULL: out of memory. */
struct op_notifier *notifier_new(const struct op_session *owner, uint64_t lease_id);
void notifier_hold(struct op_notifier *n);
void notifier_drop(struct op_notifier *n); /* any thread */

#endif
