/* SPDX-License-Identifier: MIT */
/*
 * conn.c - one data connection's socket: reading, parsing, sending, ending.
 *
 * Reading. Outside a large payload, one recv takes whatever fits the staging buffer and every whole
 * frame in it is handed to the role. A large payload goes straight to rx.dest: what staging already
 * holds of it is copied, the rest is read by readv of {dest, staging}, so that the next frames come
 * along in the same call. How much of staging is offered follows the traffic: all of it while
 * frames are small, because a call costs more than a copy; little while they are bulky, because
 * then the next payload would be copied twice. A short read means that the socket is empty: no
 * second call to hear EAGAIN.
 *
 * Faults. The kernel refuses a read or a send whose client memory is gone with EFAULT and leaves
 * the stream where it was. The role learns of it, the memory is replaced by scratch or zeros, and
 * the connection lives: other clients' ops are on it.
 *
 * An encrypted connection (secure.c) is read a record at a time, always into staging, and what is
 * of a large payload goes on from there; it sends what it has copied out of the queue.
 */
#include "daemon/fabric/tcp/conn.h"
#include "daemon/base/guard.h"
#include "daemon/base/undumped.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/uio.h>

/* What epoll is to tell of. */
static uint32_t awaited(const struct tcp_conn *c) {
    uint32_t events = c->stuck || c->dialling ? EPOLLOUT : 0;
    return c->blocked || c->dialling || c->held ? events : events | EPOLLIN;
}

/* The socket may have room again, or is broken, which a send will tell. */
static void conn_unstick(struct tcp_conn *c) {
    c->stuck = false;
    list_remove(&c->sending);
    conn_wants_send(c);
}

static void conn_ready(struct source *s, uint32_t events) {
    struct tcp_conn *c = container_of(s, struct tcp_conn, source);
    if (c->closed)
        return;
    uint32_t stale = events & (EPOLLIN | EPOLLOUT) & ~awaited(c);
    if (c->dialling) {
        c->role->connected(c);
        return;
    }
    /* It is not read, and epoll would tell of this for ever. */
    if (c->held && events & (EPOLLERR | EPOLLHUP)) {
        conn_lose(c, RDMAD_E_PEER_LOST, "closed by the other side");
        return;
    }
    if (c->stuck && events & ~(uint32_t)EPOLLIN)
        conn_unstick(c);
    if (events & ~(uint32_t)EPOLLOUT) {
        conn_heat(c);
        conn_serve(c);
    }
    if (stale && !c->closed)
        conn_watch(c); /* or epoll would tell of it again and again, and of others later */
}

int conn_init(struct tcp_conn *c, struct tcp *t, const struct role *role, int fd, uint32_t events,
              const struct sockaddr_storage *address) {
    c->source.ready = conn_ready;
    c->tcp = t;
    c->role = role;
    c->fd = fd;
    c->events = events;
    list_init(&c->source.ended);
    list_init(&c->node);
    list_init(&c->hot);
    list_init(&c->sending);
    list_init(&c->stirred);
    address_text(c->address, address);
    c->rx.staging = undumped_new(TCP_STAGING);
    c->rx.want = TCP_STAGING;
    int rc = outq_init(&c->out);
    if (rc || !c->rx.staging)
        return RDMAD_E_NOMEM;
    struct epoll_event event = {.events = events, .data.ptr = &c->source};
    return epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? RDMAD_E_SYSTEM : 0;
}

void conn_fini(struct tcp_conn *c) {
    secure_free(c->secure);
    c->secure = NULL;
    outq_fini(&c->out);
    undumped_free(c->rx.staging, TCP_STAGING);
    c->rx.staging = NULL;
}

void conn_shut(struct tcp_conn *c) {
    if (c->closed)
        return;
    c->closed = true;
    c->rx.dest = NULL;
    if (c->secure)
        c->out.sent -= secure_kept(c->secure);
    outq_drop(&c->out);
    list_remove(&c->node);
    list_remove(&c->hot);
    list_remove(&c->sending);
    list_remove(&c->stirred);
    source_close(c->tcp, c->fd);
    c->fd = -1;
}

void conn_lose(struct tcp_conn *c, int code, const char *why) {
    if (c->closed)
        return;
    struct error err;
    error_set(&err, code, "data connection with %s: %s", c->address, why);
    c->role->lost(c, &err);
}

/* What it waits for may have changed: conns_arm looks at it. Of thousands that are idle it does
 * not look at one. */
static void conn_stir(struct tcp_conn *c) {
    if (list_empty(&c->stirred) && !c->closed)
        list_append(&c->tcp->stirred, &c->stirred);
}

/* It is read some time, and before a sleep epoll has to be asked about it. */
void conn_heat(struct tcp_conn *c) {
    c->idle_polls = 0;
    if (!list_empty(&c->hot) || c->closed)
        return;
    list_append(&c->tcp->hot, &c->hot);
    conn_stir(c);
}

void conn_wants_send(struct tcp_conn *c) {
    conn_stir(c);
    if (list_empty(&c->sending) && !c->closed)
        list_append(&c->tcp->sending, &c->sending);
}

size_t conn_room_in(struct tcp_conn *c) {
    return share_room_in(&c->tcp->shares, c->share);
}

size_t conn_room_out(struct tcp_conn *c) {
    return share_room_out(&c->tcp->shares, c->share);
}

/* ---- receiving --------------------------------------------------------------------------- */

static void dest_advance(struct tcp_conn *c, uint32_t n) {
    if (c->rx.dest)
        c->rx.dest += n;
    c->rx.left -= n;
}

static void dest_fault(struct tcp_conn *c, const void *address) {
    c->rx.dest = NULL;
    c->role->rx_fault(c, address);
}

/* Feeds what staging holds of a large payload to where it belongs. In pieces, each with a look at
 * its lease: the process may be stopped in the midst of it, and go on when that has expired. */
static void take_payload(struct tcp_conn *c) {
    struct rx *rx = &c->rx;
    uint32_t left = rx->tail - rx->head, n;
    if (left > rx->left)
        left = rx->left;
    for (; left > 0 && !c->closed; left -= n) {
        n = left < TCP_SMALL ? left : TCP_SMALL;
        if (c->role->recheck)
            c->role->recheck(c);
        const void *fault = rx->dest ? guard_copy(rx->dest, rx->staging + rx->head, n) : NULL;
        rx->head += n;
        dest_advance(c, n);
        if (fault)
            dest_fault(c, fault);
    }
    if (!c->closed && rx->left == 0)
        c->role->end(c);
}

/* The frame at rx.head. Returns false when it is not whole yet, or a large payload is under way. */
static bool conn_parse_one(struct tcp_conn *c) {
    struct rx *rx = &c->rx;
    struct frame f;
    frame_get(&f, rx->staging + rx->head);
    const char *wrong = c->role->check(&f);
    if (!wrong) {
        uint32_t payload = frame_payload(&f), head = frame_head(&f);
        const uint8_t *at = rx->staging + rx->head + FRAME_BYTES;
        if (f.type == FRAME_LONG || (payload > TCP_SMALL && f.type != FRAME_SEND)) {
            if (rx->tail - rx->head - FRAME_BYTES < head)
                return false;
            rx->head += FRAME_BYTES + head;
            rx->left = payload - head;
            rx->dest = NULL;
            if (payload >= TCP_BULKY)
                rx->want = TCP_LOOKAHEAD;
            wrong = c->role->begin(c, &f, at);
            if (!wrong && !c->closed)
                take_payload(c);
        } else {
            if (rx->tail - rx->head - FRAME_BYTES < payload)
                return false;
            rx->head += FRAME_BYTES + payload;
            wrong = c->role->frame(c, &f, at);
        }
        c->tcp->progress++;
        c->asked++;
    }
    if (wrong)
        conn_lose(c, RDMAD_E_PROTOCOL, wrong);
    return !c->closed && rx->left == 0;
}

/* A link's first bytes. Returns whether frames may follow. */
static bool take_welcome(struct tcp_conn *c) {
    struct rx *rx = &c->rx;
    if (rx->tail - rx->head < WELCOME_BYTES)
        return false;
    const char *wrong = welcome_check(rx->staging + rx->head);
    rx->head += WELCOME_BYTES;
    if (wrong) {
        conn_lose(c, RDMAD_E_UNREACHABLE, wrong);
        return false;
    }
    c->greeting = false;
    c->role->welcomed(c);
    return !c->closed;
}

static void tell_held(struct tcp_conn *c) {
    const struct fabric_env *env = c->tcp->env;
    bool by_bytes;
    if (env->peer_throttled && share_is_news(&c->tcp->shares, c->share, &by_bytes) &&
        env->peer_throttled(env->user, c->share->peer, by_bytes))
        share_told(&c->tcp->shares, c->share, by_bytes);
}

bool conn_is_held(struct tcp_conn *c) {
    uint64_t until_ns = share_held_ns(&c->tcp->shares, c->share);
    bool was_held = c->held;
    c->held = until_ns != 0;
    if (was_held || c->held)
        list_remove(&c->hot);
    if (was_held && !c->held) {
        c->more = true; /* perhaps, in a buffer of ours: epoll would not tell */
        conn_heat(c);
    }
    if (!c->held)
        return false;
    tell_held(c);
    list_append(&c->tcp->held, &c->hot);
    tcp_timer_at(c->tcp, until_ns);
    return true;
}

/* Hands every whole frame to the role. Afterwards staging holds the start of a small frame or of a
 * SEND, or nothing (a large payload is under way), or whatever waits for room or for a rate
 * (blocked). */
static void conn_parse(struct tcp_conn *c) {
    c->blocked = false;
    if (c->greeting && !take_welcome(c))
        return;
    while (!c->closed && c->rx.tail - c->rx.head >= FRAME_BYTES) {
        if (c->role->answers && (!outq_room(&c->out) || conn_is_held(c))) {
            c->blocked = true;
            return;
        }
        bool more = conn_parse_one(c);
        share_asked(&c->tcp->shares, c->share, c->asked, c->asked_bytes);
        c->asked = 0;
        c->asked_bytes = 0;
        if (!more)
            return;
    }
}

RDMAD_STATIC_ASSERT(TCP_STAGING > FRAME_BYTES + FRAME_MAX_SEND, "room for the rest of any message");

/* Staging keeps the start of a frame, if it has one. Returns how much that is. */
static uint32_t make_room(struct rx *rx) {
    uint32_t kept = rx->tail - rx->head;
    memmove(rx->staging, rx->staging + rx->head, kept);
    rx->head = 0;
    rx->tail = kept;
    return kept;
}

RDMAD_STATIC_ASSERT(TCP_STAGING > FRAME_BYTES + FRAME_MAX_SEND + RECORD_INNER_MAX,
                    "and for a record behind its start");

/* The same as conn_read_once, but all of it goes to staging. */
static ssize_t conn_read_secure(struct tcp_conn *c, size_t *asked) {
    struct rx *rx = &c->rx;
    uint32_t kept = make_room(rx);
    ssize_t n = secure_read(c->secure, c->fd, rx->staging + kept, asked);
    share_worked_in(&c->tcp->shares, c->share, c->secure->cost);
    c->secure->cost = 0;
    if (n > 0)
        rx->tail += (uint32_t)n;
    return n;
}

/* One read. Returns what recvmsg did; *asked is how much it could have been. */
static ssize_t conn_read_once(struct tcp_conn *c, size_t *asked) {
    struct rx *rx = &c->rx;
    if (c->secure)
        return conn_read_secure(c, asked);
    if (rx->left == 0) {
        uint32_t kept = make_room(rx);
        if (rx->want <= kept) /* of a SEND, which is longer than what bulky payloads leave */
            rx->want = TCP_STAGING;
        *asked = rx->want - kept;
        ssize_t n = recv(c->fd, rx->staging + kept, *asked, MSG_DONTWAIT);
        if (n > 0)
            rx->tail += (uint32_t)n;
        return n;
    }
    rx->head = rx->tail = 0;
    struct iovec iov[2] = {{rx->dest ? rx->dest : c->tcp->scratch, rx->left},
                           {rx->staging, rx->want}};
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};
    *asked = rx->left + rx->want;
    ssize_t n = recvmsg(c->fd, &message, MSG_DONTWAIT);
    if (n > 0) {
        uint32_t placed = (size_t)n < rx->left ? (uint32_t)n : rx->left;
        dest_advance(c, placed);
        rx->tail = (uint32_t)n - placed;
    }
    return n;
}

/* Its records are not what they must be. */
static void conn_lose_broken(struct tcp_conn *c) {
    conn_lose(c, c->greeting ? RDMAD_E_UNREACHABLE : RDMAD_E_PROTOCOL, c->secure->wrong);
}

/* After a read that gave nothing. Whether it is worth another try. */
static bool conn_read_failed(struct tcp_conn *c, ssize_t n) {
    if (n == 0 || (c->greeting && errno == ECONNRESET)) {
        if (c->greeting)
            conn_lose(c, RDMAD_E_UNREACHABLE, "it refused our token");
        else
            conn_lose(c, RDMAD_E_PEER_LOST, "closed by the other side");
        return false;
    }
    if (errno == EINTR)
        return true;
    if (errno == EFAULT && c->rx.left > 0 && c->rx.dest) {
        dest_fault(c, c->rx.dest);
        return true;
    }
    if (errno == EBADMSG && c->secure)
        conn_lose_broken(c);
    else if (errno == EAGAIN || errno == EWOULDBLOCK)
        share_worked_in(&c->tcp->shares, c->share, TCP_READ_COST);
    else
        conn_lose(c, RDMAD_E_PEER_LOST, strerror(errno));
    return false;
}

static void conn_parse_and_count(struct tcp_conn *c) {
    conn_parse(c);
    share_worked_in(&c->tcp->shares, c->share, c->cost);
    c->cost = 0;
}

void conn_serve(struct tcp_conn *c) {
    struct rx *rx = &c->rx;
    conn_stir(c);
    c->more = false;
    if (c->blocked)
        conn_parse_and_count(c);
    while (!c->closed && !c->blocked && !conn_is_held(c)) {
        if (conn_room_in(c) == 0) {
            c->more = true;
            conn_heat(c);
            return;
        }
        bool large = rx->left > 0;
        if (large && c->role->recheck)
            c->role->recheck(c);
        size_t asked;
        ssize_t n = conn_read_once(c, &asked);
        if (n <= 0) {
            if (conn_read_failed(c, n))
                continue;
            return;
        }
        share_moved_in(&c->tcp->shares, c->share, (size_t)n);
        c->idle_polls = 0;
        c->heard_ns = c->tcp->now_ns;
        c->tcp->progress++;
        if (large && c->secure)
            take_payload(c);
        else if (large && rx->left == 0)
            c->role->end(c);
        if (!c->closed && rx->left == 0)
            conn_parse_and_count(c);
        if ((size_t)n < asked)
            return;
        if (rx->left == 0) /* more than was wanted, and nothing bulky among it */
            rx->want = TCP_STAGING;
    }
}

/* ---- sending ----------------------------------------------------------------------------- */

/* After a send that went wrong. Whether it is worth another try. */
static bool conn_send_failed(struct tcp_conn *c) {
    if (errno == EINTR)
        return true;
    if (errno == EFAULT) {
        /* Some piece is gone. Send one by one until the first is the one that faults. */
        uint32_t index = c->out.first;
        struct piece *p = c->careful ? outq_next_foreign(&c->out, &index) : NULL;
        c->careful = true;
        if (p)
            c->role->tx_fault(c, p);
        return true;
    }
    c->stuck = errno == EAGAIN || errno == EWOULDBLOCK;
    if (errno == EBADMSG && c->secure)
        conn_lose_broken(c);
    else if (!c->stuck)
        conn_lose(c, RDMAD_E_PEER_LOST, strerror(errno));
    return false;
}

/* Whether there is something that the socket has not taken. */
static bool unsent(const struct tcp_conn *c) {
    return !outq_empty(&c->out) || (c->secure && secure_unsent(c->secure));
}

/* One send. Returns how much left the queue; *asked: how much was offered. */
static ssize_t conn_write(struct tcp_conn *c, size_t *asked) {
    if (c->secure)
        return secure_write(c->secure, c->fd, &c->out, asked);
    return outq_send(&c->out, c->fd, c->careful ? 1 : UINT32_MAX, asked);
}

/* It is tried again, or epoll tells when to. What it has queued meanwhile goes along. */
static void conn_wants_room(struct tcp_conn *c) {
    list_remove(&c->sending);
    list_append(&c->tcp->stuck, &c->sending);
    if (c->tcp->many_stuck)
        conn_watch(c);
}

void conn_flush(struct tcp_conn *c) {
    conn_stir(c);
    c->stuck = false;
    if (c->dialling || c->greeting)
        return;
    if (c->role->before_send)
        c->role->before_send(c);
    while (!c->closed && unsent(c) && !c->stuck && conn_room_out(c) > 0) {
        size_t asked;
        ssize_t n = conn_write(c, &asked);
        if (n < 0) {
            if (conn_send_failed(c))
                continue;
            break;
        }
        c->careful = false;
        share_moved_out(&c->tcp->shares, c->share, (size_t)n);
        c->tcp->progress++;
        c->stuck = (size_t)n < asked;
        if (!c->stuck && c->role->before_send)
            c->role->before_send(c);
    }
    if (!c->closed && c->stuck)
        conn_wants_room(c);
    else if (unsent(c))
        conn_wants_send(c);
    if (c->blocked && !c->held && outq_room(&c->out))
        conn_heat(c); /* what waits in staging can go on */
}

/* It was left out of a flush, for a budget. Perhaps with nothing in its queue: acknowledgements are
 * put there by the flush. */
static bool flush_waits(const struct tcp_conn *c) {
    return !list_empty(&c->sending) && !c->dialling && !c->greeting && !c->stuck;
}

int conn_watch(struct tcp_conn *c) {
    uint32_t events = awaited(c);
    if (events == c->events)
        return 0;
    struct epoll_event event = {.events = events, .data.ptr = &c->source};
    if (epoll_ctl(c->tcp->epoll_fd, EPOLL_CTL_MOD, c->fd, &event))
        return RDMAD_E_SYSTEM;
    c->events = events;
    return 0;
}

static bool conn_arm(struct tcp_conn *c) {
    if (c->more || (c->blocked && !c->held && outq_room(&c->out)) || flush_waits(c))
        return false;
    return conn_watch(c) == 0;
}

bool conns_arm(struct tcp *t) {
    list_for_each_safe (pos, &t->stirred)
        if (conn_arm(list_entry(pos, struct tcp_conn, stirred)))
            list_remove(pos);
    return list_empty(&t->stirred);
}
