/* SPDX-License-Identifier: MIT */
/*
 * turn.h - what a channel that was touched does once a turn of its worker.
 */
#ifndef RDMAD_OP_CHANNEL_TURN_H
#define RDMAD_OP_CHANNEL_TURN_H

#include "daemon/op/channel/channel.h"

/* Once a turn, before submit_run: acknowledgements and credits that gathered go out. */
unsigned channels_run(struct worker *w);
/* Before a sleep: true if acknowledgements wait; the next turn tells them. */
bool channels_hurry(struct worker *w);

#endif
