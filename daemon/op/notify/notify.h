/* SPDX-License-Identifier: MIT */
/*
 * notify.h - a word to a lease's owner: who sends it, what it carries, who waits for it.
 *
 * A NOTIFY writes, and then leaves a notice {imm, length} with the session that granted the lease,
 * which takes them one by one with NOTIFIED. By the time the notice is there, the bytes are. Three
 * things are in it:
 *
 *   notifier   one attach of a lessee: how many of its notices were not taken, of
 * RDMAD_NOTIFY_DEPTH that may be, and the way to its owner. It outlives the attach while a notice
 * is of it. notice     on its way, or waiting at the owner's worker. grant      the lease as its
 * owner's worker knows it: notices that wait, NOTIFIEDs that wait.
 *
 * Route local: the lessee's worker writes the bytes, then gives the notice to the owner's worker,
 * itself or by mail. Route link: a fabric SEND behind the WRITEs carries it to the worker of the
 * lease's window, which finds the notifier by the reference that the attach has (notify_peer.c),
 * and gives it to the owner's worker in the same way.
 */
#ifndef RDMAD_OP_NOTIFY_H
#define RDMAD_OP_NOTIFY_H

#include "daemon/op/engine/worker.h"

struct op_notifier {
    uint32_t refs;     /* atomic: the attach, its notices, mail */
    uint32_t queued;   /* atomic: notices promised (local) or received (peer), and not taken */
    uint64_t lease_id; /* the grant's, of which the attach's lease may be a part */
    uint64_t session;  /* the owner's, by the plane's id */
    struct worker *owner;

    /* Of a peer's attach only. */
    struct id_node node; /* in the worker's notifiers, by ref */
    uint64_t ref;
    struct op_window *window;
    uint32_t number; /* the last that it used; notify_peer.c */
};

/* What the SEND carries, little-endian. */
struct notify_message {
    uint8_t type; /* OP_MESSAGE_NOTIFY */
    uint8_t asks; /* 1: no notice; its number, and what became of so many is asked for */
    uint16_t reserved;
    uint32_t imm;
    uint32_t number; /* how many of this attach's messages with a notice were posted so far */
    uint32_t reserved1;
    uint64_t ref, length;
};
RDMAD_STATIC_ASSERT(sizeof(struct notify_message) == 32, "no padding");

/* For notices to owner about that lease; NULL: out of memory. Control thread, too. */
struct op_notifier *notifier_new(const struct op_session *owner, uint64_t lease_id);
void notifier_hold(struct op_notifier *n);
void notifier_drop(struct op_notifier *n); /* any thread */

/* The owner's worker, or one that gives it there by mail. On failure nothing was left and nothing
 * changed. */
int notice_leave(struct worker *w, struct op_notifier *from, uint32_t imm, uint64_t length);

/* ---- what the control thread asks, by seam/grants.c --------------------------------------------
 */

/* The session granted that lease. When it cannot be noted g is freed. */
int grant_add(struct worker *w, struct op_session *s, struct op_grant *g, uint64_t lease_id);
/* Nobody finds it any more, and its session waits for it; NULL: there is none. grant_end follows,
 */
struct op_grant *grant_hide(struct worker *w, const struct op_session *s, uint64_t lease_id);
/* once a turn until it is true: the grant is gone, with all that waited there. */
bool grant_end(struct worker *w, struct op_grant *g, int reason);
/* The lessee behind the window may notify by n, if the reference is free; n is the window's now. */
void notifier_attach(struct worker *w, struct op_window *ow, struct op_notifier *n);

/* The answer to who asks: the attach is known, and of so many messages with a notice, from the
 * first that it ever posted, none waits for its owner any more: taken, or never came. */
#define NOTIFY_KNOWN (UINT64_C(1) << 32)

#endif
