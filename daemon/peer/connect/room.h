/* SPDX-License-Identifier: MIT */
/*
 * room.h - who has a place among the peers when there are few.
 */
#ifndef RDMAD_PEER_CONNECT_ROOM_H
#define RDMAD_PEER_CONNECT_ROOM_H

#include "daemon/peer/control/record.h"

/* Connections that were accepted and are not UP yet. */
#define PEER_UNGREETED_MAX 64u

/* A place for p, which has none yet; another may have to go. */
int room_make(struct peer *p, struct error *err);
/* One of those that have not said hello has to go for newcomer, which has not either. */
void room_drop_ungreeted(struct peer *newcomer);
/* Whether fd, the newest, is one that peers may have. */
bool room_has_descriptor(const struct peers *ps, int fd);
void room_shed_idle(struct peers *ps); /* one of those that nobody uses, if there is any */

#endif
