/* SPDX-License-Identifier: MIT */
/*
 * reading.h - large messages at the receiver: the READ out of the sender's window.
 */
#ifndef RDMAD_OP_CHANNEL_READING_H
#define RDMAD_OP_CHANNEL_READING_H

#include "daemon/op/channel/arrival.h"

/* False when there is no memory for it. */
bool reading_start(struct op_arrival *a, const struct channel_message *m);
void reading_key(struct op_arrival *a, const struct channel_message *m);
void reading_stop(struct op_arrival *a);
void reading_close(struct op_arrival *a); /* when it is over */

#endif
