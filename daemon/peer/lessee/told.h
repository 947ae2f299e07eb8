/* SPDX-License-Identifier: MIT */
/*
 * told.h - what a lease's owner says of it to its lessee.
 */
#ifndef RDMAD_PEER_LESSEE_TOLD_H
#define RDMAD_PEER_LESSEE_TOLD_H

#include "daemon/peer/control/record.h"

void told_take_revoked(struct peer *p, const struct peer_msg *msg);
void told_take_renewed(struct peer *p, const struct peer_msg *msg);
void told_take_ttl_rep(struct peer *p, const struct peer_msg *msg);
void told_take_keep_rep(struct peer *p, const struct peer_msg *msg);

#endif
