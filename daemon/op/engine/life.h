/* SPDX-License-Identifier: MIT */
/*
 * life.h - an op is made, counted, and ends.
 */
#ifndef RDMAD_OP_ENGINE_LIFE_H
#define RDMAD_OP_ENGINE_LIFE_H

#include "daemon/op/engine/worker.h"

/* Counts the op at its ring, session, pool (and lease), with its deadline running; not in any queue
 * yet. worker_can_start must have said yes. */
struct op *op_new(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                  const struct op_request *rq);
/* One of the daemon's own, without a ring. */
struct op *op_new_own(struct worker *w, struct op_session *s, const struct rdmad_sqe *sqe,
                      const struct op_request *rq);
/* Nothing can touch its buffers any more: the op is answered by one cqe (a member by its share in
 * the batch's, the daemon's own by ended) and freed. It must be in no queue but those that op_new
 * put it in. */
void op_end(struct worker *w, struct op *op, const struct op_result *result);
/* Frees the op without a cqe; the place for that stays reserved. */
void op_vanish(struct worker *w, struct op *op);
/* An sqe that never becomes an op: NOP, CANCEL, or refused. */
void op_answer(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
               const struct op_request *rq, int status, uint64_t lease_id);
/* Moves the next look at the op to its deadline or its lease's, whichever is earlier. */
void op_set_due(struct worker *w, struct op *op);

#endif
