/* SPDX-License-Identifier: MIT */
/*
 * offer.h - links that a peer asks of our workers.
 */
#ifndef RDMAD_PEER_LANE_OFFER_H
#define RDMAD_PEER_LANE_OFFER_H

#include "daemon/peer/control/record.h"

/* Link offers being made for one peer; an honest one asks for one a lane at a time. */
#define PEER_OFFERS_MAX 64u
/* Links of one peer being forgotten: all that it may have (verbs.links_per_peer) can go at once. */
#define PEER_FORGETS_MAX 4096u

void offer_take_link_req(struct peer *p, const struct peer_msg *msg);
void offer_take_link_gone(struct peer *p, const struct peer_msg *msg);

#endif
