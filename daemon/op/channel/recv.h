/* SPDX-License-Identifier: MIT */
/*
 * recv.h - the RECVs of a channel that are posted, and how one ends.
 */
#ifndef RDMAD_OP_CHANNEL_RECV_H
#define RDMAD_OP_CHANNEL_RECV_H

#include "daemon/op/channel/arrival.h"

/* The one that takes the next message; NULL: none. While the first is about to end there is none:
 * it takes no message, and no other overtakes it. */
static inline struct op *recv_first(struct op_channel *ch) {
    bool none = channel_ending(ch) || ch->sync.parting;
    struct list *pos = none ? NULL : list_first(&ch->in.recvs);
    struct op *op = pos ? list_entry(pos, struct op, node) : NULL;
    return op && !op_ending(op) ? op : NULL;
}

int recv_take(struct op_channel *ch, struct op_ring *r, const struct rdmad_sqe *sqe,
              const struct op_request *rq);
void recv_unpost(struct op_channel *ch, struct op *op); /* takes it out of those posted */
void recv_repost(struct op_channel *ch, struct op *op); /* to where it is the next to be taken */
/* Ends it without a message. It is not among those posted. */
void recv_end(struct op_channel *ch, struct op *op, int status, uint8_t outcome);
void recv_drop(struct op_channel *ch, struct op *op, int status); /* of those posted */
/* It has its message, as described by length, small, imm and flags. */
void recv_done(struct op_channel *ch, struct op *op, const struct op_arrival *as);
/* The message of which some pieces are in the first receive is lost: weak.c. */
void recv_drop_pieces(struct op_channel *ch);

#endif
