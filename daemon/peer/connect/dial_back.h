/* SPDX-License-Identifier: MIT */
/*
 * dial_back.h - which address we dial because a peer asks for it.
 */
#ifndef RDMAD_PEER_CONNECT_DIAL_BACK_H
#define RDMAD_PEER_CONNECT_DIAL_BACK_H

#include "daemon/peer/control/record.h"

/* Whether p, which connected to us, may make us dial that address. host "": the address it comes
 * from. */
int dial_back_check(const struct peer *p, const char *host, uint16_t port, struct error *err);

/* Dials it, if p may; for that user, as peer_dial. From then on p may name no other. */
int dial_back(struct peer *p, const char *host, uint16_t port, struct user_id user,
              struct peer **out, struct error *err);

#endif
