/* SPDX-License-Identifier: MIT */
/*
 * batch.h - several sqes, one cqe.
 */
#ifndef RDMAD_OP_ENGINE_BATCH_H
#define RDMAD_OP_ENGINE_BATCH_H

#include "daemon/op/engine/worker.h"

/* For an entry that has MORE, or whose ring has a batch that waits for its last entry: makes it a
 * member (rq->batch). Returns 0, or the status with which this member is refused. */
int batch_join(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
               struct op_request *rq);
void batch_ended(struct worker *w, struct op_batch *b, uint64_t order,
                 const struct op_result *result); /* of one member */
void batch_add(struct op_batch *b, struct op *op);
void batch_tag(struct op_batch *b); /* a CANCEL can find it by its user_data, if it has one */
void batch_drop(struct worker *w, struct op_ring *r); /* with its ring */

#endif
