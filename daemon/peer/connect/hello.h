/* SPDX-License-Identifier: MIT */
/*
 * hello.h - who the other daemon is, and whether we fit together.
 */
#ifndef RDMAD_PEER_CONNECT_HELLO_H
#define RDMAD_PEER_CONNECT_HELLO_H

#include "daemon/peer/control/record.h"

void hello_begin(struct peer *p); /* what is said reaches the other end */
void hello_take(struct peer *p, const struct peer_msg *msg); /* of one that is not UP */

#endif
