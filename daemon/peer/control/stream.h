/* SPDX-License-Identifier: MIT */
/*
 * stream.h - reading from a connection begins.
 */
#ifndef RDMAD_PEER_CONTROL_STREAM_H
#define RDMAD_PEER_CONTROL_STREAM_H

#include "daemon/peer/control/record.h"

/* p's socket is connected: from now on what comes is heard. */
void stream_begin(struct peer *p);

#endif
