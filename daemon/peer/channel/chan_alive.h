/* SPDX-License-Identifier: MIT */
/*
 * chan_alive.h - a peer asks whether the program at our end of a channel lives, or answers what we
 * have asked.
 */
#ifndef RDMAD_PEER_CHANNEL_CHAN_ALIVE_H
#define RDMAD_PEER_CHANNEL_CHAN_ALIVE_H

#include "daemon/peer/control/record.h"

void chan_take_alive(struct peer *p, const struct peer_msg *msg);

#endif
