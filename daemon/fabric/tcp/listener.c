/* SPDX-License-Identifier: MIT */
/*
 * listener.c - accepts connections of peers, which are strangers at first.
 *
 * When the process is out of descriptors accepting pauses; otherwise the ready listener would keep
 * the worker from ever sleeping.
 */
#include "daemon/fabric/tcp/listener.h"
#include "daemon/base/address.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/upper_fd.h"
#include "daemon/fabric/tcp/offer.h"
#include "daemon/fabric/tcp/socket.h"
#include "daemon/fabric/tcp/stranger.h"
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BACKLOG 128
#define ACCEPTS_A_TURN 16
#define ACCEPT_PAUSE_NS (100 * NSEC_PER_MSEC)

static void listener_watch(struct tcp *t, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = &t->listener};
    epoll_ctl(t->epoll_fd, EPOLL_CTL_MOD, t->listen_fd, &event);
}

static void listener_ready(struct source *source, uint32_t events) {
    (void)events;
    struct tcp *t = container_of(source, struct tcp, listener);
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        struct sockaddr_storage address = {0};
        socklen_t size = sizeof address;
        int fd =
            accept4(t->listen_fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        fd = upper_fd(fd);
        if (fd >= 0) {
            t->progress++;
            if (!stranger_add(t, fd, &address))
                close(fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            LOG_LIMITED(WARNING, ("cannot accept data connections: %s", strerror(errno)));
            listener_watch(t, 0);
            t->accept_again_ns = clock_after(t->now_ns, ACCEPT_PAUSE_NS);
            tcp_timer_at(t, t->accept_again_ns);
        }
        /* Anything else is one visitor's broken connection, or nobody is there. */
        if (errno != ECONNABORTED && errno != EINTR)
            return;
    }
}

static int listener_try(struct tcp *t, const struct addrinfo *all) {
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } bound = {.in6 = {0}};
    socklen_t size = sizeof bound;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &t->listener};
    int fd = address_bind(all);
    if (fd < 0)
        return -1;
    if (socket_prepare(fd, t->env->settings) || listen(fd, BACKLOG) ||
        getsockname(fd, &bound.any, &size) || epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    t->port = ntohs(bound.any.sa_family == AF_INET6 ? bound.in6.sin6_port : bound.in.sin_port);
    return fd;
}

int listener_open(struct tcp *t, struct error *err) {
    const struct fabric_settings *s = t->env->settings;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *all;
    char port[8];
    snprintf(port, sizeof port, "%u", s->data_port);
    int rc = getaddrinfo(s->listen_host[0] ? s->listen_host : NULL, port, &hints, &all);
    if (rc)
        return error_set(err, RDMAD_E_SYSTEM, "address \"%s\" to accept data connections on: %s",
                         s->listen_host, gai_strerror(rc));
    t->listener.ready = listener_ready;
    t->listen_fd = listener_try(t, all);
    int saved = errno;
    freeaddrinfo(all);
    errno = saved;
    if (t->listen_fd < 0)
        return error_errno(err, RDMAD_E_SYSTEM, "cannot accept data connections on %s port %u",
                           s->listen_host, s->data_port);
    return 0;
}

void listener_close(struct tcp *t) {
    strangers_close(t);
    struct list *node;
    while ((node = list_first(&t->offers)))
        offer_forget(list_entry(node, struct tcp_offer, node));
    if (t->listen_fd >= 0)
        close(t->listen_fd);
}

void listener_timers(struct tcp *t) {
    offers_expire(t);
    strangers_expire(t);
    if (t->accept_again_ns && t->now_ns >= t->accept_again_ns) {
        t->accept_again_ns = 0;
        listener_watch(t, EPOLLIN);
    } else if (t->accept_again_ns) {
        tcp_timer_at(t, t->accept_again_ns);
    }
}
