/* SPDX-License-Identifier: MIT */
/*
 * notify.h - a word to a lease's owner: who sends it, what it carries, who waits for it.
 *
 * A NOTIFY writes, and then leaves a notice {imm, length} with the session that granted the lease,
 * which takes them one by one with NOTIFIED. By the time the notice is there, the bytes are. Three
 * things are in it:
 *
 * - a notifier: one attach of a lessee (notifier.h);
 * - a notice: on its way, or waiting at the owner's worker (grant.c);
 * - a grant: the lease as its owner's worker knows it (grant.h).
 *
 * Route local: the lessee's worker writes the bytes, then gives the notice to the owner's worker,
 * itself or by mail. Route link: a fabric SEND behind the WRITEs carries it to the worker of the
 * lease's window, which finds the notifier by the reference that the attach has (notify_peer.c),
 * and gives it to the owner's worker in the same way.
 */
#ifndef RDMAD_OP_NOTIFY_NOTIFY_H
#define RDMAD_OP_NOTIFY_NOTIFY_H

#include "daemon/op/engine/worker.h"

/* What NOTIFY does as a kind (engine/kind.h). Starts it when the allowance lets it in; else it
 * waits, or is refused. */
void notify_start(struct worker *w, struct op *op);
/* Leaves the notice, or posts the message that carries it. Returns what fabric.post does, or NOMEM.
 */
int notify_post(struct worker *w, struct op *op);
bool notify_must_wait(const struct op *op); /* for its bytes, before notify_post */
void notify_failed(struct worker *w, struct op *op);
void notify_release(struct op *op); /* what was reserved and not used */

#endif
