/* SPDX-License-Identifier: MIT */
/*
 * worker.c - receives the packets of one user that have descriptors, and closes these.
 *
 * The happy path: a task comes with a socket, its next packet is received with room for every
 * descriptor that a packet can bring, and the daemon gets the bytes, how many descriptors there
 * were, and the one that it can want: a memfd, which has no file operation of anybody's behind it.
 * Then all of them are closed, and the porter hears that this worker is free again. What is only to
 * be closed is closed when the porter has closed its own (GO), so that ours is the last reference.
 *
 * A close may take for ever. It is this process's alone, and only this user's packets wait for it.
 */
#include "daemon/porter/worker.h"
#include "daemon/porter/messages.h"
#include "daemon/porter/packet.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PACKET_FDS 253u /* the kernel's SCM_MAX_FD */

union answer_control {
    char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int) * PACKET_FDS)];
    struct cmsghdr align;
};

struct received {
    int fds[PACKET_FDS];
    unsigned n;
    bool more; /* than this process had room for */
};

static void received_collect(struct msghdr *msg, struct received *h) {
    h->n = 0;
    h->more = msg->msg_flags & MSG_CTRUNC;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        h->n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        if (h->n > PACKET_FDS)
            h->n = PACKET_FDS;
        memcpy(h->fds, CMSG_DATA(c), h->n * sizeof(int));
    }
}

static bool is_memfd(int fd) {
    return fcntl(fd, F_GET_SEALS) >= 0;
}

/* A socket's reset waits for nobody; what is no socket does not mind. */
static void received_close(const struct received *h) {
    struct linger off = {0};
    for (unsigned i = 0; i < h->n; i++) {
        (void)setsockopt(h->fds[i], SOL_SOCKET, SO_LINGER, &off, sizeof(off));
        close(h->fds[i]);
    }
}

/* One packet of sock, into answer. */
static void worker_take(int sock, struct porter_answer *answer, struct received *h) {
    union answer_control control;
    struct iovec iov = {.iov_base = answer->data, .iov_len = sizeof(answer->data)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t n;
    do
        n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    h->n = 0;
    answer->word = n < 0 ? PORTER_LOST : PORTER_TAKEN;
    if (n < 0)
        return;
    received_collect(&msg, h);
    answer->size = (uint32_t)n;
    answer->nfds = h->more || h->n > RDMAD_MSG_MAX_FDS ? RDMAD_MSG_MAX_FDS + 1 : h->n;
}

/* Takes a packet, tells the daemon, and closes what came with it. */
static void worker_do_take(uint64_t id, int sock) {
    static struct porter_answer answer;
    static struct received h;
    answer = (struct porter_answer){.word = PORTER_LOST, .id = id};
    h.n = 0;
    if (sock >= 0)
        worker_take(sock, &answer, &h);
    bool wanted = answer.nfds == 1 && h.n == 1 && is_memfd(h.fds[0]);
    packet_send(PORTER_FD, &answer, offsetof(struct porter_answer, data) + answer.size,
                wanted ? h.fds[0] : -1);
    received_close(&h);
}

static void worker_hear(int tasks, struct porter_request *task, int *fd) {
    size_t size = sizeof(*task);
    if (!packet_recv(tasks, task, &size, fd, true))
        _exit(0);
}

void worker_run(int tasks) {
    for (;;) {
        struct porter_request task;
        int fd, none;
        worker_hear(tasks, &task, &fd);
        if (task.ask == PORTER_TAKE)
            worker_do_take(task.id, fd);
        else
            worker_hear(tasks, &task, &none); /* its GO */
        if (fd >= 0)
            close(fd);
        if (!packet_send(tasks, "", 1, -1))
            _exit(0);
    }
}
