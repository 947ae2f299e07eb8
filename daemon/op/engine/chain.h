/* SPDX-License-Identifier: MIT */
/*
 * chain.h - RDMAD_SQE_LINK: an ordered stream of ops that stops at its first failure.
 */
#ifndef RDMAD_OP_ENGINE_CHAIN_H
#define RDMAD_OP_ENGINE_CHAIN_H

#include "daemon/op/engine/op.h"

uint64_t chain_take(struct op_ring *r, const struct rdmad_sqe *sqe); /* its order; 0: it has none */
/* It and its batch, if it has one, wait for the link before it. */
void chain_follow(struct op_ring *r, struct rdmad_sqe *sqe, struct op_request *rq);
/* Both return CANCELED if what it is linked to, or its batch is, was not done, else 0. chain_admit
 * is asked when it is taken, chain_start when it has waited behind a fence. */
int chain_admit(struct op_ring *r, const struct op_request *rq);
int chain_start(const struct op *op);
void chain_canceled(struct op *op); /* while it waits behind a fence; before chain_ended */
void chain_ended(struct op_ring *r, uint64_t order, uint8_t flags, uint8_t outcome);

#endif
