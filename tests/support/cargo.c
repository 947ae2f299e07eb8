/* SPDX-License-Identifier: MIT */
/*
 * cargo.c - a loopback connection whose receiver does not read, and a socket around it.
 */
#include "tests/support/cargo.h"

#include "tests/support/harness.h"
#include "tests/support/rawclient.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int cargo_lingering(int seconds) {
    static char much[65536];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger wait = {.l_onoff = 1, .l_linger = seconds};
    socklen_t size = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(listener >= 0 && fd >= 0 && bind(listener, (struct sockaddr *)&at, sizeof(at)) == 0 &&
              listen(listener, 1) == 0 &&
              getsockname(listener, (struct sockaddr *)&at, &size) == 0 &&
              connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0,
          "no connection on loopback: %s", strerror(errno));
    while (send(fd, much, sizeof(much), MSG_DONTWAIT) > 0)
        ;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &wait, sizeof(wait)) == 0, "SO_LINGER");
    return fd;
}

/* A user may have as many on the way as files open: beside others of that user this takes a while.
 */
static void send_inside(int sock, const int *fds, unsigned n) {
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    int rc;
    while ((rc = raw_send(sock, "x", 1, fds, n)) == -ETOOMANYREFS && now_ms() < deadline)
        sleep_ms(1);
    CHECK(rc == 0, "send: %s", strerror(-rc));
}

int cargo_inside(int fd) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    send_inside(pair[0], &fd, 1);
    close(pair[0]);
    close(fd);
    return pair[1];
}

void cargo_circle(int fd) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    const int all[3] = {pair[0], pair[1], fd};
    send_inside(pair[0], all, 3);
    for (int i = 0; i < 3; i++)
        close(all[i]);
}
