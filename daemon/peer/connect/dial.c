/* SPDX-License-Identifier: MIT */
/*
 * dial.c - from HOST:PORT to a connection that can say hello.
 *
 * The happy path: an address is taken as it stands, a name goes to the system's resolver on a
 * thread of its own (base/resolve.h), then each address is tried in turn until one connects. A name
 * that does not resolve is told as that, and so is a resolver that has not answered in time.
 *
 * A daemon that listens on one address also dials from it: that is how the other side knows whom a
 * lease is for (scope peer), when a host has several. Loopback is the exception, it reaches nothing
 * but loopback.
 */
#include "daemon/peer/connect/dial.h"
#include "daemon/base/address.h"
#include "daemon/base/resolve.h"
#include "daemon/base/upper_fd.h"
#include "daemon/peer/connect/hello.h"
#include "daemon/peer/connect/room.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/liveness.h"
#include "daemon/peer/control/stream.h"
#include "daemon/peer/control/transport.h"
#include "daemon/peer/peer.h"
#include "daemon/state/identity.h"
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void dial_unreachable(struct peer *p, const char *why) {
    struct error err;
    error_set(&err, RDMAD_E_UNREACHABLE,
              "the daemon at %.100s cannot be reached: %s; is rdmad running and listening there?",
              p->dialled, why);
    peer_end(p, &err);
}

static void dial_no_own_address(struct peer *p) {
    struct error err;
    error_set(&err, RDMAD_E_UNREACHABLE,
              "the daemon at %.80s cannot be dialled: no interface here has the address of "
              "listen \"%.80s\", which it would be dialled from",
              p->dialled, p->peers->state->config->listen);
    peer_end(p, &err);
}

static void dial_in_clear(struct peer *p) {
    struct error err;
    error_set(
        &err, RDMAD_E_PERM,
        "the daemon at %.80s is not dialled: it is beyond loopback, and this node has no "
        "identity (%.160s): \"rdmactl cluster init\" or \"rdmactl cluster join\" makes one; on "
        "a closed test network set \"peer.insecure\": true",
        p->dialled, identity_dir(p->peers->state));
    peer_end(p, &err);
}

/* The port is not part of it: any free one does. */
static bool dial_bind_source(int fd, const struct peers *ps, const struct sockaddr *to) {
    struct sockaddr_storage from = ps->bound;
    struct sockaddr_in *v4 = (struct sockaddr_in *)&from;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&from;
    int on = 1;

    if (from.ss_family != to->sa_family)
        return true;
    if (to->sa_family == AF_INET) {
        uint32_t ours = ntohl(v4->sin_addr.s_addr);
        uint32_t theirs = ntohl(((const struct sockaddr_in *)to)->sin_addr.s_addr);
        if (ours == INADDR_ANY || (ours >> 24 == 127 && theirs >> 24 != 127))
            return true;
        v4->sin_port = 0;
    } else {
        const struct in6_addr *theirs = &((const struct sockaddr_in6 *)to)->sin6_addr;
        if (IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr) ||
            (IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) && !IN6_IS_ADDR_LOOPBACK(theirs)))
            return true;
        v6->sin6_port = 0;
    }
    (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    return bind(fd, (struct sockaddr *)&from,
                to->sa_family == AF_INET ? sizeof(*v4) : sizeof(*v6)) == 0;
}

/* Beyond loopback nobody talks in clear, unless he was told to. */
static bool dial_may_reach(const struct peers *ps, const struct sockaddr *to) {
    return identity_of(ps->state) || ps->state->config->peer_insecure || address_is_loopback(to);
}

static void dial_happened(void *arg, int system_error);

/* Starts connecting to one address. false: errno says why not. */
static bool dial_try_address(struct peer *p, const struct addrinfo *a) {
    int fd = upper_fd(socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd >= 0 && !room_has_descriptor(p->peers, fd)) {
        close(fd);
        fd = -1;
        errno = EMFILE;
    }
    if (fd < 0) {
        int saved = errno;
        if (saved == EMFILE || saved == ENFILE)
            room_shed_idle(p->peers);
        errno = saved;
        return false;
    }
    peer_note_address(p, a->ai_addr);
    if (!dial_may_reach(p->peers, a->ai_addr)) {
        close(fd);
        errno = EACCES;
        return false;
    }
    if (!dial_bind_source(fd, p->peers, a->ai_addr)) {
        close(fd);
        return false;
    }
    p->way = transport_new(p->peers->state->base, fd);
    if (!p->way) {
        errno = ENOMEM;
        return false;
    }
    return transport_connect(p->way, a->ai_addr, (int)a->ai_addrlen, dial_happened, p);
}

static void dial_close(struct peer *p) {
    if (p->way)
        transport_close(p->way);
    p->way = NULL;
}

static void dial_next(struct peer *p, int system_error) {
    while (p->next_address) {
        const struct addrinfo *a = p->next_address;
        p->next_address = a->ai_next;
        if (dial_try_address(p, a))
            return;
        system_error = errno;
        dial_close(p);
    }
    if (system_error == EACCES && !identity_of(p->peers->state))
        dial_in_clear(p);
    else if (system_error == EADDRNOTAVAIL && !peers_are_reachable(p->peers))
        dial_no_own_address(p);
    else
        dial_unreachable(p, strerror(system_error));
}

/* The address that was tried last answers, or does not. */
static void dial_happened(void *arg, int system_error) {
    struct peer *p = arg;
    assert(p->stage == PEER_CONNECTING);
    if (!system_error) {
        peer_enter(p, PEER_GREETING);
        stream_begin(p);
    } else {
        dial_close(p);
        dial_next(p, system_error);
    }
}

static void dial_addresses(struct peer *p, struct addrinfo *found) {
    p->addresses = p->next_address = found;
    dial_next(p, 0);
}

static void dial_resolved(void *arg, const struct error *result, struct addrinfo *found) {
    struct peer *p = arg;
    p->resolving = NULL;
    if (result->code)
        peer_end(p, result);
    else if (p->ending)
        freeaddrinfo(found);
    else
        dial_addresses(p, found);
}

static void dial_resolve(struct peer *p) {
    struct peers *ps = p->peers;
    if (!ps->resolver)
        ps->resolver = resolver_new(ps->state->mailbox, getaddrinfo);
    if (ps->resolver)
        p->resolving = resolver_ask(ps->resolver, p->host, p->port, p->dialler, dial_resolved, p);
    if (!p->resolving)
        dial_unreachable(p, "out of memory to look its name up");
}

static void dial_start(struct peer *p) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[8];

    snprintf(service, sizeof(service), "%u", p->port);
    if (getaddrinfo(p->host, service, &hints, &found) == 0)
        dial_addresses(p, found);
    else
        dial_resolve(p);
}

static struct peer *dial_anew(struct peers *ps, const char *host, uint16_t port,
                              struct user_id user, struct error *err) {
    if (port == 0) {
        error_set(err, RDMAD_E_URI, "port 0 of %.100s cannot be dialled", host);
        return NULL;
    }
    struct peer *p = peer_new(ps, true);
    if (!p) {
        error_set(err, RDMAD_E_NOMEM, "out of memory for a peer");
        return NULL;
    }
    liveness_start(p);
    snprintf(p->host, sizeof(p->host), "%s", host);
    p->port = port;
    p->dialler = user;
    rdmad_hostport_print(host, port, p->dialled, sizeof(p->dialled));
    snprintf(p->address, sizeof(p->address), "%.*s", (int)sizeof(p->address) - 1, p->dialled);
    if (room_make(p, err)) {
        peer_end(p, err);
        return NULL;
    }
    dial_start(p);
    return p;
}

int peer_dial(struct peers *ps, const char *host, uint16_t port, struct user_id user,
              struct peer **out, struct error *err) {
    if (ps->stopping)
        return error_set(err, RDMAD_E_SHUTDOWN, "rdmad is stopping and dials nobody");
    *out = peers_find_dialled(ps, host, port);
    if (!*out)
        *out = dial_anew(ps, host, port, user, err);
    else if ((*out)->resolving)
        lookup_wanted_by((*out)->resolving, user); /* somebody else needs the peer, too */
    return *out ? 0 : err->code;
}

void dial_timed_out(struct peer *p) {
    struct error why;
    if (p->resolving)
        error_set(&why, RDMAD_E_UNREACHABLE,
                  "the name \"%.60s\" was not resolved within %" PRIu64 " ms; waited for %s",
                  p->host, p->peers->state->config->attach_timeout_ms,
                  lookup_waits_for(p->resolving));
    else
        error_set(&why, RDMAD_E_UNREACHABLE,
                  "the daemon at %.100s does not answer; is it up and reachable?", p->dialled);
    peer_end(p, &why);
}

void dial_stop(struct peer *p) {
    if (p->resolving)
        lookup_cancel(p->resolving);
    p->resolving = NULL;
    if (p->addresses)
        freeaddrinfo(p->addresses);
    p->addresses = p->next_address = NULL;
}
