/* SPDX-License-Identifier: MIT */
/*
 * room.h - which connections stay when there are too many.
 */
#ifndef RDMAD_PEER_CONNECT_ROOM_H
#define RDMAD_PEER_CONNECT_ROOM_H

#include "daemon/peer/control/record.h"

/* Connections that were accepted and are not UP yet. */
#define PEER_UNGREETED_MAX 64u

/* Gives p, which has none yet, a place; another peer may have to go for it. */
int room_make(struct peer *p, struct error *err);
/* Drops one of those that have not said hello, other than newcomer, which came last. */
void room_drop_ungreeted(struct peer *newcomer);
/* Whether peers may have fd, the newest descriptor: the last ones are kept for clients. */
bool room_has_descriptor(const struct peers *ps, int fd);
void room_shed_idle(struct peers *ps); /* drops one that nobody uses, if there is any */

#endif
