/* SPDX-License-Identifier: MIT */
/*
 * health.c - TCP_INFO of a link. The kernel's struct, not libc's, which lacks its later half; older
 * kernels fill in less of it, and what is not filled in is 0.
 */
#include "daemon/fabric/tcp/health.h"
#include "daemon/fabric/tcp/link.h"
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

bool tcp_health(struct fabric_link *l, struct fabric_health *out) {
    const struct tcp_link *link = (const struct tcp_link *)l;
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);
    if (link->conn.fd < 0 || getsockopt(link->conn.fd, IPPROTO_TCP, TCP_INFO, &info, &size))
        return false;
    *out = (struct fabric_health){.rtt_ns = (uint64_t)info.tcpi_rtt * 1000,
                                  .bytes_per_second = info.tcpi_delivery_rate,
                                  .retransmits = info.tcpi_total_retrans};
    return true;
}
