/* SPDX-License-Identifier: MIT */
/*
 * retransmit.h - how soon TCP sends again what was lost.
 *
 * TCP doubles its pause each time (RFC 6298, 5.5). So a connection that has lost all for five
 * seconds may be silent for five more after the network is whole, and is given up as dead, or
 * misses the moment that there is between two losses. Linux 6.15 lets a socket bound that pause.
 */
#ifndef RDMAD_BASE_RETRANSMIT_H
#define RDMAD_BASE_RETRANSMIT_H

#include <stdbool.h>

/* TCP_RTO_MAX_MS of a connected socket: at most a second between two tries, the least that Linux
 * takes. False: the kernel does not know it, and all is as before. errno stays.
 *
 * How long Linux tries in all is counted by tries (tcp_retries2 in tcp(7)), and so bounded to 15 s
 * as well, if the socket has no TCP_USER_TIMEOUT: the caller sets one. */
bool retransmit_bound(int fd);

#endif
