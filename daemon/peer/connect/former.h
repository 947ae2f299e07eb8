/* SPDX-License-Identifier: MIT */
/*
 * former.h - what an earlier connection of the same daemon has left is ended before the next is
 * answered.
 */
#ifndef RDMAD_PEER_CONNECT_FORMER_H
#define RDMAD_PEER_CONNECT_FORMER_H

#include "daemon/peer/control/record.h"

/* Fills in the line of p, which we dial: a number that only we and whoever answers at its address
 * know. */
void former_line(const struct peer *p, uint8_t line[PEER_LINE_BYTES]);
/* Ends the connections that p, which is WAITING, replaces. True: nothing is left of them. False:
 * p->go_on will be called when some are gone, or p is refused. */
bool former_gone(struct peer *p);

#endif
