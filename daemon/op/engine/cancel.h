/* SPDX-License-Identifier: MIT */
/*
 * cancel.h - ends the ops of a lease, of a pool, or of a name.
 */
#ifndef RDMAD_OP_ENGINE_CANCEL_H
#define RDMAD_OP_ENGINE_CANCEL_H

#include "daemon/op/engine/worker.h"

/* Cancels the lease's ops at once: all, or only those for which pick returns true. */
typedef bool ops_pick(const struct op *op);
void ops_cancel_lease(struct worker *w, struct op_lease *lease, ops_pick *pick, int status);
/* Puts aside the RECVs that wait with a buffer in the pool (ends.c cancels them, some a turn), and
 * cancels all other ops that hold the pool. */
void ops_cancel_pool(struct op_session *s, struct op_pool *pool, int status);
/* Cancels the ring's ops that have that user_data. Returns CANCEL's status; *cost is what that
 * took, counted in sqes. */
int ops_cancel_named(struct op_ring *r, uint64_t user_data, uint32_t *cost);
#define LOOKS_PER_SQE 8u /* ops that can be looked at while one is started */

#endif
