/* SPDX-License-Identifier: MIT */
/*
 * room.h - which connections stay when there are too many.
 */
#ifndef RDMAD_PEER_CONNECT_ROOM_H
#define RDMAD_PEER_CONNECT_ROOM_H

#include "daemon/peer/control/record.h"

/* Connections that were accepted and are not UP yet. */
#define PEER_UNGREETED_MAX 64u

/* A place for p, which has none yet; another may have to go. */
int room_make(struct peer *p, struct error *err);
/* Drops one of those that have not said hello, but not newcomer, which came last. */
void room_drop_ungreeted(struct peer *newcomer);
/* Whether fd, the newest, is one that peers may have. */
bool room_has_descriptor(const struct peers *ps, int fd);
void room_shed_idle(struct peers *ps); /* one of those that nobody uses, if there is any */

#endif
