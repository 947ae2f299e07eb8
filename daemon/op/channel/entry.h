/* SPDX-License-Identifier: MIT */
/*
 * entry.h - where the rest of the data plane comes in.
 */
#ifndef RDMAD_OP_CHANNEL_ENTRY_H
#define RDMAD_OP_CHANNEL_ENTRY_H

#include "daemon/op/channel/channel.h"

/* Admits a SEND or RECV that op_validate let through: checks the channel and starts the op by
 * op_new, or returns the status with which it is refused. */
int channel_admit(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                  struct op_request *rq);
/* op_cancel for an op with a channel: ends it now, or when what the fabric has of it has come back.
 */
void channel_op_cancel(struct worker *w, struct op *op, int status);
/* The lane of an op's channel; NULL: it has none. */
struct op_lane *channel_op_lane(const struct op *op);
/* Of the one that an sqe names. */
struct op_lane *channel_sqe_lane(const struct op_session *s, const struct rdmad_sqe *sqe);
/* env.complete for a SEND that is not a NOTIFY's: fop.user is an op_part, whose op has a channel,
 * or is NULL (the message is of the daemon's own). */
void channel_part_ended(struct worker *w, struct op_part *part);
/* The lane is dropped, with what was left on it. */
void channels_lane_dropped(struct op_lane *lane);
/* The lane's link is up, or gone; after the leases on it were told, and after all that was posted
 * on it has come back. */
void channels_lane_up(struct worker *w, struct op_lane *lane);
void channels_lane_down(struct worker *w, struct op_lane *lane);
/* Of fabric_env's received and landing; bytes are a peer's: hostile. */
void channel_received(struct worker *w, uint64_t peer, uint64_t number, const uint8_t *bytes,
                      size_t size);
struct fabric_landing *channel_landing(struct worker *w, uint64_t peer, uint64_t number,
                                       const uint8_t *head, size_t size, uint64_t length);

#endif
