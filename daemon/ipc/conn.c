/* SPDX-License-Identifier: MIT */
/*
 * conn.c - packets between a client's socket and a pair of callbacks.
 *
 * The happy path: readable -> packet callback; conn_send -> sendmsg. When the socket is full, the
 * packet goes into the queue, with duplicates of its descriptors, and reading pauses until the
 * queue is empty: a client that does not take its answers gets to ask no more.
 *
 * A socket to which sending has proved to take long rests (base/send_cost.h): what is for it waits
 * in the queue as if it were full.
 *
 * If the kernel does not take a packet's descriptors, the packet stays in the queue without them,
 * and is given back by the unsent callback when its turn comes.
 *
 * A client that has gone hears nothing more: what is for it is dropped, and what it had sent before
 * is read as of any other, to the end of file, or it would matter to others how fast we were (its
 * channels' other ends are told that it has closed them). Nothing can be added to it, so it does
 * not rest any more: what is its own ends without delay. What would have us wait for somebody else
 * is not waited for: a descriptor, or a conn_wait.
 *
 * A connection ends either from below (end of file, error, overflow: it is freed, then closed is
 * called) or from above (conn_close, also from inside a callback). What fails inside conn_send is
 * reported in a later turn, so nothing is freed under a caller of conn_send.
 *
 * A packet that has descriptors is received by the porter (ipc/client_socket.h); until it has come
 * from there nothing more is read of this client.
 */
#include "daemon/ipc/conn.h"
#include "common/fdmsg.h"
#include "daemon/base/list.h"
#include "daemon/ipc/client_socket.h"
#include "daemon/ipc/porter.h"
#include "daemon/ipc/rota.h"
#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <rdmad/wire.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define QUEUE_BYTES (256u << 10)
#define QUEUE_FDS 64u
#define GROUPS_MAX 65536u

struct conn_packet {
    struct list node;
    size_t size;
    unsigned nfds;
    int fds[RDMAD_MSG_MAX_FDS];
    const char *unsent; /* why its descriptors cannot be passed; it has none then */
    unsigned char data[];
};

struct conn {
    struct client_socket *sock;
    int fd; /* the socket's */
    struct conn_peer peer;
    const struct conn_events *events;
    void *user;
    struct event *readable, *writable, *hangup;
    struct event *read_again; /* after conn_rest; NULL until the first */
    struct event *send_again; /* when its socket has rested */
    struct send_cost cost;
    struct rota_member turn;
    struct list queue;
    size_t queued_bytes;
    unsigned queued_fds;
    const char *broken; /* why conn_send gave up; told in the next turn */
    bool mute;          /* the client has gone */
    bool taking;        /* the porter has the next packet */
    bool resting;
    unsigned waits;     /* conn_wait */
    bool in_turn, gone; /* gone: conn_close was called in a turn, which then frees */
};

/* ---- who ------------------------------------------------------------------------------------ */

static int ask_groups(int fd, struct conn_peer *peer) {
    socklen_t size = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &size) == 0)
        return 0; /* none */
    if (errno != ERANGE || size > GROUPS_MAX * sizeof(gid_t))
        return RDMAD_E_SYSTEM;
    peer->groups = malloc(size);
    if (!peer->groups)
        return RDMAD_E_NOMEM;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, peer->groups, &size) < 0)
        return RDMAD_E_SYSTEM;
    peer->ngroups = (unsigned)(size / sizeof(gid_t));
    return 0;
}

static int ask_who(int fd, struct conn_peer *peer) {
    struct ucred cred;
    socklen_t size = sizeof(cred);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
        return RDMAD_E_SYSTEM;
    peer->uid = cred.uid;
    peer->gid = cred.gid;
    peer->pid = cred.pid;
    return ask_groups(fd, peer);
}

bool conn_peer_in(const struct conn_peer *peer, gid_t group) {
    if (peer->gid == group)
        return true;
    for (unsigned i = 0; i < peer->ngroups; i++)
        if (peer->groups[i] == group)
            return true;
    return false;
}

/* ---- the end -------------------------------------------------------------------------------- */

static void packet_free(struct conn_packet *p) {
    for (unsigned i = 0; i < p->nfds; i++)
        close(p->fds[i]);
    free(p);
}

static void conn_drop_queue(struct conn *c) {
    struct list *node;
    while ((node = list_pop(&c->queue)))
        packet_free(list_entry(node, struct conn_packet, node));
    c->queued_bytes = c->queued_fds = 0;
}

static void conn_free(struct conn *c) {
    conn_drop_queue(c);
    rota_leave(&c->turn);
    if (c->readable)
        event_free(c->readable);
    if (c->writable)
        event_free(c->writable);
    if (c->hangup)
        event_free(c->hangup);
    if (c->read_again)
        event_free(c->read_again);
    if (c->send_again)
        event_free(c->send_again);
    client_socket_close(c->sock);
    free(c->peer.groups);
    free(c);
}

/* Ends it from below. */
static void conn_lost(struct conn *c, const char *why) {
    const struct conn_events *events = c->events;
    void *user = c->user;
    conn_free(c);
    events->closed(user, why);
}

/* After a turn: goes the way that the turn decided. */
static void conn_turn_over(struct conn *c, const char *over) {
    c->in_turn = false;
    if (c->gone)
        conn_free(c);
    else if (over)
        conn_lost(c, over);
}

/* ---- output --------------------------------------------------------------------------------- */

/* To one of the three only: hangup is told of what changes, and the others of how it is. */
static void conn_listen_to(struct conn *c, struct event *one) {
    struct event *const all[] = {c->readable, c->writable, c->hangup};
    for (unsigned i = 0; i < 3; i++)
        if (all[i] != one)
            event_del(all[i]);
    event_add(one, NULL);
}

/* What is queued is sent when the socket takes more, or has rested. What the client says is read
 * while nothing stands against it; else hangup tells of its end. Without memory for the timer the
 * socket is asked again and again. */
static void conn_listen(struct conn *c) {
    if (c->broken) /* writable will end it */
        return;
    if (!list_empty(&c->queue)) {
        uint64_t left_ns = send_cost_left_ns(&c->cost);
        const struct timeval span = clock_timeval(left_ns);
        bool rests = left_ns && !event_add(c->send_again, &span);
        conn_listen_to(c, rests ? c->hangup : c->writable);
    } else {
        event_del(c->send_again);
        conn_listen_to(c, c->taking || c->resting || c->waits ? c->hangup : c->readable);
    }
}

/* The client has gone. One that has only said so can send nothing more either. */
static void conn_mute(struct conn *c) {
    if (c->mute || c->broken) /* writable will end it */
        return;
    c->mute = true;
    shutdown(c->fd, SHUT_RDWR);
    conn_drop_queue(c);
    if (c->resting)
        event_del(c->read_again);
    c->resting = false;
    conn_listen(c);
}

static void conn_break(struct conn *c, const char *why) {
    if (c->broken)
        return;
    c->broken = why;
    event_active(c->writable, EV_WRITE, 1);
}

static const char socket_failed[] = "the socket failed";
static const char client_gone[] = "the client is gone";

static bool is_gone(int error) {
    return error == EPIPE || error == ECONNRESET;
}

/* In conn_send, of which nobody expects that it ends the connection. */
static void conn_could_not_send(struct conn *c) {
    if (is_gone(errno))
        conn_mute(c);
    else
        conn_break(c, socket_failed);
}

static const char *why_unsent(void) {
    return errno == ETOOMANYREFS
               ? "as many descriptors as this rdmad may have files open (LimitNOFILE) are on their "
                 "way to clients that do not take them"
               : "rdmad has no descriptor or no memory left for it";
}

/* Whether a packet that loses its descriptors can be given back by the unsent callback. */
static bool can_be_undone(const struct conn *c, unsigned nfds) {
    return nfds && c->events->unsent && !is_gone(errno);
}

static struct conn_packet *packet_new(const void *data, size_t size) {
    struct conn_packet *p = malloc(sizeof(*p) + size);
    if (!p)
        return NULL;
    *p = (struct conn_packet){.size = size};
    memcpy(p->data, data, size);
    return p;
}

static void packet_drop_fds(struct conn_packet *p) {
    while (p->nfds)
        close(p->fds[--p->nfds]);
}

static int packet_copy_fds(struct conn_packet *p, const int *fds, unsigned nfds) {
    for (; p->nfds < nfds; p->nfds++) {
        p->fds[p->nfds] = fcntl(fds[p->nfds], F_DUPFD_CLOEXEC, 3);
        if (p->fds[p->nfds] < 0)
            return RDMAD_E_SYSTEM;
    }
    return 0;
}

static int conn_transmit(struct conn *c, const void *data, size_t size, const int *fds,
                         unsigned nfds) {
    if (send_cost_rests(&c->cost))
        return RDMAD_E_AGAIN;
    struct send_look look = send_cost_begin(&c->cost);
    int rc = rdmad_fdmsg_send(c->fd, data, size, fds, nfds);
    if (!rc)
        send_cost_end(&c->cost, look);
    return rc;
}

/* failed: the kernel does not take its descriptors; errno says why. False: nobody gets them. */
static bool conn_queue(struct conn *c, const void *data, size_t size, const int *fds, unsigned nfds,
                       bool failed) {
    const char *why = failed ? why_unsent() : NULL;
    if (c->queued_bytes + size > QUEUE_BYTES || (!failed && c->queued_fds + nfds > QUEUE_FDS)) {
        conn_break(c, "the client does not read what it is sent");
        return false;
    }
    struct conn_packet *p = packet_new(data, size);
    if (!p) {
        conn_break(c, "out of memory for what the client has not read");
        return false;
    }
    if (!failed && packet_copy_fds(p, fds, nfds)) {
        why = why_unsent();
        packet_drop_fds(p);
        if (!can_be_undone(c, nfds)) {
            packet_free(p);
            conn_break(c, "out of descriptors for what the client has not read");
            return false;
        }
    }
    p->unsent = why;
    list_append(&c->queue, &p->node);
    c->queued_bytes += size;
    c->queued_fds += p->nfds;
    conn_listen(c);
    return !why;
}

bool conn_send(struct conn *c, const void *data, size_t size, const int *fds, unsigned nfds) {
    assert(size && size <= RDMAD_MSG_MAX && nfds <= RDMAD_MSG_MAX_FDS);
    if (c->broken || c->gone || c->mute)
        return false;
    int rc = RDMAD_E_AGAIN;
    if (list_empty(&c->queue))
        rc = conn_transmit(c, data, size, fds, nfds);
    if (!rc)
        return true;
    if (rc == RDMAD_E_AGAIN)
        return conn_queue(c, data, size, fds, nfds, false);
    if (can_be_undone(c, nfds))
        return conn_queue(c, data, size, NULL, 0, true);
    conn_could_not_send(c);
    return false;
}

static struct conn_packet *conn_next(struct conn *c) {
    struct list *node = list_first(&c->queue);
    return node ? list_entry(node, struct conn_packet, node) : NULL;
}

static void conn_unqueue(struct conn *c, struct conn_packet *p) {
    assert(c->queued_bytes >= p->size && c->queued_fds >= p->nfds);
    c->queued_bytes -= p->size;
    c->queued_fds -= p->nfds;
    list_remove(&p->node);
}

static void packet_sent(const struct conn *c, struct conn_packet *p) {
    while (c->events->sent_fd && p->nfds)
        c->events->sent_fd(c->user, p->fds[--p->nfds]);
    packet_free(p);
}

/* Sends what the socket takes. 0, RDMAD_E_AGAIN or RDMAD_E_SYSTEM; RDMAD_E_FDS: the next packet is
 * one to be undone. */
static int conn_send_queued(struct conn *c) {
    struct conn_packet *p;
    while ((p = conn_next(c))) {
        int rc = p->unsent ? RDMAD_E_FDS : conn_transmit(c, p->data, p->size, p->fds, p->nfds);
        if (rc == RDMAD_E_SYSTEM && can_be_undone(c, p->nfds)) {
            p->unsent = why_unsent();
            c->queued_fds -= p->nfds;
            packet_drop_fds(p);
            rc = RDMAD_E_FDS;
        }
        if (rc == RDMAD_E_SYSTEM && is_gone(errno)) {
            conn_mute(c);
            return 0;
        }
        if (rc)
            return rc;
        conn_unqueue(c, p);
        packet_sent(c, p);
    }
    return 0;
}

/* The callee may send, which queues behind what is there, or close c. */
static void conn_give_back(struct conn *c) {
    struct conn_packet *p = conn_next(c);
    conn_unqueue(c, p);
    c->events->unsent(c->user, p->data, p->size, p->unsent);
    packet_free(p);
}

static void conn_writable(evutil_socket_t fd, short what, void *arg) {
    struct conn *c = arg;
    int rc = 0;
    (void)fd, (void)what;
    c->in_turn = true;
    while (!c->broken && !c->gone && (rc = conn_send_queued(c)) == RDMAD_E_FDS)
        conn_give_back(c);
    if (c->broken) {
        conn_turn_over(c, c->broken);
    } else if (!c->gone && rc == RDMAD_E_AGAIN) {
        conn_listen(c);
        conn_turn_over(c, NULL);
    } else if (!c->gone && rc) {
        conn_turn_over(c, socket_failed);
    } else {
        if (!c->gone)
            conn_listen(c);
        if (!c->gone && !c->mute && c->events->drained)
            c->events->drained(c->user); /* may close c */
        conn_turn_over(c, NULL);
    }
}

/* ---- input ---------------------------------------------------------------------------------- */

/* What the porter received. A descriptor that is left is of a memfd, whose close waits for nobody.
 */
static void conn_taken(void *user, const void *data, size_t size, int fd, unsigned nfds) {
    struct conn *c = user;
    int fds[RDMAD_MSG_MAX_FDS] = {fd, -1, -1, -1};
    c->taking = false;
    c->in_turn = true;
    if (data)
        c->events->packet(c->user, data, size, fds, nfds);
    else if (c->events->lost)
        c->events->lost(c->user);
    if (fds[0] >= 0)
        close(fds[0]);
    if (!c->gone)
        conn_listen(c);
    conn_turn_over(c, data || c->events->lost ? NULL : "the porter ended");
}

/* One packet to the callback. Returns why the connection is over, NULL while it is not; *more tells
 * whether another packet may wait. */
static const char *conn_read_one(struct conn *c, bool *more) {
    unsigned char buf[RDMAD_MSG_MAX + 1]; /* one more: a packet that is too long is seen to be */
    size_t size = sizeof(buf);
    int rc = client_socket_read(c->sock, buf, &size);
    *more = rc == 0;
    if (rc == RDMAD_E_AGAIN)
        return NULL;
    if (rc == RDMAD_E_SYSTEM)
        return socket_failed;
    if (rc == RDMAD_E_FDS && c->mute)
        return client_gone;
    if (rc == RDMAD_E_FDS) {
        c->taking = true;
        conn_listen(c);
        client_socket_take(c->sock, conn_taken, c);
        return NULL;
    }
    if (size == 0)
        return "the client closed its socket";
    c->events->packet(c->user, buf, size, NULL, 0);
    return NULL;
}

static void conn_rested(evutil_socket_t fd, short what, void *arg) {
    struct conn *c = arg;
    (void)fd, (void)what;
    c->resting = false;
    conn_listen(c);
}

void conn_rest(struct conn *c, uint64_t ns) {
    const struct timeval span = clock_timeval(ns);
    if (c->gone || c->broken || c->mute || c->resting)
        return;
    if (!c->read_again)
        c->read_again = event_new(event_get_base(c->readable), -1, 0, conn_rested, c);
    if (!c->read_again || event_add(c->read_again, &span))
        return; /* no memory: it is not held up */
    c->resting = true;
    conn_listen(c);
}

void conn_wait(struct conn *c, bool wait) {
    assert(wait || c->waits);
    c->waits += wait ? 1u : -1u;
    if (c->gone)
        return;
    if (wait && c->mute)
        conn_break(c, client_gone);
    else
        conn_listen(c);
}

/* A client that has gone with something of ours unread is an error of the socket, and of that
 * libevent tells as of a socket that can be written to, not as of a closed one. */
static bool has_hung_up(int fd, short what) {
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    return what & EV_CLOSED || poll(&p, 1, 0) > 0;
}

/* The porter may look for long, and so may whoever has it wait. */
static void conn_hung_up(evutil_socket_t fd, short what, void *arg) {
    struct conn *c = arg;
    if (!has_hung_up(fd, what))
        return;
    if (c->taking || c->waits)
        conn_lost(c, "the client closed its socket");
    else
        conn_mute(c);
}

static bool conn_may_read(const struct conn *c) {
    return !c->gone && !c->broken && !c->taking && !c->resting && !c->waits &&
           list_empty(&c->queue);
}

/* As much as its user may in this pass of the loop (rota.h). While it waits for the next it does
 * not listen. */
static void conn_read(struct conn *c) {
    const char *over = NULL;
    bool more = true;
    unsigned n = 0, most = rota_room(&c->turn);
    c->in_turn = true;
    for (; n < most && more && !over && conn_may_read(c); n++)
        over = conn_read_one(c, &more);
    rota_used(&c->turn, n);
    if (!over && conn_may_read(c)) {
        if (more) {
            event_del(c->readable);
            rota_wait(&c->turn);
        } else {
            event_add(c->readable, NULL);
        }
    }
    conn_turn_over(c, over);
}

static void conn_readable(evutil_socket_t fd, short what, void *arg) {
    struct conn *c = arg;
    (void)fd, (void)what;
    if (rota_waits(&c->turn)) /* it was told to listen when its output was gone */
        event_del(c->readable);
    else
        conn_read(c);
}

/* If it may not read just now, it listens again as soon as it may. */
static void conn_go_on(struct rota_member *m) {
    struct conn *c = container_of(m, struct conn, turn);
    if (conn_may_read(c))
        conn_read(c);
}

/* ---- begin and end from above --------------------------------------------------------------- */

int conn_new(struct event_base *base, struct porter *porter, struct rota *rota, int fd,
             uint32_t tenant, const struct conn_events *events, void *user, struct conn **out) {
    struct conn_peer peer = {0};
    int rc = ask_who(fd, &peer);
    const struct user_id who = {.uid = peer.uid, .tenant = tenant};
    struct client_socket *sock = client_socket_new(porter, fd, who);
    struct conn *c = sock ? calloc(1, sizeof(*c)) : NULL;
    if (!c) {
        if (sock)
            client_socket_close(sock);
        free(peer.groups);
        return RDMAD_E_NOMEM;
    }
    *c = (struct conn){.sock = sock, .fd = fd, .peer = peer, .events = events, .user = user};
    list_init(&c->queue);
    if (!rc)
        rc = rota_join(rota, &c->turn, who, conn_go_on);
    if (!rc) {
        c->cost.rest = rota_sends(&c->turn);
        c->readable = event_new(base, fd, EV_READ | EV_PERSIST, conn_readable, c);
        c->writable = event_new(base, fd, EV_WRITE, conn_writable, c);
        c->send_again = event_new(base, -1, 0, conn_writable, c);
        c->hangup = event_new(base, fd, EV_CLOSED | EV_WRITE | EV_ET | EV_PERSIST, conn_hung_up, c);
        if (!c->readable || !c->writable || !c->send_again || !c->hangup ||
            event_add(c->readable, NULL))
            rc = RDMAD_E_NOMEM;
    }
    if (rc) {
        conn_free(c);
        return rc;
    }
    *out = c;
    return 0;
}

void conn_set_user(struct conn *c, void *user) {
    c->user = user;
}

const struct conn_peer *conn_peer(const struct conn *c) {
    return &c->peer;
}

bool conn_lags(const struct conn *c) {
    return !list_empty(&c->queue);
}

/* Packets whose descriptors the kernel did not take are left out, because whoever closes has given
 * up what they tell of; what is queued behind them is sent. */
void conn_close(struct conn *c) {
    assert(!c->gone);
    while (!c->broken && conn_send_queued(c) == RDMAD_E_FDS) {
        struct conn_packet *p = conn_next(c);
        conn_unqueue(c, p);
        packet_free(p);
    }
    c->gone = true;
    if (!c->in_turn)
        conn_free(c);
}
