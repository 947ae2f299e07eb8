/* SPDX-License-Identifier: MIT */
/*
 * accept.c - where other daemons dial us.
 *
 * Whoever connects is a stranger until it said hello. Strangers are few (room.c says who makes
 * room) and have little time, so that somebody who only opens connections costs us nothing that an
 * honest daemon needs.
 */
#include "daemon/base/address.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/peer/internal.h"
#include <arpa/inet.h>
#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BACKLOG 128
#define ACCEPT_PAUSE_NS (100 * NSEC_PER_MSEC)
#define ACCEPTS_A_TURN 8u

/* Descriptors ran out: who connects stays in the backlog, so pause instead of spinning on it. */
static void rest(struct peers *ps) {
    uint64_t again = clock_after(state_now(ps->state), ACCEPT_PAUSE_NS);
    room_shed_idle(ps);
    ps->resting = timer_set(&ps->state->timers, &ps->accept_again, again) == 0;
    if (ps->resting)
        evconnlistener_disable(ps->listener);
}

/* So many have come in this turn of the loop; the others wait for the next. */
static void count_accepted(struct peers *ps) {
    if (++ps->accepts == ACCEPTS_A_TURN)
        evconnlistener_disable(ps->listener);
    turn_come(ps);
}

void accept_next_turn(struct peers *ps) {
    if (ps->accepts >= ACCEPTS_A_TURN && ps->listener && !ps->resting)
        evconnlistener_enable(ps->listener);
    ps->accepts = 0;
}

static void accepted(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *sa,
                     int size, void *arg) {
    struct peers *ps = arg;
    (void)listener;
    (void)size;
    count_accepted(ps);
    if (!room_has_descriptor(ps, fd)) {
        LOG_LIMITED(WARNING, ("no descriptor for one more peer: those that are left are kept for "
                              "clients; raise LimitNOFILE"));
        close(fd);
        rest(ps);
        return;
    }
    if (ps->strangers >= 2 * PEER_STRANGERS_MAX) { /* the dropped ones are not even gone yet */
        close(fd);
        return;
    }
    struct peer *p = peer_new(ps, false);
    if (!p) {
        close(fd);
        return;
    }
    p->stage = PEER_GREETING;
    p->stranger = true;
    ps->strangers++;
    peer_note_address(p, sa);
    p->source = address_source(p->ip);
    if (ps->strangers > PEER_STRANGERS_MAX)
        room_for_stranger(p);
    if (peer_start(p, fd)) {
        struct error why;
        error_set(&why, RDMAD_E_NOMEM, "out of memory for its connection");
        peer_doom(p, &why);
        return;
    }
    bufferevent_enable(p->bev, EV_READ);
}

static void accept_failed(struct evconnlistener *listener, void *arg) {
    int saved = EVUTIL_SOCKET_ERROR();
    (void)listener;
    LOG_LIMITED(WARNING, ("cannot accept a peer: %s", strerror(saved)));
    rest(arg);
}

static void accept_resume(struct timer *timer, uint64_t now_ns) {
    struct peers *ps = container_of(timer, struct peers, accept_again);
    (void)now_ns;
    ps->resting = false;
    if (ps->listener)
        evconnlistener_enable(ps->listener);
}

static bool is_wildcard(const struct sockaddr *sa) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)sa;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)sa;
    return sa->sa_family == AF_INET ? v4->sin_addr.s_addr == htonl(INADDR_ANY)
                                    : IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
}

/* What URIs of this daemon say, from what it is bound to. */
static void note_listen(struct peers *ps, const char *host) {
    struct state *st = ps->state;
    socklen_t size = sizeof(ps->bound);
    struct sockaddr *sa = (struct sockaddr *)&ps->bound;
    getsockname(evconnlistener_get_fd(ps->listener), sa, &size);
    st->listen_port = ntohs(sa->sa_family == AF_INET6 ? ((struct sockaddr_in6 *)sa)->sin6_port
                                                      : ((struct sockaddr_in *)sa)->sin_port);
    ps->any_address = is_wildcard(sa);
    snprintf(st->listen_host, sizeof(st->listen_host), "%s",
             ps->any_address ? st->node_name : host);
}

bool peers_are_reachable(const struct peers *ps) {
    return ps->any_address || address_is_here((const struct sockaddr *)&ps->bound);
}

int accept_start(struct peers *ps, struct error *err) {
    const char *listen = ps->state->config->listen;
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char host[RDMAD_HOST_MAX + 1], service[8];
    uint16_t port;

    timer_init(&ps->accept_again, accept_resume);
    const char *wrong = rdmad_hostport_parse(listen, host, &port);
    if (wrong)
        return error_set(err, RDMAD_E_CONFIG, "listen \"%.100s\": %s", listen, wrong);
    snprintf(service, sizeof(service), "%u", port);
    int rc = getaddrinfo(host, service, &hints, &found);
    if (rc) /* no wrong setting, as far as we know: nameservers come up after us, too */
        return error_set(err, RDMAD_E_SYSTEM, "listen \"%.100s\": the name does not resolve: %s",
                         listen, rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    int fd = address_bind(found);
    freeaddrinfo(found);
    if (fd >= 0)
        ps->listener =
            evconnlistener_new(ps->state->base, accepted, ps,
                               LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, BACKLOG, fd);
    if (!ps->listener) {
        error_errno(err, RDMAD_E_SYSTEM, "cannot listen on %.100s", listen);
        if (fd >= 0)
            close(fd);
        return RDMAD_E_SYSTEM;
    }
    evconnlistener_set_error_cb(ps->listener, accept_failed);
    note_listen(ps, host);
    if (!peers_are_reachable(ps))
        LOG(WARNING, ("no interface has the address of listen \"%.100s\" yet: peers reach this "
                      "daemon as soon as one has",
                      listen));
    return 0;
}

void accept_stop(struct peers *ps) {
    timer_unset(&ps->state->timers, &ps->accept_again);
    if (ps->listener)
        evconnlistener_free(ps->listener);
    ps->listener = NULL;
}
