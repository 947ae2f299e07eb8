/* SPDX-License-Identifier: MIT */
/*
 * opening.h - a peer's attach, and the window that is opened for it.
 */
#ifndef RDMAD_PEER_OWNER_OPENING_H
#define RDMAD_PEER_OWNER_OPENING_H

#include "daemon/peer/owner/grant.h"

/* g is attached to l: opens a window for that link, or says that it is attached. */
void opening_attached(struct grant *g, const struct lease *l, uint64_t via);
void opening_take_attach_req(struct peer *p, const struct peer_msg *msg);
void opening_take_key_req(struct peer *p, const struct peer_msg *msg);

#endif
