/* SPDX-License-Identifier: MIT */
/*
 * own_address.c - at which address this daemon is reached: by others, and by itself.
 *
 * Others are told a number, not a name: they may not be able to resolve a name, and would have to
 * ask a nameserver for it.
 */
#include "daemon/peer/connect/own_address.h"
#include "daemon/base/address.h"
#include "daemon/peer/peer.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool own_address_is_wildcard(const struct sockaddr *sa) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)sa;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)sa;
    return sa->sa_family == AF_INET ? v4->sin_addr.s_addr == htonl(INADDR_ANY)
                                    : IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
}

/* What URIs of this daemon say, from what it is bound to. */
int own_address_note(struct peers *ps, int fd, const char *host, struct error *err) {
    struct state *st = ps->state;
    socklen_t size = sizeof(ps->bound);
    struct sockaddr *sa = (struct sockaddr *)&ps->bound;
    if (getsockname(fd, sa, &size) < 0)
        return error_errno(err, RDMAD_E_SYSTEM, "at which address it listens cannot be asked");
    st->listen_port = ntohs(sa->sa_family == AF_INET6 ? ((struct sockaddr_in6 *)sa)->sin6_port
                                                      : ((struct sockaddr_in *)sa)->sin_port);
    ps->any_address = own_address_is_wildcard(sa);
    snprintf(st->listen_host, sizeof(st->listen_host), "%s",
             ps->any_address ? st->node_name : host);
    return 0;
}

bool peers_are_reachable(const struct peers *ps) {
    return ps->any_address || address_is_here((const struct sockaddr *)&ps->bound);
}

bool peers_is_self(const struct peers *ps, const struct rdmad_uri *uri) {
    const struct state *st = ps->state;
    return !uri->host[0] ||
           (uri->port == st->listen_port && (strcasecmp(uri->host, st->listen_host) == 0 ||
                                             strcasecmp(uri->host, st->node_name) == 0));
}

void own_address_dialled(const struct peers *ps, char host[RDMAD_HOST_MAX + 1], uint16_t *port) {
    bool six = ps->bound.ss_family == AF_INET6;
    *port = ps->state->listen_port;
    snprintf(host, RDMAD_HOST_MAX + 1, "%s",
             ps->any_address ? (six ? "::1" : "127.0.0.1") : ps->state->listen_host);
}

void own_address_told(const struct peers *ps, char host[RDMAD_NAME_MAX + 1]) {
    const char *listen = ps->state->listen_host;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&ps->bound;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&ps->bound;
    bool six = ps->bound.ss_family == AF_INET6;
    const void *ip = six ? (const void *)&v6->sin6_addr : (const void *)&v4->sin_addr;
    host[0] = '\0';
    if (ps->any_address)
        return;
    if (six && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) && strlen(listen) <= RDMAD_NAME_MAX)
        memcpy(host, listen, strlen(listen) + 1); /* is of no use without its interface */
    else if (!inet_ntop(ps->bound.ss_family, ip, host, RDMAD_NAME_MAX + 1))
        host[0] = '\0';
}
