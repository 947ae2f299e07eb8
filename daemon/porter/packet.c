/* SPDX-License-Identifier: MIT */
/*
 * packet.c - packets between the daemon, the porter and its workers.
 *
 * Nobody else has an end of these sockets. A receiver that has no descriptor left sees -1 where one
 * should be; its sender still had a reference.
 */
#include "daemon/porter/packet.h"
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

union packet_control {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
};

bool packet_send(int sock, const void *data, size_t size, int fd) {
    union packet_control control = {{0}};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;
    if (fd >= 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    }
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)size;
}

bool packet_recv(int sock, void *data, size_t *size, int *fd, bool wait) {
    union packet_control control;
    struct iovec iov = {.iov_base = data, .iov_len = *size};
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        /* CMSG_SPACE is rounded up, to where a second one would fit and stay open. */
        .msg_controllen = CMSG_LEN(sizeof(int))};
    ssize_t n;
    *fd = -1;
    *size = 0;
    do
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
            memcpy(fd, CMSG_DATA(c), sizeof(*fd));
    *size = (size_t)n;
    return n > 0;
}
