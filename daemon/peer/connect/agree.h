/* SPDX-License-Identifier: MIT */
/*
 * agree.h - by which fabric two daemons reach each other.
 */
#ifndef RDMAD_PEER_CONNECT_AGREE_H
#define RDMAD_PEER_CONNECT_AGREE_H

#include "daemon/peer/control/record.h"

/* Fills in what we offer. */
void agree_offer(const struct peers *ps, struct peer_hello *hello);
/* Sets p's fabric to the best that both offer. False: there is none, and p is refused. */
bool agree_on(struct peer *p, const struct peer_hello *theirs);

#endif
