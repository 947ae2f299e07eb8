/* SPDX-License-Identifier: MIT */
/*
 * recv.h - the RECVs of a channel that are posted, and how one ends.
 */
#ifndef RDMAD_OP_CHANNEL_RECV_H
#define RDMAD_OP_CHANNEL_RECV_H

#include "daemon/op/channel/arrival.h"

int recv_take(struct op_channel *ch, struct op_ring *r, const struct rdmad_sqe *sqe,
              const struct op_request *rq);
struct op *recv_first(struct op_channel *ch);           /* that takes the next message; or NULL */
void recv_unpost(struct op_channel *ch, struct op *op); /* takes it out of those posted */
void recv_repost(struct op_channel *ch, struct op *op); /* to where it is the next to be taken */
/* Ends it without a message. It is not among those posted. */
void recv_end(struct op_channel *ch, struct op *op, int status, uint8_t outcome);
void recv_drop(struct op_channel *ch, struct op *op, int status); /* of those posted */
/* It has its message, as described by length, small, imm and flags. */
void recv_done(struct op_channel *ch, struct op *op, const struct op_arrival *as);
/* The message of which some pieces are in the first receive is lost: weak.c. */
void recv_torn(struct op_channel *ch);

#endif
