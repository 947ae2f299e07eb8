/* SPDX-License-Identifier: MIT */
/*
 * arrivals.h - the arrivals of a channel, by number: without a gap, and at most CHANNEL_WINDOW.
 *
 * They come at the end, and leave at either end. One is found at once, as keys and withdrawals ask
 * for any of them as often as a peer likes.
 */
#ifndef RDMAD_OP_CHANNEL_ARRIVALS_H
#define RDMAD_OP_CHANNEL_ARRIVALS_H

#include "daemon/op/channel/arrival.h"

/* For message number seq, which comes next. NULL: out of memory. */
struct op_arrival *arrival_new(struct op_channel *ch, uint64_t seq);
void arrival_unused(struct op_channel *ch, struct op_arrival *a); /* it was not kept */
void arrival_keep(struct op_arrival *a);                          /* its channel and seq are set */
void arrival_drop(struct op_arrival *a);                          /* the first or the last */
struct op_arrival *arrival_find(struct op_channel *ch, uint64_t seq); /* NULL: none has it */

#endif
