/* SPDX-License-Identifier: MIT */
/*
 * offer.c - who may connect: tokens that were offered, and strangers, which have yet to show one.
 *
 * offer() makes a random token for one peer, good for one connection and a short time. The peer's
 * engine dials our port and sends it in its hello. Until then the connection is a stranger: it
 * costs a descriptor and the bytes of a hello, there are at most max_strangers of them, each has
 * connect_timeout_ns, and no more than a hello is read. A stranger that does anything else is
 * closed without a word.
 *
 * When there are too many strangers the oldest goes: a peer that has a token shows it within a
 * round trip, so it is hardly ever the oldest. When the process is out of descriptors accepting
 * pauses; otherwise the ready listener would keep the worker from ever sleeping.
 */
#include "daemon/fabric/tcp/offer.h"
#include "daemon/base/address.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/fabric/tcp/blob.h"
#include "daemon/fabric/tcp/frame.h"
#include "daemon/fabric/tcp/socket.h"
#include "daemon/fabric/tcp/target.h"
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#define BACKLOG 128
#define ACCEPTS_A_TURN 16
#define ACCEPT_PAUSE_NS (100 * NSEC_PER_MSEC)

struct tcp_offer {
    struct list node;
    uint64_t peer, number;
    uint64_t expires_ns;
    uint8_t token[FRAME_TOKEN_BYTES];
};

struct stranger {
    struct source source;
    struct list node;
    struct tcp *tcp;
    int fd;
    unsigned got;
    uint64_t expires_ns;
    struct sockaddr_storage address;
    uint8_t hello[HELLO_BYTES];
};

/* ---- offers ------------------------------------------------------------------------------ */

static void offer_forget(struct tcp_offer *o) {
    list_remove(&o->node);
    explicit_bzero(o->token, sizeof o->token);
    free(o);
}

static void offers_expire(struct tcp *t, uint64_t now_ns) {
    list_for_each_safe (pos, &t->offers) {
        struct tcp_offer *o = list_entry(pos, struct tcp_offer, node);
        if (now_ns >= o->expires_ns)
            offer_forget(o);
        else
            tcp_timer_at(t, o->expires_ns);
    }
}

void offers_drop(struct tcp *t, uint64_t peer) {
    list_for_each_safe (pos, &t->offers) {
        struct tcp_offer *o = list_entry(pos, struct tcp_offer, node);
        if (o->peer == peer)
            offer_forget(o);
    }
}

void offer_drop(struct tcp *t, uint64_t peer, uint64_t number) {
    list_for_each_safe (pos, &t->offers) {
        struct tcp_offer *o = list_entry(pos, struct tcp_offer, node);
        if (o->peer == peer && o->number == number)
            offer_forget(o);
    }
}

/* Numbers are unique in the process, not only on a worker: a peer that says that it has closed a
 * connection names it by number alone, and no other worker may take it for its own. */
static uint64_t next_number(void) {
    static uint64_t last;
    return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

/* A tcp hello is empty: a peer that sends more uses another fabric. */
int tcp_offer(struct fabric *f, uint64_t peer, const struct fabric_blob *hello,
              struct fabric_blob *out, struct error *err) {
    struct tcp *t = container_of(f, struct tcp, base);
    if (hello->size)
        return error_set(err, RDMAD_E_PROTOCOL,
                         "the peer asks for a data connection of another fabric than tcp (its "
                         "hello has %u bytes, tcp's none): give both daemons the same \"fabric\"",
                         hello->size);
    uint64_t now_ns = t->env->now_ns(t->env->user);
    offers_expire(t, now_ns);
    uint32_t used = target_count(t, peer);
    list_for_each (pos, &t->offers)
        used += list_entry(pos, struct tcp_offer, node)->peer == peer;
    if (used >= TCP_CONNS_PER_PEER)
        return error_set(err, RDMAD_E_LIMIT,
                         "the peer has %u data connections and unused offers of at most %u on this "
                         "worker; close some or wait until the offers expire",
                         used, TCP_CONNS_PER_PEER);
    struct tcp_offer *o = calloc(1, sizeof *o);
    if (!o)
        return error_set(err, RDMAD_E_NOMEM, "no memory for a data connection's token");
    if (getrandom(o->token, sizeof o->token, 0) != (ssize_t)sizeof o->token) {
        free(o);
        return error_errno(err, RDMAD_E_SYSTEM, "no random bytes for a data connection's token");
    }
    o->peer = peer;
    o->number = next_number();
    o->expires_ns = clock_after(now_ns, t->env->settings->token_ttl_ns);
    list_append(&t->offers, &o->node);
    tcp_timer_at(t, o->expires_ns);
    offer_put(out, t->port, o->token, o->number);
    return 0;
}

/* Every offer is compared with every byte, so time tells nothing about a token. */
static struct tcp_offer *offer_find(struct tcp *t, const uint8_t token[FRAME_TOKEN_BYTES]) {
    struct tcp_offer *found = NULL;
    list_for_each (pos, &t->offers) {
        struct tcp_offer *o = list_entry(pos, struct tcp_offer, node);
        volatile uint8_t differs = 0;
        for (unsigned i = 0; i < FRAME_TOKEN_BYTES; i++)
            differs = (uint8_t)(differs | (o->token[i] ^ token[i]));
        if (!differs)
            found = o;
    }
    return found;
}

/* ---- strangers --------------------------------------------------------------------------- */

static void stranger_destroy(struct source *s) {
    free(container_of(s, struct stranger, source));
}

/* The descriptor is closed, or has become a connection's. */
static void stranger_forget(struct stranger *s) {
    list_remove(&s->node);
    s->tcp->stranger_count--;
    source_end(s->tcp, &s->source);
}

static void stranger_refuse(struct stranger *s, const char *why) {
    char address[TCP_ADDRESS_TEXT];
    address_text(address, &s->address);
    LOG_LIMITED(NOTICE, ("data connection from %s refused: %s", address, why));
    close(s->fd);
    stranger_forget(s);
}

static void stranger_judge(struct stranger *s) {
    struct tcp *t = s->tcp;
    uint8_t token[FRAME_TOKEN_BYTES];
    const char *wrong = hello_get(s->hello, token);
    struct tcp_offer *o = wrong ? NULL : offer_find(t, token);
    explicit_bzero(token, sizeof token);
    explicit_bzero(s->hello, sizeof s->hello);
    if (!wrong && (!o || t->now_ns >= o->expires_ns))
        wrong = "its token is unknown, used or expired";
    if (wrong) {
        stranger_refuse(s, wrong);
        return;
    }
    uint64_t peer = o->peer, number = o->number;
    offer_forget(o);
    epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
    if (target_create(t, s->fd, peer, number, &s->address))
        stranger_refuse(s, "no memory for it");
    else
        stranger_forget(s);
}

static void stranger_ready(struct source *source, uint32_t events) {
    (void)events;
    struct stranger *s = container_of(source, struct stranger, source);
    ssize_t n = recv(s->fd, s->hello + s->got, HELLO_BYTES - s->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        stranger_refuse(s, n ? strerror(errno) : "it left before it had shown a token");
        return;
    }
    s->got += (unsigned)n;
    s->tcp->progress++;
    if (s->got == HELLO_BYTES)
        stranger_judge(s);
}

static bool stranger_add(struct tcp *t, int fd, const struct sockaddr_storage *address) {
    struct stranger *s = calloc(1, sizeof *s);
    if (!s)
        return false;
    s->source.ready = stranger_ready;
    s->source.destroy = stranger_destroy;
    list_init(&s->source.ended);
    s->tcp = t;
    s->fd = fd;
    s->address = *address;
    s->expires_ns = clock_after(t->now_ns, t->env->settings->connect_timeout_ns);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &s->source};
    if (socket_prepare(fd, t->env->settings) || epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
        free(s);
        return false;
    }
    tcp_timer_at(t, s->expires_ns);
    list_append(&t->strangers, &s->node);
    if (++t->stranger_count > t->env->settings->max_strangers)
        stranger_refuse(list_entry(list_first(&t->strangers), struct stranger, node),
                        "too many connections that have shown no token");
    return true;
}

/* ---- the listener ------------------------------------------------------------------------ */

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
    while (!list_empty(&t->strangers)) {
        struct stranger *s = list_entry(list_first(&t->strangers), struct stranger, node);
        close(s->fd);
        stranger_forget(s);
    }
    struct list *node;
    while ((node = list_pop(&t->offers)))
        offer_forget(list_entry(node, struct tcp_offer, node));
    if (t->listen_fd >= 0)
        close(t->listen_fd);
}

void listener_timers(struct tcp *t) {
    offers_expire(t, t->now_ns);
    list_for_each_safe (pos, &t->strangers) {
        struct stranger *s = list_entry(pos, struct stranger, node);
        if (t->now_ns >= s->expires_ns)
            stranger_refuse(s, "it showed no token in time");
        else
            tcp_timer_at(t, s->expires_ns);
    }
    if (t->accept_again_ns && t->now_ns >= t->accept_again_ns) {
        t->accept_again_ns = 0;
        listener_watch(t, EPOLLIN);
    } else if (t->accept_again_ns) {
        tcp_timer_at(t, t->accept_again_ns);
    }
}
