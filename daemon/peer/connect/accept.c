/* SPDX-License-Identifier: MIT */
/*
 * accept.c - where other daemons dial us.
 *
 * Connections that have not said hello are few (room.c says which has to go) and have little time,
 * so somebody who only opens connections takes nothing that an honest daemon needs.
 */
#include "daemon/peer/connect/accept.h"
#include "common/uri.h"
#include "daemon/base/address.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/upper_fd.h"
#include "daemon/peer/connect/own_address.h"
#include "daemon/peer/connect/room.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/liveness.h"
#include "daemon/peer/control/stream.h"
#include "daemon/peer/control/transport.h"
#include "daemon/peer/control/turn.h"
#include "daemon/peer/peer.h"
#include "daemon/state/identity.h"
#include <arpa/inet.h>
#include <errno.h>
#include <event2/listener.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BACKLOG 128
#define ACCEPT_PAUSE_NS (100 * NSEC_PER_MSEC)
#define ACCEPTS_A_TURN 8u

/* Descriptors ran out: connections stay in the backlog, so pause instead of spinning on it. */
static void accept_rest(struct peers *ps) {
    uint64_t again = clock_after(state_now(ps->state), ACCEPT_PAUSE_NS);
    room_shed_idle(ps);
    ps->resting = timer_set(&ps->state->timers, &ps->accept_again, again) == 0;
    if (ps->resting)
        evconnlistener_disable(ps->listener);
}

/* So many have come in this turn of the loop; the others wait for the next. */
static void accept_count(struct peers *ps) {
    if (++ps->accepts == ACCEPTS_A_TURN)
        evconnlistener_disable(ps->listener);
    turn_request(ps);
}

void accept_next_turn(struct peers *ps) {
    if (ps->accepts >= ACCEPTS_A_TURN && ps->listener && !ps->resting)
        evconnlistener_enable(ps->listener);
    ps->accepts = 0;
}

static void accept_comes(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *sa,
                         int size, void *arg) {
    struct peers *ps = arg;
    (void)listener;
    (void)size;
    accept_count(ps);
    fd = upper_fd(fd);
    if (!room_has_descriptor(ps, fd)) {
        LOG_LIMITED(WARNING, ("no descriptor for one more peer: those that are left are kept for "
                              "clients; raise LimitNOFILE"));
        close(fd);
        accept_rest(ps);
        return;
    }
    if (ps->ungreeted >= 2 * PEER_UNGREETED_MAX) { /* the dropped ones are not even gone yet */
        close(fd);
        return;
    }
    struct peer *p = peer_new(ps, false);
    if (!p) {
        close(fd);
        return;
    }
    liveness_start(p);
    peer_note_address(p, sa);
    p->source = address_source(p->ip);
    if (ps->ungreeted > PEER_UNGREETED_MAX)
        room_drop_ungreeted(p);
    p->way = transport_new(ps->state->base, fd);
    if (!p->way) {
        struct error why;
        error_set(&why, RDMAD_E_NOMEM, "out of memory for its connection");
        peer_end(p, &why);
        return;
    }
    stream_begin(p);
}

static void accept_failed(struct evconnlistener *listener, void *arg) {
    int saved = EVUTIL_SOCKET_ERROR();
    (void)listener;
    LOG_LIMITED(WARNING, ("cannot accept a peer: %s", strerror(saved)));
    accept_rest(arg);
}

static void accept_resume(struct timer *timer, uint64_t now_ns) {
    struct peers *ps = container_of(timer, struct peers, accept_again);
    (void)now_ns;
    ps->resting = false;
    if (ps->listener)
        evconnlistener_enable(ps->listener);
}

void accept_timed_out(struct peer *p) {
    struct error why;
    if (p->stage == PEER_WAITING)
        error_set(&why, RDMAD_E_TIMEOUT,
                  "what is left of the former connection of %s at %s does not end", p->name,
                  p->address);
    else
        error_set(&why, RDMAD_E_TIMEOUT, "it connected from %s and did not say hello", p->address);
    peer_end(p, &why);
}

/* Beyond loopback nobody talks in clear, unless he was told to. */
static bool accept_may_listen(const struct state *st, int fd) {
    struct sockaddr_storage at = {0};
    socklen_t size = sizeof(at);
    return identity_of(st) || st->config->peer_insecure ||
           (getsockname(fd, (struct sockaddr *)&at, &size) == 0 &&
            address_is_loopback((struct sockaddr *)&at));
}

/* For errno. */
static int accept_cannot(const char *listen, struct error *err) {
    if (errno == EADDRINUSE)
        return error_set(err, RDMAD_E_SYSTEM,
                         "cannot listen on %.100s: %s: another program has that port; give rdmad "
                         "another by --listen HOST:PORT, or by \"listen\" in its settings",
                         listen, strerror(errno));
    return error_errno(err, RDMAD_E_SYSTEM, "cannot listen on %.100s", listen);
}

/* Binds *fd to config.listen, whose host goes to host; any_port: to any port there. */
static int accept_bind(const struct state *st, bool any_port, char host[RDMAD_HOST_MAX + 1],
                       int *fd, struct error *err) {
    const char *listen = st->config->listen;
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char service[8];
    uint16_t port;
    const char *wrong = rdmad_hostport_parse(listen, host, &port);
    if (wrong)
        return error_set(err, RDMAD_E_CONFIG, "listen \"%.100s\": %s", listen, wrong);
    snprintf(service, sizeof(service), "%u", any_port ? 0 : port);
    int rc = getaddrinfo(host, service, &hints, &found);
    if (rc) /* no wrong setting, as far as we know: nameservers come up after us, too */
        return error_set(err, RDMAD_E_SYSTEM, "listen \"%.100s\": the name does not resolve: %s",
                         listen, rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    *fd = address_bind(found);
    int saved = errno;
    freeaddrinfo(found);
    errno = saved;
    if (*fd < 0)
        return accept_cannot(listen, err);
    if (accept_may_listen(st, *fd))
        return 0;
    close(*fd);
    return error_set(err, RDMAD_E_CONFIG,
                     "listen \"%.100s\" is not loopback, and this node has no identity (%.200s): "
                     "\"rdmactl cluster init\" or \"rdmactl cluster join\" makes one; on a closed "
                     "test network set \"peer.insecure\": true",
                     listen, identity_dir(st));
}

int peers_check(const struct state *st, bool any_port, struct error *err) {
    char host[RDMAD_HOST_MAX + 1];
    int fd, rc = accept_bind(st, any_port, host, &fd, err);
    if (!rc)
        close(fd);
    return rc;
}

int accept_start(struct peers *ps, struct error *err) {
    const char *listen = ps->state->config->listen;
    char host[RDMAD_HOST_MAX + 1];
    int fd;

    timer_init(&ps->accept_again, accept_resume);
    int rc = accept_bind(ps->state, false, host, &fd, err);
    if (rc)
        return rc;
    ps->listener = evconnlistener_new(ps->state->base, accept_comes, ps,
                                      LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, BACKLOG, fd);
    if (!ps->listener) {
        rc = accept_cannot(listen, err);
        close(fd);
        return rc;
    }
    evconnlistener_set_error_cb(ps->listener, accept_failed);
    if (own_address_note(ps, evconnlistener_get_fd(ps->listener), host, err))
        return RDMAD_E_SYSTEM;
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
