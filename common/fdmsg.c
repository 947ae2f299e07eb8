/* SPDX-License-Identifier: MIT */
/*
 * fdmsg.c - sendmsg and recvmsg with SCM_RIGHTS, with every way of losing a descriptor closed.
 *
 * The happy path: the packet fits, its descriptors fit, they are handed out in the order in which
 * they were sent. Otherwise whatever the kernel installed into this process is closed before the
 * caller hears of it. Descriptors that did not fit into the control buffer were never installed
 * (the kernel drops them and sets MSG_CTRUNC), those that did fit were, even in a packet that is
 * refused for its length.
 *
 * An empty packet cannot be told from end of file on SOCK_SEQPACKET, so it counts as one.
 */
#include "common/fdmsg.h"

#include <errno.h>
#include <rdmad/wire.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union fdmsg_control {
    char bytes[CMSG_SPACE(sizeof(int) * RDMAD_MSG_MAX_FDS)];
    struct cmsghdr align;
};

int rdmad_fdmsg_send(int sock, const void *data, size_t size, const int *fds, unsigned nfds) {
    union fdmsg_control control;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (nfds > RDMAD_MSG_MAX_FDS || size == 0) {
        errno = EINVAL;
        return RDMAD_E_SYSTEM;
    }
    if (nfds) {
        memset(&control, 0, sizeof(control));
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * nfds);
    }
    do
        n = sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return 0; /* SEQPACKET sends whole packets */
    return errno == EAGAIN || errno == EWOULDBLOCK ? RDMAD_E_AGAIN : RDMAD_E_SYSTEM;
}

/* Takes every descriptor in msg out: the first max_fds into fds, all others are closed. Returns how
 * many there were. */
static unsigned collect_fds(struct msghdr *msg, int *fds, unsigned max_fds) {
    unsigned count = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (count < max_fds)
                fds[count] = fd;
            else
                close(fd);
            count++;
        }
    }
    return count;
}

int rdmad_fdmsg_recv(int sock, void *buf, size_t *size, int *fds, unsigned max_fds,
                     unsigned *nfds) {
    union fdmsg_control control;
    struct iovec iov = {.iov_base = buf, .iov_len = *size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    *nfds = 0;
    *size = 0;
    if (max_fds > RDMAD_MSG_MAX_FDS)
        max_fds = RDMAD_MSG_MAX_FDS;
    if (max_fds) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * max_fds);
    }
    /* When the other end has closed with something of ours unread, that is said once, before what
     * it sent last: why it closed. */
    bool told = false;
    do {
        n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0 && errno == ECONNRESET && !told)
            told = true;
        else if (n >= 0 || errno != EINTR)
            break;
    } while (true);
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? RDMAD_E_AGAIN : RDMAD_E_SYSTEM;

    unsigned count = collect_fds(&msg, fds, max_fds);
    bool too_many = count > max_fds || (msg.msg_flags & MSG_CTRUNC);
    bool cut = msg.msg_flags & MSG_TRUNC;
    if (too_many || cut || n == 0) {
        for (unsigned i = 0; i < count && i < max_fds; i++)
            close(fds[i]);
        count = 0;
    }
    *nfds = count;
    *size = (size_t)n;
    return cut ? RDMAD_E_LENGTH : too_many ? RDMAD_E_FDS : 0;
}
