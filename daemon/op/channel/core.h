/* SPDX-License-Identifier: MIT */
/*
 * core.h - what everything in a channel stands on: its number, its turn, its end.
 */
#ifndef RDMAD_OP_CHANNEL_CORE_H
#define RDMAD_OP_CHANNEL_CORE_H

#include "daemon/op/channel/channel.h"

void channels_add(struct op_channel *ch); /* to its worker's, by number */
struct op_channel *channel_find(const struct worker *w, uint64_t number);
void channel_touch(struct op_channel *ch);   /* it has something to do */
bool channel_may_end(struct op_channel *ch); /* ends_may; if not it is touched */
void channel_op_end(struct op_channel *ch, struct op *op, const struct op_result *result);
/* There is no other end any more, and why: its daemon lies (told to the control thread), or it
 * closed, or the peer is lost. The ops end in its next turn. */
void channel_over(struct op_channel *ch, int code, const char *why);

#endif
