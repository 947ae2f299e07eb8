/* SPDX-License-Identifier: MIT */
/*
 * former.h - what an earlier connection of the same daemon has left, and its end.
 */
#ifndef RDMAD_PEER_CONNECT_FORMER_H
#define RDMAD_PEER_CONNECT_FORMER_H

#include "daemon/peer/control/record.h"

/* By what p, which we dial, comes to its address. */
void former_line(const struct peer *p, uint8_t line[PEER_LINE_BYTES]);
/* Ends the connections that p, which is WAITING, replaces. false: p->go_on will be called when some
 * of them are gone, or p is refused. */
bool former_gone(struct peer *p);

#endif
