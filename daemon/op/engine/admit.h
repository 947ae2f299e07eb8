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
/* Takes what the ring has beside its turn, as far as its part of this one goes. False: nothing. */
bool ring_serve_early(struct worker *w, struct op_ring *r);
/* An sqe that op_validate let through and that no fence stops becomes an op, or is answered at
 * once. Returns what that cost, counted in plain sqes. */
uint32_t sqe_start(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                   struct op_request *rq);

#endif
