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
#include <stdint.h>

/* TCP_RTO_MAX_MS of a connected socket whose other end may be silent for so long: the pause is at
 * most a tenth of that, and a second if that is more. False: the kernel does not know it, and all
 * is as before. errno stays.
 *
 * Linux counts how often it tries, 15 times (tcp_retries2 in tcp(7)), so the bound is one of the
 * whole time as well: a little longer than the silence. Without a TCP_USER_TIMEOUT, or to a
 * receiver that has no room, that is when the connection breaks. On a way of a longer round trip
 * than the pause all is sent more often than it need be. */
bool retransmit_bound(int fd, uint64_t silence_ms);

#endif
