/* SPDX-License-Identifier: MIT */
/*
 * key.h - by what a lease is reached over the lane of the moment.
 */
#ifndef RDMAD_PEER_LESSEE_KEY_H
#define RDMAD_PEER_LESSEE_KEY_H

#include "daemon/peer/lessee/claim.h"

/* From now on the claim's key follows its lane, which it has not joined yet. */
void key_start(struct claim *c);
void key_take_rep(struct peer *p, const struct peer_msg *msg);

#endif
