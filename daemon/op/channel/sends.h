/* SPDX-License-Identifier: MIT */
/*
 * sends.h - the SENDs of a reliable channel: in what order they go, and what the other end says.
 */
#ifndef RDMAD_OP_CHANNEL_SENDS_H
#define RDMAD_OP_CHANNEL_SENDS_H

#include "daemon/op/channel/send.h"

void send_cancel(struct op_channel *ch, struct op *op, int status);
/* Returns NULL, or how it breaks the protocol. */
const char *sends_state(struct op_channel *ch, const struct channel_state *st);
void send_posted(struct op_send *s, const struct fabric_op *fop); /* the fabric gave it back */
/* Sends what can be; *again is set when there is more for which there was no room. Returns how
 * many. */
unsigned sends_run(struct op_channel *ch, bool *again);
void sends_end(struct op_channel *ch); /* all of them, as the channel ends */
/* An end began anew, and via may be another. Returns what it cost, in SENDs that it looked at. */
unsigned sends_rekey(struct op_channel *ch);
/* The channel's way is gone (rest.c). First, once: */
void sends_rest(struct op_channel *ch);
void sends_give_up_all(struct op_channel *ch); /* those that were sent, some a turn */
bool sends_rested(const struct op_channel *ch);
void sends_begin_anew(struct op_channel *ch); /* with number 0, once they have */

#endif
