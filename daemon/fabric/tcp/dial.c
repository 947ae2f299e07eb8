/* SPDX-License-Identifier: MIT */
/*
 * dial.c - links come up, or do not, and are given up when their target is silent.
 *
 * Dialling never blocks: connect, send the hello with the offer's token, have the handshake if the
 * link is to be encrypted (secure.c), wait for the welcome. Ops may be posted meanwhile; they are
 * queued. link_up tells when the welcome has come; link_lost tells, once, that it did not, or that
 * the connection broke later.
 */
#include "daemon/fabric/tcp/dial.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/undumped.h"
#include "daemon/base/upper_fd.h"
#include "daemon/fabric/tcp/answer.h"
#include "daemon/fabric/tcp/blob.h"
#include "daemon/fabric/tcp/cipher.h"
#include "daemon/fabric/tcp/offer.h"
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

/* ---- a new one ------------------------------------------------------------------------- */

static void link_destroy(struct source *s) {
    struct tcp_link *l = container_of(s, struct tcp_link, conn.source);
    conn_fini(&l->conn);
    free(l->pending);
    undumped_free(l->staged, FRAME_MAX_PAYLOAD);
    free(l);
}

static struct pending *pending_ring(uint32_t max_inflight, uint32_t *mask) {
    uint32_t entries = 1;
    while (entries < max_inflight && entries < 1u << 20)
        entries *= 2;
    *mask = entries - 1;
    return calloc(entries, sizeof(struct pending));
}

int tcp_link_new(struct fabric *f, void *cookie, bool secured, struct fabric_link **out,
                 struct fabric_blob *hello, struct error *err) {
    struct tcp *t = container_of(f, struct tcp, base);
    struct tcp_link *l = calloc(1, sizeof *l);
    if (l)
        l->pending = pending_ring(t->env->settings->max_inflight, &l->mask);
    if (!l || !l->pending) {
        free(l);
        return error_set(err, RDMAD_E_NOMEM, "no memory for a data connection");
    }
    l->base = (struct fabric_link){
        .fabric = f, .max_message = FRAME_MAX_PAYLOAD, .max_send = FRAME_MAX_LONG, .ordered = true};
    l->cookie = cookie;
    l->conn.tcp = t;
    l->conn.share = &l->share;
    l->conn.fd = -1;
    l->conn.closed = true;
    l->conn.source.destroy = link_destroy;
    list_init(&l->conn.source.ended);
    list_init(&l->refused);
    l->encrypt = encryption_wanted(t, secured);
    wish_put(hello, l->encrypt);
    *out = &l->base;
    return 0;
}

/* ---- silence --------------------------------------------------------------------------- */

/* When the target is given up unless it is heard of before; CLOCK_NEVER: it owes nothing. */
static uint64_t due_ns(const struct tcp_link *l) {
    const struct tcp_conn *c = &l->conn;
    if (c->dialling || c->greeting)
        return l->deadline_ns;
    if (l->head == l->tail)
        return CLOCK_NEVER;
    return clock_after(c->heard_ns, c->tcp->env->settings->dead_peer_ns);
}

void link_timer(struct tcp_link *l) {
    struct tcp_conn *c = &l->conn;
    struct tcp *t = c->tcp;
    char why[80];
    /* It may be we who were away: what has come meanwhile was not silence. */
    if (t->now_ns >= due_ns(l) && !c->dialling)
        conn_serve(c);
    if (c->closed)
        return;
    if (c->more) { /* nor is what there was no time for */
        tcp_timer_at(t, t->now_ns + NSEC_PER_MSEC);
        return;
    }
    if (t->now_ns < due_ns(l)) {
        tcp_timer_at(t, due_ns(l));
    } else if (c->dialling || c->greeting) {
        conn_lose(c, RDMAD_E_UNREACHABLE,
                  c->dialling ? "no connection in time" : "no welcome in time");
    } else {
        snprintf(why, sizeof why, "silent for %lu ms with %lu ops outstanding",
                 (unsigned long)((t->now_ns - c->heard_ns) / NSEC_PER_MSEC),
                 (unsigned long)(l->tail - l->head));
        conn_lose(c, RDMAD_E_PEER_LOST, why);
    }
}

/* ---- dialling -------------------------------------------------------------------------- */

static void dial_connected(struct tcp_conn *c) {
    struct tcp_link *l = link_of_conn(c);
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size))
        error = errno;
    if (error) {
        conn_lose(c, RDMAD_E_UNREACHABLE, strerror(error));
        return;
    }
    socket_connected(c->fd, c->tcp->env->settings);
    uint8_t hello[HELLO_BYTES];
    hello_put(hello, l->token);
    ssize_t n = send(c->fd, hello, sizeof hello, MSG_DONTWAIT | MSG_NOSIGNAL);
    explicit_bzero(hello, sizeof hello);
    explicit_bzero(l->token, sizeof l->token);
    if (n != (ssize_t)sizeof hello) { /* an empty socket takes so little at once, or is broken */
        conn_lose(c, RDMAD_E_UNREACHABLE, n < 0 ? strerror(errno) : "it took no greeting");
        return;
    }
    if (c->secure && !secure_begin(c->secure, c->fd)) {
        conn_lose(c, RDMAD_E_UNREACHABLE,
                  errno == EBADMSG ? c->secure->wrong : "it took no handshake");
        return;
    }
    c->dialling = false;
    if (conn_watch(c))
        conn_lose(c, RDMAD_E_SYSTEM, "epoll refuses it");
    else
        conn_heat(c);
}

static void dial_welcomed(struct tcp_conn *c) {
    struct tcp_link *l = link_of_conn(c);
    struct tcp *t = c->tcp;
    if (l->head != l->tail) {
        conn_wants_send(c);
        tcp_timer_at(t, clock_after(c->heard_ns, t->env->settings->dead_peer_ns));
    }
    t->env->link_up(t->env->user, l->cookie);
}

static const struct role link_role = {
    .check = frame_check_answer,
    .frame = answer_frame,
    .begin = answer_begin,
    .rx_fault = answer_rx_fault,
    .end = answer_end,
    .tx_fault = link_tx_fault,
    .connected = dial_connected,
    .welcomed = dial_welcomed,
    .lost = link_lost,
};

/* A nonblocking socket on its way to host:port. */
static int dial(const struct fabric_settings *s, const char *host, uint16_t port,
                struct sockaddr_storage *address, int *out, struct error *err) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *at;
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    int rc = getaddrinfo(host, service, &hints, &at);
    if (rc)
        return error_set(err, RDMAD_E_INVAL, "address \"%s\" of a data connection: %s", host,
                         gai_strerror(rc));
    *address = (struct sockaddr_storage){0};
    memcpy(address, at->ai_addr, at->ai_addrlen);
    int fd = upper_fd(socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    rc = fd < 0 ? RDMAD_E_SYSTEM : socket_prepare(fd, s);
    if (rc)
        error_errno(err, rc, "cannot make a data connection to %s port %u", host, port);
    else if (connect(fd, at->ai_addr, at->ai_addrlen) && errno != EINPROGRESS)
        rc = error_errno(err, RDMAD_E_UNREACHABLE, "data connection to %s port %u", host, port);
    freeaddrinfo(at);
    if (rc && fd >= 0)
        close(fd);
    *out = fd;
    return rc;
}

/* The offer, judged. */
static int take_offer(struct tcp_link *l, const char *host, const struct fabric_blob *offer,
                      struct invitation *i, struct error *err) {
    const struct tcp *t = l->conn.tcp;
    if (!offer_read(offer, i))
        return error_set(err, RDMAD_E_PROTOCOL,
                         "the offer of a data connection by %s is not of this daemon's version of "
                         "the tcp fabric: run the same version of rdmad on both",
                         host);
    if (l->encrypt && !i->encrypt)
        return error_set(err, RDMAD_E_PROTOCOL,
                         "%s offers a data connection in clear, though this daemon asked for an "
                         "encrypted one (tcp.encrypt): run the same version of rdmad on both",
                         host);
    if (i->encrypt && t->env->settings->encrypt == ENCRYPT_OFF)
        LOG_LIMITED_OF(log_of_name(host), NOTICE,
                       ("%s wants data connections encrypted: so they are, though tcp.encrypt "
                        "is \"off\" here",
                        host));
    memcpy(l->token, i->token, sizeof l->token);
    l->base.number = i->number;
    l->base.encryption = i->encrypt ? cipher_library(handshake_suite()) : FABRIC_CLEAR;
    return 0;
}

/* The connection over fd, which is its own from here on if that goes well. */
static int link_connect(struct tcp_link *l, int fd, const struct sockaddr_storage *address,
                        const struct invitation *i) {
    struct tcp *t = l->conn.tcp;
    if (i->encrypt) {
        l->conn.secure = secure_dial(t->tls, i->secret);
        if (!l->conn.secure)
            return RDMAD_E_NOMEM;
    }
    return conn_init(&l->conn, t, &link_role, fd, EPOLLOUT, address);
}

int tcp_link_open(struct fabric_link *fl, const char *host, const struct fabric_blob *offer,
                  struct error *err) {
    struct tcp_link *l = container_of(fl, struct tcp_link, base);
    struct tcp *t = l->conn.tcp;
    const struct fabric_settings *s = t->env->settings;
    struct invitation i;
    struct sockaddr_storage address;
    int fd = -1;
    int rc = take_offer(l, host, offer, &i, err);
    if (!rc)
        rc = dial(s, host, i.port, &address, &fd, err);
    if (!rc) {
        rc = link_connect(l, fd, &address, &i);
        if (rc) {
            close(fd);
            l->conn.fd = -1;
            error_set(err, rc, "no memory or descriptors for a data connection to %s", host);
        }
    }
    explicit_bzero(&i, sizeof i);
    if (rc)
        return rc;
    l->conn.closed = false;
    l->conn.dialling = l->conn.greeting = true;
    l->deadline_ns = clock_after(t->env->now_ns(t->env->user), s->connect_timeout_ns);
    tcp_timer_at(t, l->deadline_ns);
    list_append(&t->links, &l->conn.node);
    return 0;
}
