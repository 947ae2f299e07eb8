/* SPDX-License-Identifier: MIT */
/* Packets with descriptors: no descriptor is ever lost, whatever the other side sends. */
#include "common/fdmsg.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <rdmad/wire.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int a, b;

static unsigned open_fds(void) {
    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;

    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void setup(void) {
    int pair[2];

    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    a = pair[0];
    b = pair[1];
}

TestSuite(fdmsg, .init = setup);

/* Sends with as many descriptors as asked, also more than rdmad_fdmsg_send would. */
static void send_raw(const void *data, size_t size, unsigned nfds) {
    union {
        char bytes[CMSG_SPACE(sizeof(int) * 64)];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (nfds) {
        memset(&control, 0, sizeof(control));
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
        for (unsigned i = 0; i < nfds; i++)
            memcpy(CMSG_DATA(c) + i * sizeof(int), &a, sizeof(int));
    }
    cr_assert_eq(sendmsg(a, &msg, MSG_NOSIGNAL), (ssize_t)size);
}

static int receive(size_t room, unsigned max_fds, size_t *size, unsigned *nfds) {
    static char buf[64];
    int fds[RDMAD_MSG_MAX_FDS];
    int rc;

    *size = room;
    rc = rdmad_fdmsg_recv(b, buf, size, fds, max_fds, nfds);
    for (unsigned i = 0; i < *nfds; i++) {
        cr_assert(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        close(fds[i]);
    }
    return rc;
}

Test(fdmsg, a_packet_and_its_descriptors_arrive_whole) {
    int out[3] = {a, b, STDIN_FILENO}, in[4];
    char buf[16];
    size_t size = sizeof(buf);
    unsigned nfds;

    cr_assert_eq(rdmad_fdmsg_send(a, "hello", 5, out, 3), 0);
    cr_assert_eq(rdmad_fdmsg_recv(b, buf, &size, in, 4, &nfds), 0);
    cr_assert_eq(size, 5);
    cr_assert_eq(nfds, 3);
    cr_assert_eq(memcmp(buf, "hello", 5), 0);
    cr_assert(fcntl(in[2], F_GETFD) & FD_CLOEXEC);
}

Test(fdmsg, an_empty_socket_says_again_and_a_full_one_too) {
    size_t size;
    unsigned nfds;
    char big[1024] = {0};
    int rc;

    cr_assert_eq(receive(64, 4, &size, &nfds), RDMAD_E_AGAIN);
    while ((rc = rdmad_fdmsg_send(a, big, sizeof(big), NULL, 0)) == 0)
        ;
    cr_assert_eq(rc, RDMAD_E_AGAIN);
}

Test(fdmsg, end_of_file_has_size_zero) {
    size_t size;
    unsigned nfds;

    close(a);
    cr_assert_eq(receive(64, 4, &size, &nfds), 0);
    cr_assert_eq(size, 0);
    cr_assert_eq(rdmad_fdmsg_send(b, "x", 1, NULL, 0), RDMAD_E_SYSTEM, "and no SIGPIPE");
}

Test(fdmsg, refused_packets_leave_no_descriptor_behind) {
    static const char data[100] = {0};
    unsigned before = open_fds(), nfds;
    size_t size;

    for (unsigned sent = 0; sent <= 64; sent += sent < 6 ? 1 : 29) {
        for (unsigned room = 0; room <= RDMAD_MSG_MAX_FDS; room++) {
            send_raw(data, 10, sent);
            int want = sent > room ? RDMAD_E_FDS : 0;
            cr_assert_eq(receive(64, room, &size, &nfds), want, "%u fds, room %u", sent, room);
            cr_assert_eq(nfds, want ? 0 : sent);
            send_raw(data, 100, sent); /* too long as well */
            cr_assert_eq(receive(64, room, &size, &nfds), RDMAD_E_LENGTH);
            cr_assert_eq(nfds, 0);
            cr_assert_eq(open_fds(), before);
        }
    }
}

Test(fdmsg, an_empty_packet_with_descriptors_leaves_none_behind) {
    unsigned before = open_fds(), nfds;
    size_t size;

    send_raw("", 0, 3);
    cr_assert_eq(receive(64, 4, &size, &nfds), 0);
    cr_assert_eq(size, 0);
    cr_assert_eq(nfds, 0);
    cr_assert_eq(open_fds(), before);
}

Test(fdmsg, what_was_said_before_a_close_is_heard_even_if_that_close_left_something_unread) {
    unsigned nfds;
    size_t size;

    send_raw("why", 3, 0);
    cr_assert_eq(send(b, "late", 4, 0), 4);
    close(a);
    cr_assert_eq(receive(64, 0, &size, &nfds), 0);
    cr_assert_eq(size, 3);
    cr_assert_eq(receive(64, 0, &size, &nfds), 0);
    cr_assert_eq(size, 0);
}
