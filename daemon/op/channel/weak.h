/* SPDX-License-Identifier: MIT */
/*
 * weak.h - channels of the kinds without acknowledgements: their SENDs, and what comes for their
 * RECVs.
 */
#ifndef RDMAD_OP_CHANNEL_WEAK_H
#define RDMAD_OP_CHANNEL_WEAK_H

#include "daemon/op/channel/send.h"

unsigned weak_run(struct op_channel *ch, bool *again);
void weak_over(struct op_send *s, int status);
void weak_posted(struct op_send *s, const struct fabric_op *fop);
void weak_cancel(struct op *op, int status); /* a SEND */
void weak_end(struct op_channel *ch, int code);
/* NULL, or in which way it breaks the protocol. */
const char *weak_receive(struct op_channel *ch, const struct channel_message *m);

#endif
