/* SPDX-License-Identifier: MIT */
/*
 * agree.h - in which version of their protocol two daemons talk, and by which fabric they reach
 * each other.
 */
#ifndef RDMAD_PEER_CONNECT_AGREE_H
#define RDMAD_PEER_CONNECT_AGREE_H

#include "daemon/peer/control/record.h"

/* Sets p's version to the highest that both speak. False: there is none, and p is refused. */
bool agree_on_version(struct peer *p, const struct peer_hello *theirs);
/* Fills in what we offer. */
void agree_offer(const struct peers *ps, struct peer_hello *hello);
/* Sets p's fabric to the best that both offer. False: there is none, and p is refused. */
bool agree_on(struct peer *p, const struct peer_hello *theirs);

#endif
