/* SPDX-License-Identifier: MIT */
/*
 * transport.c - sockets of peers.
 *
 * Messages are small and waited for, so no delay; an incoming peer that holds nothing is never
 * pinged by us, so the kernel's keepalive finds out when its host is gone.
 */
#include "daemon/peer/control/transport.h"
#include "daemon/base/retransmit.h"
#include "daemon/peer/control/tls.h"
#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Until the kernel finds out that the host of a silent connection is gone. */
#define KEEP_IDLE_S 60
#define KEEP_EACH_S 10
#define KEEP_TRIES 6
#define GONE_MS ((KEEP_IDLE_S + KEEP_TRIES * KEEP_EACH_S) * 1000)

#define READ_AT_ONCE (16u * 1024u) /* so that one busy peer does not starve the others */

struct transport {
    struct bufferevent *bev;
    struct evbuffer *plain; /* of records that were opened */
    struct tls *tls;        /* SECURE */
    bool shaking;
    const struct transport_calls *calls;
    void (*connected)(void *arg, int error);
    void *arg;
};

static void transport_set(int fd, int level, int option, int value) {
    /* Each only improves matters; a socket without it still works. */
    (void)setsockopt(fd, level, option, &value, sizeof(value));
}

struct transport *transport_new(struct event_base *base, int fd) {
    struct transport *t = calloc(1, sizeof(*t));
    transport_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    transport_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    transport_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
    transport_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_EACH_S);
    transport_set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_TRIES);

    if (t)
        t->bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (!t || !t->bev) {
        close(fd);
        free(t);
        return NULL;
    }
    /* Not by a watermark: libevent 2.1 does not look whether it had memory for that. */
    bufferevent_set_max_single_read(t->bev, READ_AT_ONCE);
    return t;
}

void transport_close(struct transport *t) {
    struct evbuffer *output = bufferevent_get_output(t->bev);
    bufferevent_disable(t->bev, EV_READ | EV_WRITE);
    evbuffer_unfreeze(output, 1); /* bufferevents keep it frozen but for their own writes */
    if (evbuffer_get_length(output))
        (void)evbuffer_write(output, bufferevent_getfd(t->bev));
    bufferevent_free(t->bev);
    if (t->plain)
        evbuffer_free(t->plain);
    tls_free(t->tls);
    free(t);
}

/* ---- what libevent says -------------------------------------------------------------------- */

static void transport_connected(struct bufferevent *bev, short what, void *arg) {
    struct transport *t = arg;
    int saved = EVUTIL_SOCKET_ERROR();
    (void)bev;
    t->connected(t->arg, what & BEV_EVENT_CONNECTED ? 0 : saved);
}

bool transport_connect(struct transport *t, const struct sockaddr *to, int size,
                       void (*done)(void *arg, int error), void *arg) {
    t->connected = done;
    t->arg = arg;
    bufferevent_setcb(t->bev, NULL, NULL, transport_connected, t);
    return bufferevent_socket_connect(t->bev, to, size) == 0;
}

static void transport_heard(struct bufferevent *bev, void *arg) {
    struct transport *t = arg;
    (void)bev;
    t->calls->heard(t->arg);
}

static void transport_drained(struct bufferevent *bev, void *arg) {
    struct transport *t = arg;
    (void)bev;
    t->calls->drained(t->arg);
}

static void transport_ended(struct bufferevent *bev, short what, void *arg) {
    struct transport *t = arg;
    int saved = EVUTIL_SOCKET_ERROR();
    (void)bev;
    t->calls->ended(t->arg, what & BEV_EVENT_EOF, saved);
}

void transport_begin(struct transport *t, bool shaking, const struct transport_calls *calls,
                     void *arg) {
    t->shaking = shaking;
    t->calls = calls;
    t->arg = arg;
    bufferevent_setcb(t->bev, transport_heard, transport_drained, transport_ended, t);
    bufferevent_enable(t->bev, EV_READ);
}

void transport_bear_silence(struct transport *t, uint64_t ms) {
    int fd = bufferevent_getfd(t->bev);
    if (retransmit_bound(fd, ms))
        transport_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, ms < GONE_MS ? GONE_MS : (int)ms);
}

bool transport_read_on(struct transport *t) {
    return bufferevent_enable(t->bev, EV_READ) == 0;
}

void transport_read_pause(struct transport *t) {
    bufferevent_disable(t->bev, EV_READ);
}

/* ---- the handshake ------------------------------------------------------------------------- */

static struct evbuffer *transport_raw(const struct transport *t) {
    return bufferevent_get_input(t->bev);
}

size_t transport_peek(const struct transport *t, uint8_t *out, size_t max) {
    ssize_t n = evbuffer_copyout(transport_raw(t), out, max);
    return n > 0 ? (size_t)n : 0;
}

void transport_skip(struct transport *t, size_t size) {
    evbuffer_drain(transport_raw(t), size);
}

bool transport_write_raw(struct transport *t, const void *bytes, size_t size) {
    /* A write begins by itself, unless libevent had no memory for that when the bufferevent was
     * made: it does not look, and the connection would be mute until its peer gives it up. */
    return bufferevent_write(t->bev, bytes, size) == 0 && bufferevent_enable(t->bev, EV_WRITE) == 0;
}

bool transport_secure(struct transport *t, struct tls *tls) {
    assert(t->shaking && !t->tls);
    t->plain = evbuffer_new();
    if (!t->plain)
        return false;
    t->shaking = false;
    t->tls = tls;
    return true;
}

/* ---- out ----------------------------------------------------------------------------------- */

static bool transport_flush(struct transport *t) {
    uint8_t bytes[4096];
    size_t n;
    while ((n = tls_output(t->tls, bytes, sizeof(bytes))))
        if (!transport_write_raw(t, bytes, n))
            return false;
    return true;
}

bool transport_write(struct transport *t, const void *bytes, size_t size) {
    if (t->shaking)
        return true;
    if (!t->tls)
        return transport_write_raw(t, bytes, size);
    return tls_seal(t->tls, bytes, size) && transport_flush(t);
}

size_t transport_unsent(const struct transport *t) {
    return evbuffer_get_length(bufferevent_get_output(t->bev));
}

/* ---- in ------------------------------------------------------------------------------------ */

size_t transport_unread(const struct transport *t) {
    size_t raw = evbuffer_get_length(transport_raw(t));
    return raw + (t->plain ? evbuffer_get_length(t->plain) : 0);
}

struct evbuffer *transport_input(const struct transport *t) {
    return t->tls ? t->plain : transport_raw(t);
}

/* Of the next record; 0: its head is not there yet, or there can be none. */
static size_t transport_record_length(const struct transport *t, bool *wrong) {
    uint8_t head[TLS_RECORD_HEAD];
    *wrong = false;
    if (transport_peek(t, head, sizeof(head)) < sizeof(head))
        return 0;
    size_t length = tls_record_length(head);
    *wrong = length == 0;
    return length;
}

bool transport_has_record(const struct transport *t) {
    bool wrong;
    if (!t->tls)
        return false;
    size_t length = transport_record_length(t, &wrong);
    return wrong || (length && evbuffer_get_length(transport_raw(t)) >= length);
}

int transport_open_record(struct transport *t, struct error *err) {
    uint8_t record[TLS_RECORD_MAX], plain[TLS_PLAIN_MAX];
    bool wrong;
    size_t got, length = transport_record_length(t, &wrong);
    assert(transport_has_record(t));
    if (wrong)
        return error_set(err, RDMAD_E_PROTOCOL, "what it sends is not TLS any more");
    evbuffer_remove(transport_raw(t), record, length);
    int rc = tls_open_record(t->tls, record, length, plain, &got, err);
    if (rc)
        return rc;
    if ((got && evbuffer_add(t->plain, plain, got)) || !transport_flush(t))
        return error_set(err, RDMAD_E_NOMEM, "out of memory for what it sends");
    return 0;
}

/* ---- what it is ---------------------------------------------------------------------------- */

bool transport_is_shaking(const struct transport *t) {
    return t->shaking;
}

struct tls *transport_tls(const struct transport *t) {
    return t->tls;
}

int transport_socket(const struct transport *t) {
    return bufferevent_getfd(t->bev);
}
