/* SPDX-License-Identifier: MIT */
#include "daemon/ipc/conn.h"
#include "common/fdmsg.h"
#include "daemon/base/list.h"
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <rdmad/wire.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PACKETS_A_TURN 16u
#define QUEUE_MAX 256u /* packets that may wait; a client asks one thing at a time */

struct packet {
    struct list node;
    size_t size;
    unsigned nfds;
    int fds[RDMAD_MSG_MAX_FDS];
    char data[];
};

struct conn {
    int fd;
    struct event *readable, *writable;
    struct conn_events events;
    void *user;
    struct conn_peer peer;
    struct list queue;
    unsigned queued;
    bool overflowed;
    bool calling, closed; /* inside events.packet; conn_close came meanwhile */
    char buf[RDMAD_MSG_MAX + 1];
};

static void packet_free(struct packet *p) {
    for (unsigned i = 0; i < p->nfds; i++)
        close(p->fds[i]);
    free(p);
}

static void conn_free(struct conn *c) {
    for (struct list *node; (node = list_pop(&c->queue));)
        packet_free(list_entry(node, struct packet, node));
    if (c->readable)
        event_free(c->readable);
    if (c->writable)
        event_free(c->writable);
    close(c->fd);
    free(c->peer.groups);
    free(c);
}

static void conn_end(struct conn *c, const char *why) {
    struct conn_events events = c->events;
    void *user = c->user;
    conn_free(c);
    events.closed(user, why);
}

/* ---- out ------------------------------------------------------------------------------------ */

/* Sends what the socket takes. Returns NULL, or why the connection is over. */
static const char *flush(struct conn *c) {
    for (struct list *node; (node = list_first(&c->queue));) {
        struct packet *p = list_entry(node, struct packet, node);
        int rc = rdmad_fdmsg_send(c->fd, p->data, p->size, p->fds, p->nfds);
        if (rc == RDMAD_E_AGAIN) {
            event_add(c->writable, NULL);
            return NULL;
        }
        if (rc)
            return "the client's socket failed";
        list_remove(&p->node);
        packet_free(p);
        c->queued--;
    }
    return NULL;
}

static void on_writable(evutil_socket_t fd, short what, void *user) {
    struct conn *c = user;
    (void)fd;
    (void)what;
    const char *why = c->overflowed ? "the client does not read its messages" : flush(c);
    if (why)
        conn_end(c, why);
}

/* Copies the packet, with descriptors of its own. NULL when the system has no room for it. */
static struct packet *packet_new(const void *data, size_t size, const int *fds, unsigned nfds) {
    struct packet *p = calloc(1, sizeof(*p) + size);
    if (!p)
        return NULL;
    memcpy(p->data, data, size);
    p->size = size;
    for (; p->nfds < nfds; p->nfds++) {
        p->fds[p->nfds] = fcntl(fds[p->nfds], F_DUPFD_CLOEXEC, 0);
        if (p->fds[p->nfds] < 0) {
            packet_free(p);
            return NULL;
        }
    }
    return p;
}

void conn_send(struct conn *c, const void *data, size_t size, const int *fds, unsigned nfds) {
    if (c->overflowed)
        return;
    int rc = RDMAD_E_AGAIN;
    if (list_empty(&c->queue))
        rc = rdmad_fdmsg_send(c->fd, data, size, fds, nfds);
    if (!rc)
        return;
    struct packet *p = NULL;
    if (rc == RDMAD_E_AGAIN && c->queued < QUEUE_MAX)
        p = packet_new(data, size, fds, nfds);
    if (p) {
        list_append(&c->queue, &p->node);
        c->queued++;
        event_add(c->writable, NULL);
        return;
    }
    if (rc != RDMAD_E_AGAIN)
        return; /* the socket is broken: its end of file is on the way */
    /* The caller may be anywhere: the end comes from the loop. */
    c->overflowed = true;
    event_active(c->writable, EV_WRITE, 0);
}

/* ---- in ------------------------------------------------------------------------------------- */

/* One packet. Returns false when there is none, or when c is over (then *why, or c->closed). */
static bool take_packet(struct conn *c, const char **why) {
    int fds[RDMAD_MSG_MAX_FDS];
    unsigned nfds = 0;
    size_t size = RDMAD_MSG_MAX;
    int rc = rdmad_fdmsg_recv(c->fd, c->buf, &size, fds, RDMAD_MSG_MAX_FDS, &nfds);
    if (rc == RDMAD_E_AGAIN)
        return false;
    if (rc == RDMAD_E_SYSTEM || (rc == RDMAD_OK && size == 0)) {
        *why = rc ? "the client's socket failed" : "the client closed its socket";
        return false;
    }
    for (unsigned i = 0; i < nfds; i++)
        close(fds[i]);
    if (rc == RDMAD_E_LENGTH)
        size = RDMAD_MSG_MAX + 1;
    if (rc == RDMAD_E_FDS)
        nfds = RDMAD_MSG_MAX_FDS + 1;
    c->calling = true;
    c->events.packet(c->user, c->buf, size, nfds);
    c->calling = false;
    return !c->closed;
}

static void on_readable(evutil_socket_t fd, short what, void *user) {
    struct conn *c = user;
    const char *why = NULL;
    (void)fd;
    (void)what;
    for (unsigned i = 0; i < PACKETS_A_TURN && take_packet(c, &why); i++)
        ;
    if (c->closed)
        conn_free(c);
    else if (why)
        conn_end(c, why);
}

/* ---- life ----------------------------------------------------------------------------------- */

static int ask_kernel(int fd, struct conn_peer *out) {
    struct ucred cred;
    socklen_t size = sizeof(cred);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size))
        return RDMAD_E_SYSTEM;
    *out = (struct conn_peer){.uid = cred.uid, .gid = cred.gid, .pid = cred.pid};
    size = 0;
    if (!getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &size) || errno != ERANGE || !size)
        return RDMAD_OK; /* no supplementary groups */
    out->groups = malloc(size);
    if (!out->groups)
        return RDMAD_E_NOMEM;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, out->groups, &size)) {
        free(out->groups);
        return RDMAD_E_SYSTEM;
    }
    out->ngroups = (unsigned)(size / sizeof(gid_t));
    return RDMAD_OK;
}

int conn_new(struct event_base *base, int fd, const struct conn_events *events, void *user,
             struct conn **out) {
    struct conn *c = calloc(1, sizeof(*c));
    if (!c) {
        close(fd);
        return RDMAD_E_NOMEM;
    }
    c->fd = fd;
    c->events = *events;
    c->user = user;
    list_init(&c->queue);
    int rc = ask_kernel(fd, &c->peer);
    if (!rc) {
        c->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, c);
        c->writable = event_new(base, fd, EV_WRITE, on_writable, c);
        if (!c->readable || !c->writable || event_add(c->readable, NULL))
            rc = RDMAD_E_NOMEM;
    }
    if (rc) {
        conn_free(c);
        return rc;
    }
    *out = c;
    return RDMAD_OK;
}

const struct conn_peer *conn_peer(const struct conn *c) {
    return &c->peer;
}

void conn_close(struct conn *c) {
    flush(c);
    if (c->calling)
        c->closed = true; /* on_readable frees it */
    else
        conn_free(c);
}
