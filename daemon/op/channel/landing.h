/* SPDX-License-Identifier: MIT */
/*
 * landing.h - messages that the fabric receives straight into the posted receive.
 */
#ifndef RDMAD_OP_CHANNEL_LANDING_H
#define RDMAD_OP_CHANNEL_LANDING_H

#include "daemon/op/channel/arrival.h"

struct fabric_landing *landing_start(struct op_arrival *a);
/* Stops it, if there is one: nothing more is written there. status says why. */
void landing_stop(struct op_arrival *a, int status);
void landings_void(struct op_channel *ch); /* what still lands came by a link that is no more */
/* Of fabric_env. */
void channel_landed(struct fabric_landing *landing, int status);

#endif
