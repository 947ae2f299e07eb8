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

#define PAUSE_MAX_MS 1000

bool retransmit_bound(int fd) {
    int saved = errno, pause_ms = PAUSE_MAX_MS;
    bool known = setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &pause_ms, sizeof(pause_ms)) == 0;
    errno = saved;
    return known;
}
