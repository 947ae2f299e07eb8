/* SPDX-License-Identifier: MIT */
/*
 * client_socket.c - peek, then receive; shut down, look, then close.
 *
 * A peek without room for control data sets MSG_CTRUNC if, and only if, there is some: descriptors,
 * or what options of our socket ask for, so these are switched off. On a stream, receiving as many
 * bytes as were seen never reaches into what came after the look; data out of band would be thrown
 * away by a receive and not be seen by a peek, so it is taken in line.
 *
 * Nothing can be queued after a shutdown. Whether something is is told by the credentials that
 * every packet has, also an empty one; the end of file has none.
 */
#include "daemon/ipc/client_socket.h"
#include "daemon/base/log.h"
#include "daemon/ipc/porter.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define UNREAD_BYTES (8 << 10)

struct client_socket {
    struct porter *porter;
    bool stream;
    client_socket_taken *taken;
    void *user;
    struct porter_visit visit;
};

static int set_option(int fd, int option, int value) {
    return setsockopt(fd, SOL_SOCKET, option, &value, sizeof(value));
}

/* That the client has closed with something of ours unread the kernel says once, at any time,
 * before what it still has of the client. */
static ssize_t receive(int fd, void *buf, size_t size, int flags, bool *has_fds) {
    struct iovec iov = {.iov_base = buf, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    bool told = false, again;
    ssize_t n;
    do {
        n = recvmsg(fd, &msg, flags | MSG_DONTWAIT);
        bool reset = n < 0 && errno == ECONNRESET;
        again = n < 0 && (errno == EINTR || (reset && !told));
        told |= reset;
    } while (again);
    *has_fds = n >= 0 && (msg.msg_flags & MSG_CTRUNC);
    return n;
}

/* ---- while it is there ---------------------------------------------------------------------- */

static void visit_taken(struct porter_visit *v, const void *data, size_t size, int fd,
                        unsigned nfds) {
    struct client_socket *s = container_of(v, struct client_socket, visit);
    s->taken(s->user, data, size, fd, nfds);
}

static void visit_ended(struct porter_visit *v) {
    free(container_of(v, struct client_socket, visit));
}

/* Without memory it cannot be in the porter's queue: then it is closed here, with what is unread in
 * it. */
struct client_socket *client_socket_new(struct porter *p, int fd, struct user_id who) {
    struct client_socket *s = calloc(1, sizeof(*s));
    int type = SOCK_SEQPACKET;
    socklen_t size = sizeof(type);
    if (!s) {
        LOG_LIMITED(WARNING, ("out of memory for a client's socket"));
        close(fd);
        return NULL;
    }
    (void)getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size);
    set_option(fd, SO_PASSCRED, 0); /* whoever made the listening socket may have set them */
    set_option(fd, SO_PASSSEC, 0);
    set_option(fd, SO_OOBINLINE, 1);
    /* What a client does not read is in flight, and descriptors in flight are counted against our
     * user: some twenty packets, and then the queue of conn.c, which has a bound of its own. */
    if (type == SOCK_SEQPACKET)
        set_option(fd, SO_SNDBUF, UNREAD_BYTES);
    s->porter = p;
    s->stream = type == SOCK_STREAM;
    s->visit.taken = visit_taken;
    s->visit.ended = visit_ended;
    porter_visit_init(p, &s->visit, fd, who);
    return s;
}

int client_socket_fd(const struct client_socket *s) {
    return s->visit.fd;
}

int client_socket_read(struct client_socket *s, void *buf, size_t *size) {
    bool has_fds;
    size_t room = *size;
    *size = 0;
    ssize_t n = receive(s->visit.fd, buf, room, MSG_PEEK, &has_fds);
    if (n < 0)
        return errno == EAGAIN ? RDMAD_E_AGAIN : RDMAD_E_SYSTEM;
    if (has_fds)
        return RDMAD_E_FDS;
    if (n == 0)
        return 0; /* the end, or an empty packet, which stands for it */
    *size = (size_t)n;
    n = receive(s->visit.fd, buf, s->stream ? *size : 0, 0, &has_fds);
    return n < 0 ? RDMAD_E_SYSTEM : 0;
}

void client_socket_take(struct client_socket *s, client_socket_taken *taken, void *user) {
    s->taken = taken;
    s->user = user;
    porter_take(s->porter, &s->visit);
}

/* ---- the end -------------------------------------------------------------------------------- */

/* After the shutdown. A stream has no empty packets; its end is seen as credentials, too. What
 * cannot be known counts as unread. */
static bool anything_unread(const struct client_socket *s) {
    int fd = s->visit.fd;
    bool has_fds;
    char byte;
    if (!s->stream && set_option(fd, SO_PASSCRED, 1))
        return true;
    ssize_t n = receive(fd, &byte, 1, MSG_PEEK, &has_fds);
    return n != 0 || has_fds;
}

void client_socket_close(struct client_socket *s) {
    shutdown(s->visit.fd, SHUT_RDWR);
    bool asked = !list_empty(&s->visit.waiting) || !list_empty(&s->visit.asked);
    if (asked || anything_unread(s)) {
        porter_end(s->porter, &s->visit);
        return;
    }
    close(s->visit.fd);
    free(s);
}
