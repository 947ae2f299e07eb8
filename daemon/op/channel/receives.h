/* SPDX-License-Identifier: MIT */
/*
 * receives.h - messages that come meet the RECVs of a channel, and complete in order.
 */
#ifndef RDMAD_OP_CHANNEL_RECEIVES_H
#define RDMAD_OP_CHANNEL_RECEIVES_H

#include "daemon/op/channel/arrival.h"

void recv_cancel(struct op_channel *ch, struct op *op, int status);
/* Returns NULL, or how it breaks the protocol. */
const char *receive_message(struct op_channel *ch, const struct channel_message *m);
void receive_key(struct op_channel *ch, const struct channel_message *m);
void receive_withdraw(struct op_channel *ch, const struct channel_message *m);
void receives_heard(struct op_channel *ch, uint64_t next);
void receives_run(struct op_channel *ch); /* what is whole completes; limit is brought up to date */
void receives_end(struct op_channel *ch, int status);
/* The other end is to take back all that has no receive yet: there are none any more. */
void receives_refuse(struct op_channel *ch);
/* The channel's way is gone (rest.c): messages that are under way are let go of. */
void receives_rest(struct op_channel *ch);
bool receives_rested(const struct op_channel *ch);
void receives_begin_anew(struct op_channel *ch); /* with number 0, once they have */

#endif
