/* SPDX-License-Identifier: MIT */
/*
 * chan_connect.h - channels that sessions of ours connect.
 */
#ifndef RDMAD_PEER_CHANNEL_CHAN_CONNECT_H
#define RDMAD_PEER_CHANNEL_CHAN_CONNECT_H

#include "daemon/peer/channel/chan.h"

/* WAITING, and the peer is UP. */
void chan_ask(struct chan *c);
/* The peer that it waits for is this very daemon: no peer has a part in it. */
void chan_become_local(struct chan *c);
void chan_take_refuse(struct peer *p, const struct peer_msg *msg);
void chan_take_bind(struct peer *p, const struct peer_msg *msg);

#endif
