/* SPDX-License-Identifier: MIT */
/*
 * key.h - the key by which a lease is reached over its lane's present link.
 */
#ifndef RDMAD_PEER_LESSEE_KEY_H
#define RDMAD_PEER_LESSEE_KEY_H

#include "daemon/peer/lessee/claim.h"

/* Called before the claim joins its lane: a key is asked for whenever the lane has a new link. */
void key_start(struct claim *c);
/* Asks for the key by which the lane, which is up, reaches the lease. */
void key_ask(struct claim *c);
void key_take_rep(struct peer *p, const struct peer_msg *msg);

#endif
