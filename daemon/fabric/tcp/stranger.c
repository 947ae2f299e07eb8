/* SPDX-License-Identifier: MIT */
/*
 * stranger.c - connections that were accepted and have yet to prove whose they are: by a token, and
 * where the offer says so by a handshake with the offer's key.
 *
 * A stranger costs a descriptor and the bytes of a hello, and once it has shown a token the memory
 * of a handshake. There are at most max_strangers of them, each has connect_timeout_ns, no more is
 * read than a hello and a handshake, and a poll does a few steps of handshakes. A stranger that
 * does anything else is closed without a word. Its token is used up in any case.
 *
 * When there are too many strangers the oldest of those that have shown no token goes: a peer that
 * has one shows it within a round trip, so it is hardly ever that. Those that have shown one are as
 * many as there were offers, and go only if there are no others.
 */
#include "daemon/fabric/tcp/stranger.h"
#include "daemon/base/address.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/fabric/tcp/frame.h"
#include "daemon/fabric/tcp/offer.h"
#include "daemon/fabric/tcp/socket.h"
#include "daemon/fabric/tcp/target.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#define HANDSHAKES_A_POLL 4u /* steps of some 100 us */

struct stranger {
    struct source source;
    struct list node;
    struct tcp *tcp;
    int fd;
    unsigned got;
    uint64_t expires_ns;
    struct sockaddr_storage address;
    struct tcp_offer *offer;     /* whose token it has shown */
    struct handshake *handshake; /* with that offer's key */
    uint8_t hello[HELLO_BYTES];
};

static void stranger_destroy(struct source *s) {
    free(container_of(s, struct stranger, source));
}

/* The descriptor is closed, or has become a connection's. */
static void stranger_forget(struct stranger *s) {
    handshake_free(s->handshake);
    s->handshake = NULL;
    if (s->offer)
        offer_forget(s->offer);
    list_remove(&s->node);
    s->tcp->stranger_count--;
    source_end(s->tcp, &s->source);
}

static void stranger_refuse(struct stranger *s, const char *why) {
    char address[TCP_ADDRESS_TEXT];
    struct in6_addr source = address_source_of((const struct sockaddr *)&s->address);
    address_text(address, &s->address);
    LOG_LIMITED_OF(log_of_bytes(&source, sizeof(source)), NOTICE,
                   ("data connection from %s refused: %s", address, why));
    source_close(s->tcp, s->fd);
    stranger_forget(s);
}

/* It has proven whose it is. */
static void stranger_admit(struct stranger *s, struct secure *secure) {
    struct tcp *t = s->tcp;
    epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
    if (target_create(t, s->fd, s->offer->share->peer, s->offer->is.number, &s->address, secure))
        stranger_refuse(s, "no memory for it");
    else
        stranger_forget(s);
}

/* ---- the token --------------------------------------------------------------------------- */

static void stranger_judge(struct stranger *s) {
    struct tcp *t = s->tcp;
    uint8_t token[FRAME_TOKEN_BYTES];
    const char *wrong = hello_get(s->hello, token);
    s->offer = wrong ? NULL : offer_take(t, token);
    explicit_bzero(token, sizeof token);
    explicit_bzero(s->hello, sizeof s->hello);
    if (!wrong && !s->offer)
        wrong = "its token is unknown, used or expired";
    if (wrong) {
        stranger_refuse(s, wrong);
    } else if (!s->offer->is.encrypt) {
        stranger_admit(s, NULL);
    } else {
        s->handshake = handshake_new(t->tls, false, s->offer->is.secret);
        explicit_bzero(s->offer->is.secret, sizeof s->offer->is.secret);
        if (!s->handshake)
            stranger_refuse(s, "no memory for a handshake");
    }
}

static ssize_t stranger_recv(struct stranger *s, void *to, size_t n) {
    ssize_t got = recv(s->fd, to, n, MSG_DONTWAIT);
    if (got > 0)
        s->tcp->progress++;
    else if (got == 0)
        stranger_refuse(s, "it left before it had proven whose it is");
    else if (errno != EAGAIN && errno != EINTR)
        stranger_refuse(s, strerror(errno));
    return got;
}

static void take_hello(struct stranger *s) {
    ssize_t n = stranger_recv(s, s->hello + s->got, HELLO_BYTES - s->got);
    if (n <= 0)
        return;
    s->got += (unsigned)n;
    if (s->got == HELLO_BYTES)
        stranger_judge(s);
}

/* ---- the handshake ----------------------------------------------------------------------- */

/* An empty socket takes so little at once, or is broken. */
static bool send_flight(struct stranger *s) {
    uint8_t bytes[HANDSHAKE_SEND];
    size_t n = handshake_take(s->handshake, bytes);
    return n == 0 || send(s->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)n;
}

static void take_handshake(struct stranger *s) {
    uint8_t bytes[HANDSHAKE_READ];
    if (s->tcp->handshakes >= HANDSHAKES_A_POLL) /* epoll says again that it is ready */
        return;
    ssize_t n = stranger_recv(s, bytes, sizeof bytes);
    if (n <= 0)
        return;
    s->tcp->handshakes++;
    enum handshake_state state = handshake_step(s->handshake, bytes, (size_t)n);
    bool sent = send_flight(s);
    if (state == HANDSHAKE_FAILED) {
        stranger_refuse(s, handshake_why(s->handshake));
    } else if (!sent) {
        stranger_refuse(s, "it took no handshake");
    } else if (state == HANDSHAKE_DONE) {
        struct secure *secure = secure_accept(s->handshake);
        if (secure)
            stranger_admit(s, secure);
        else
            stranger_refuse(s, "no memory for its keys");
    }
}

static void stranger_ready(struct source *source, uint32_t events) {
    (void)events;
    struct stranger *s = container_of(source, struct stranger, source);
    if (!s->handshake)
        take_hello(s);
    if (s->handshake) /* its first bytes come with the hello */
        take_handshake(s);
}

/* ---- coming and going -------------------------------------------------------------------- */

static struct stranger *stranger_least(const struct tcp *t) {
    list_for_each (pos, &t->strangers) {
        struct stranger *s = list_entry(pos, struct stranger, node);
        if (!s->offer)
            return s;
    }
    return list_entry(t->strangers.next, struct stranger, node);
}

bool stranger_add(struct tcp *t, int fd, const struct sockaddr_storage *address) {
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
    socket_connected(fd, t->env->settings);
    tcp_timer_at(t, s->expires_ns);
    list_append(&t->strangers, &s->node);
    if (++t->stranger_count > t->env->settings->max_strangers)
        stranger_refuse(stranger_least(t),
                        "too many connections that have not proven whose they are");
    return true;
}

void strangers_expire(struct tcp *t) {
    list_for_each_safe (pos, &t->strangers) {
        struct stranger *s = list_entry(pos, struct stranger, node);
        if (t->now_ns >= s->expires_ns)
            stranger_refuse(s, s->offer ? "its handshake was not done in time"
                                        : "it showed no token in time");
        else
            tcp_timer_at(t, s->expires_ns);
    }
}

void strangers_drop(struct tcp *t, uint64_t peer, uint64_t number) {
    list_for_each_safe (pos, &t->strangers) {
        struct stranger *s = list_entry(pos, struct stranger, node);
        if (!s->offer || s->offer->share->peer != peer || (number && s->offer->is.number != number))
            continue;
        source_close(s->tcp, s->fd);
        stranger_forget(s);
    }
}

void strangers_close(struct tcp *t) {
    while (!list_empty(&t->strangers)) {
        struct stranger *s = list_entry(list_first(&t->strangers), struct stranger, node);
        source_close(s->tcp, s->fd);
        stranger_forget(s);
    }
}
