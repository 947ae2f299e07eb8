/* SPDX-License-Identifier: MIT */
/*
 * self.c - a daemon's connection to itself.
 *
 * Where the device's atomics are not the CPU's, a lease with the right to atomics is reached by
 * link even from its owner's own node, so that all of its atomics are the device's. The daemon then
 * is its own peer. Its other end must know that, because the lessee is a session here, with a uid
 * that scopes may ask for: two sockets of ours are the ends of one connection when each has the
 * address that the other is connected to, which nobody else can make so.
 */
#include "daemon/peer/connect/self.h"
#include "daemon/base/address.h"
#include "daemon/peer/control/transport.h"
#include <arpa/inet.h>
#include <string.h>

struct place { /* of a socket's end */
    struct in6_addr ip;
    uint16_t port;
};

static bool place_of(int (*ask)(int, struct sockaddr *, socklen_t *), const struct peer *p,
                     struct place *out) {
    struct sockaddr_storage at = {0};
    socklen_t size = sizeof(at);
    memset(out, 0, sizeof(*out));
    if (!p->way || ask(transport_socket(p->way), (struct sockaddr *)&at, &size) ||
        !address_of_sockaddr((struct sockaddr *)&at, out->ip.s6_addr))
        return false;
    out->port = at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                         : ((struct sockaddr_in *)&at)->sin_port;
    return true;
}

static bool same_place(const struct place *a, const struct place *b) {
    return a->port == b->port && memcmp(&a->ip, &b->ip, sizeof(a->ip)) == 0;
}

struct peer *self_other_end(const struct peer *p) {
    const struct state *st = p->peers->state;
    struct place here, there, its_here, its_there;

    if (p->outgoing || memcmp(p->node_id, st->node_id, sizeof(st->node_id)) != 0 ||
        !place_of(getsockname, p, &here) || !place_of(getpeername, p, &there))
        return NULL;
    list_for_each (node, &p->peers->all) {
        struct peer *q = list_entry(node, struct peer, node);
        if (q->outgoing && q->is_self && place_of(getsockname, q, &its_here) &&
            place_of(getpeername, q, &its_there) && same_place(&here, &its_there) &&
            same_place(&there, &its_here))
            return q;
    }
    return NULL;
}
