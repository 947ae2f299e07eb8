/* SPDX-License-Identifier: MIT */
/*
 * carry.h - how a message gets to the other end.
 */
#ifndef RDMAD_OP_CHANNEL_CARRY_H
#define RDMAD_OP_CHANNEL_CARRY_H

#include "daemon/op/channel/send.h"

/* Makes *m a message of that type, with this end's state if the type carries one. */
void channel_message_init(const struct op_channel *ch, struct channel_message *m, uint8_t type);
/* The same, in the place from which channel_carry takes it; that call follows at once. NULL: out of
 * memory, try later. */
struct channel_message *channel_begin(struct op_channel *ch, uint8_t type);
/* Returns 0, AGAIN (try later), or why it will never go. s: the SEND that it is about; NULL: none.
 */
int channel_carry(struct op_channel *ch, struct channel_message *m, struct op_send *s);
/* Its user's rate of bytes lets it send nothing now, or other channels that this rate held up are
 * before it: it gets a turn when it may. */
bool channel_is_held(struct op_channel *ch);
bool channel_may_post(struct op_channel *ch); /* else one without a payload is to come back first */
uint64_t channel_small_max(const struct op_channel *ch); /* longer ones are offered */

#endif
