/* SPDX-License-Identifier: MIT */
/*
 * rest.h - an end whose way to the other is gone, and one that gets another way.
 *
 * At rest nothing of it is on the way: what had been sent has ended as unknown unless it was
 * acknowledged, and messages that had come in part are let go of. SENDs that had not left and RECVs
 * stay, and more may be added. The next way is a new beginning for both ends: whatever was
 * acknowledged had completed its RECV before (turn.c), so no message comes twice, and their order
 * is kept.
 */
#ifndef RDMAD_OP_CHANNEL_REST_H
#define RDMAD_OP_CHANNEL_REST_H

#include "daemon/op/channel/channel.h"

/* Its daemon leaves: from now on it neither sends nor takes, and the other end is told to take back
 * what it has sent. */
void op_channel_part(struct op_channel *ch);
/* Whether nothing of either end is on the way any more, as far as can be known. */
bool op_channel_parted(const struct op_channel *ch);

/* Its way is gone. It is reliable and alive. */
void op_channel_rest(struct op_channel *ch);
/* Whether nothing of it is on the way any more; or it is over, so that it does not matter. */
bool op_channel_rested(struct op_channel *ch);
void channel_rest_run(struct op_channel *ch); /* its turn, while it is resting */

/* Whether it has rested, or had no way yet, and there is still another end. */
bool op_channel_wants_way(const struct op_channel *ch);
/* It wants a way, and has one: messages to number come by peer_in from now on, and its own go
 * by lane; NULL: the other end is on this daemon. To be opened next. */
void op_channel_way(struct op_channel *ch, uint64_t number, struct op_lane *lane, uint64_t peer_in);

#endif
