/* SPDX-License-Identifier: MIT */
/*
 * admit.h - sqes are taken from the rings.
 */
#ifndef RDMAD_OP_ENGINE_ADMIT_H
#define RDMAD_OP_ENGINE_ADMIT_H

#include "daemon/op/engine/worker.h"

/* Takes what the hot rings offer, as far as it is their turn; returns how much there was, 0 for
 * nothing. */
unsigned rings_serve(struct worker *w);
/* An sqe that op_validate let through and that no fence stops becomes an op, or is answered at
 * once. Returns what that cost, counted in plain sqes. */
uint32_t sqe_start(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                   struct op_request *rq);

#endif
