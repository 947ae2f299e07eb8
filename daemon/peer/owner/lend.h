/* SPDX-License-Identifier: MIT */
/*
 * lend.h - what a lessee may ask beyond an attach.
 */
#ifndef RDMAD_PEER_OWNER_LEND_H
#define RDMAD_PEER_OWNER_LEND_H

#include "daemon/peer/control/record.h"

void lend_take_delegate_req(struct peer *p, const struct peer_msg *msg);
void lend_take_request_req(struct peer *p, const struct peer_msg *msg);
void lend_take_keep_req(struct peer *p, const struct peer_msg *msg);

#endif
