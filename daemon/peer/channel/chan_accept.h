/* SPDX-License-Identifier: MIT */
/*
 * chan_accept.h - channels that others connect to services of ours.
 */
#ifndef RDMAD_PEER_CHANNEL_CHAN_ACCEPT_H
#define RDMAD_PEER_CHANNEL_CHAN_ACCEPT_H

#include "daemon/peer/channel/chan.h"

/* The channel is DIALLING, and the peer that we dialled back is UP. */
void chan_bind_back(struct chan *c);
void chan_take_req(struct peer *p, const struct peer_msg *msg);
void chan_take_again(struct peer *p, const struct peer_msg *msg);
void chan_take_open(struct peer *p, const struct peer_msg *msg);

#endif
