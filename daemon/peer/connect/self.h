/* SPDX-License-Identifier: MIT */
/*
 * self.h - a daemon's connection to itself.
 */
#ifndef RDMAD_PEER_CONNECT_SELF_H
#define RDMAD_PEER_CONNECT_SELF_H

#include "daemon/peer/control/record.h"

/* The other end of an incoming connection, if it is one that this daemon dialled to itself, by the
 * addresses of both sockets; else NULL. */
struct peer *self_other_end(const struct peer *p);

#endif
