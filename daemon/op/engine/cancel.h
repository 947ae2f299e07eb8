/* SPDX-License-Identifier: MIT */
/*
 * cancel.h - ends the ops of a lease, of a pool, or of a name.
 */
#ifndef RDMAD_OP_ENGINE_CANCEL_H
#define RDMAD_OP_ENGINE_CANCEL_H

#include "daemon/op/engine/worker.h"

/* Cancels the lease's ops at once; with pick those alone that it picks. */
typedef bool ops_pick(const struct op *op);
void ops_cancel_lease(struct worker *w, struct op_lease *lease, ops_pick *pick, int status);
/* Dooms what waits for a message in the pool, and cancels what else holds it. */
void ops_cancel_pool(struct op_session *s, struct op_pool *pool, int status);
/* What CANCEL's status is, and what it took, in sqes. */
int ops_cancel_named(struct op_ring *r, uint64_t user_data, uint32_t *cost);
#define LOOKS_PER_SQE 8u /* ops that can be looked at while one is started */

#endif
