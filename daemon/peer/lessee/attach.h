/* SPDX-License-Identifier: MIT */
/*
 * attach.h - our sessions attach to a peer's leases.
 */
#ifndef RDMAD_PEER_LESSEE_ATTACH_H
#define RDMAD_PEER_LESSEE_ATTACH_H

#include "daemon/peer/control/record.h"

void claims_begin(struct peer *p);                         /* the peer is UP */
void claims_become_local(struct peer *p);                  /* the peer is this very daemon */
void claims_lose(struct peer *p, const struct error *why); /* its connection is gone */
void attach_take_rep(struct peer *p, const struct peer_msg *msg);

#endif
