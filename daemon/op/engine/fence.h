/* SPDX-License-Identifier: MIT */
/*
 * fence.h - ops that start only when what came before them has ended.
 */
#ifndef RDMAD_OP_ENGINE_FENCE_H
#define RDMAD_OP_ENGINE_FENCE_H

#include "daemon/op/engine/worker.h"

bool fence_stops(const struct op_ring *r, const struct rdmad_sqe *sqe);
void fence_hold(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                const struct op_request *rq);
/* Once a turn: starts the ops that waited for something that has ended. */
void fences_run(struct worker *w);

#endif
