/* SPDX-License-Identifier: MIT */
/*
 * fence.h - ops that start only when what came before them has ended.
 */
#ifndef RDMAD_OP_ENGINE_FENCE_H
#define RDMAD_OP_ENGINE_FENCE_H

#include "daemon/op/engine/worker.h"

/* batch: the one that it belongs to, or NULL. */
bool fence_stops(const struct op_ring *r, const struct rdmad_sqe *sqe,
                 const struct op_batch *batch);
void fence_hold(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                const struct op_request *rq);
/* It starts only when all that came before it has ended: for itself, or for the link before its
 * batch. */
static inline bool is_fenced(uint8_t flags, const struct op_batch *batch) {
    return flags & RDMAD_SQE_FENCE || (batch && batch->waits);
}
/* Once a turn: starts the ops that waited for something that has ended. */
void fences_run(struct worker *w);

#endif
