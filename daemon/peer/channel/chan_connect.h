/* SPDX-License-Identifier: MIT */
/*
 * chan_connect.h - channels that sessions of ours connect.
 */
#ifndef RDMAD_PEER_CHANNEL_CHAN_CONNECT_H
#define RDMAD_PEER_CHANNEL_CHAN_CONNECT_H

#include "daemon/peer/channel/chan.h"

/* The channel is WAITING, and the peer is UP. */
void chan_ask(struct chan *c);
/* The seek of a channel that was connected to a service elsewhere (state/channel_away.h). */
void chan_seek(struct channel *ch);
/* The peer that it waits for is this very daemon: it is connected here, without a peer. */
void chan_become_local(struct chan *c);
void chan_take_refuse(struct peer *p, const struct peer_msg *msg);
void chan_take_bind(struct peer *p, const struct peer_msg *msg);

#endif
