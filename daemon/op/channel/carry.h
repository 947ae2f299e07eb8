/* SPDX-License-Identifier: MIT */
/*
 * carry.h - how a message gets to the other end.
 */
#ifndef RDMAD_OP_CHANNEL_CARRY_H
#define RDMAD_OP_CHANNEL_CARRY_H

#include "daemon/op/channel/send.h"

/* *m is a message of that kind with this end's state, where it carries one. */
void channel_message_init(const struct op_channel *ch, struct channel_message *m, uint8_t type);
/* The same, in the place from which channel_carry takes it, at once. NULL: later, out of memory. */
struct channel_message *channel_begin(struct op_channel *ch, uint8_t type);
/* 0, AGAIN (later), or why it never will. s: whose message it is; NULL: nobody's. */
int channel_carry(struct op_channel *ch, struct channel_message *m, struct op_send *s);
uint64_t channel_small_max(const struct op_channel *ch); /* longer ones are offered */

#endif
