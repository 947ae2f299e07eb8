/* SPDX-License-Identifier: MIT */
/*
 * part.h - a part of a lease at a peer: its owner's answer.
 */
#ifndef RDMAD_PEER_LESSEE_PART_H
#define RDMAD_PEER_LESSEE_PART_H

#include "daemon/peer/control/record.h"

void part_take_delegate_rep(struct peer *p, const struct peer_msg *msg);

#endif
