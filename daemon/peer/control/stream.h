/* SPDX-License-Identifier: MIT */
/*
 * stream.h - a connection begins: with a handshake, where this node has an identity.
 */
#ifndef RDMAD_PEER_CONTROL_STREAM_H
#define RDMAD_PEER_CONTROL_STREAM_H

#include "daemon/peer/control/record.h"

/* p's socket is connected: from now on what comes is heard. peer_ops.open is called when it is
 * known who is at the other end; without an identity of ours, at once. */
void stream_begin(struct peer *p);

#endif
