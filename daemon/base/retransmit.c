/* SPDX-License-Identifier: MIT */
/*
 * retransmit.c - the bound of TCP's pauses.
 */
#include "daemon/base/retransmit.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#ifndef TCP_RTO_MAX_MS /* linux/tcp.h; glibc has it later */
#define TCP_RTO_MAX_MS 44
#endif

/* What Linux takes. */
#define PAUSE_LEAST_MS 1000u
#define PAUSE_MOST_MS 120000u

bool retransmit_bound(int fd, uint64_t silence_ms) {
    uint64_t tenth_ms = silence_ms / 10;
    int saved = errno, pause_ms = tenth_ms < PAUSE_LEAST_MS  ? (int)PAUSE_LEAST_MS
                                  : tenth_ms > PAUSE_MOST_MS ? (int)PAUSE_MOST_MS
                                                             : (int)tenth_ms;
    bool known = setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &pause_ms, sizeof(pause_ms)) == 0;
    errno = saved;
    return known;
}
