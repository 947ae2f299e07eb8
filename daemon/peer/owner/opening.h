/* SPDX-License-Identifier: MIT */
/*
 * opening.h - a peer's attach, and the window that is opened for it.
 */
#ifndef RDMAD_PEER_OWNER_OPENING_H
#define RDMAD_PEER_OWNER_OPENING_H

#include "daemon/peer/owner/grant.h"

/* g is attached to l: opens a window for the link via, or only answers the lessee if there is no
 * link yet (0). Refuses it if the peer's fabric leaves none of the lease's rights. */
void opening_attached(struct grant *g, const struct lease *l, uint64_t via);
void opening_take_attach_req(struct peer *p, const struct peer_msg *msg);
void opening_take_key_req(struct peer *p, const struct peer_msg *msg);

#endif
