/* SPDX-License-Identifier: MIT */
/*
 * dial.h - connections that we open.
 */
#ifndef RDMAD_PEER_CONNECT_DIAL_H
#define RDMAD_PEER_CONNECT_DIAL_H

#include "daemon/peer/control/record.h"

/* The outgoing peer of that address, dialled now, on uid's account, if there is none. */
int peer_dial(struct peers *ps, const char *host, uint16_t port, uid_t uid, struct peer **out,
              struct error *err);
void dial_timed_out(struct peer *p);
void dial_stop(struct peer *p);

#endif
