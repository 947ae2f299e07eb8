/* SPDX-License-Identifier: MIT */
/*
 * deliver.h - a message from the other end is judged, and done.
 */
#ifndef RDMAD_OP_CHANNEL_DELIVER_H
#define RDMAD_OP_CHANNEL_DELIVER_H

#include "daemon/op/channel/channel.h"

void channel_deliver(struct op_channel *ch, const struct channel_message *m);
/* wrong: why it is no message at all, else NULL. */
void channel_deliver_link(struct op_channel *ch, uint64_t number, const struct channel_message *m,
                          const char *wrong);

#endif
