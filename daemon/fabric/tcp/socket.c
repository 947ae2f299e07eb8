/* SPDX-License-Identifier: MIT */
/*
 * socket.c - options of data connections: no delay, and a bound on silence.
 */
#include "daemon/fabric/tcp/socket.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/retransmit.h"
#include "daemon/base/upper_fd.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

void address_text(char out[TCP_ADDRESS_TEXT], const struct sockaddr_storage *a) {
    char host[INET6_ADDRSTRLEN] = "?";
    if (a->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)a;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        snprintf(out, TCP_ADDRESS_TEXT, "[%s]:%u", host, ntohs(in6->sin6_port));
    } else {
        const struct sockaddr_in *in = (const struct sockaddr_in *)a;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(out, TCP_ADDRESS_TEXT, "%s:%u", host, ntohs(in->sin_port));
    }
}

static int socket_set(int fd, int level, int name, int value) {
    return setsockopt(fd, level, name, &value, sizeof value);
}

static bool is_kept_for_others(int fd, const struct fabric_settings *s) {
    if (!s->descriptors || upper_fd_is_below(fd, s->descriptors))
        return false;
    LOG_LIMITED(WARNING,
                ("no descriptor for one more data connection: those that are left are kept "
                 "for clients; raise LimitNOFILE"));
    errno = EMFILE;
    return true;
}

int socket_prepare(int fd, const struct fabric_settings *s) {
    if (is_kept_for_others(fd, s))
        return RDMAD_E_SYSTEM;
    /* A host without the algorithm is no reason to refuse a peer. */
    const char *algorithm = s->congestion_control;
    if (algorithm[0])
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, algorithm, (socklen_t)strlen(algorithm));

    uint64_t dead_ms = s->dead_peer_ns / 1000000;
    int ms = dead_ms < 1000 ? 1000 : dead_ms > 3600000 ? 3600000 : (int)dead_ms;
    int idle_s = ms / 1000, probe_s = idle_s < 3 ? 1 : idle_s / 3;
    return socket_set(fd, IPPROTO_TCP, TCP_NODELAY, 1) ||
                   socket_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, ms) ||
                   socket_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1) ||
                   socket_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_s) ||
                   socket_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, probe_s) ||
                   socket_set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3)
               ? RDMAD_E_SYSTEM
               : 0;
}

/* Not before: a connect is tried for as long as it was. */
void socket_connected(int fd, const struct fabric_settings *s) {
    retransmit_bound(fd, s->dead_peer_ns / NSEC_PER_MSEC);
}
