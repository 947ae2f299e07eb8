/* SPDX-License-Identifier: MIT */
/*
 * stream.h - a connection that is read from.
 */
#ifndef RDMAD_PEER_CONTROL_STREAM_H
#define RDMAD_PEER_CONTROL_STREAM_H

#include "daemon/peer/control/record.h"

/* What comes from now on is heard: p has a socket that is connected. */
void stream_begin(struct peer *p);

#endif
