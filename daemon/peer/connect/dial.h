/* SPDX-License-Identifier: MIT */
/*
 * dial.h - connections that we open.
 */
#ifndef RDMAD_PEER_CONNECT_DIAL_H
#define RDMAD_PEER_CONNECT_DIAL_H

#include "daemon/peer/control/record.h"

/* Finds the outgoing peer of that address. If there is none, dials it, and its place is charged to
 * the user. */
int peer_dial(struct peers *ps, const char *host, uint16_t port, struct user_id user,
              struct peer **out, struct error *err);
void dial_timed_out(struct peer *p);
void dial_stop(struct peer *p);

#endif
