/* SPDX-License-Identifier: MIT */
/*
 * chan_peer.h - what becomes of the channels with a peer.
 */
#ifndef RDMAD_PEER_CHANNEL_CHAN_PEER_H
#define RDMAD_PEER_CHANNEL_CHAN_PEER_H

#include "daemon/peer/control/record.h"

void chans_begin(struct peer *p);                         /* the peer is UP */
void chans_become_local(struct peer *p);                  /* the peer is this very daemon */
void chans_lose(struct peer *p, const struct error *why); /* its connection is gone */
void chan_take_end(struct peer *p, const struct peer_msg *msg);

#endif
