/* SPDX-License-Identifier: MIT */
#include "tests/unit/tcp_raw.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

size_t raw_largest_recv;

/* In place of libc's, for the engines too. */
ssize_t recv(int fd, void *to, size_t n, int flags) {
    if (n > raw_largest_recv)
        raw_largest_recv = n;
    return syscall(SYS_recvfrom, fd, to, n, flags, NULL, NULL);
}

uint16_t raw_port(const struct fabric_blob *offer) {
    uint16_t port;
    memcpy(&port, offer->bytes + 2, sizeof port);
    return le16toh(port);
}

const uint8_t *raw_token(const struct fabric_blob *offer) {
    return offer->bytes + 4;
}

static int loopback_socket(struct sockaddr_in *a, uint16_t port, int flags) {
    *a = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    cr_assert(fd >= 0);
    return fd;
}

int raw_dial(uint16_t port) {
    struct sockaddr_in a;
    int fd = loopback_socket(&a, port, SOCK_NONBLOCK);
    int window = 64 << 10, one = 1; /* what is not drained piles up at the engine */
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &window, sizeof window), 0);
    cr_assert_eq(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), 0);
    int rc = connect(fd, (struct sockaddr *)&a, sizeof a);
    cr_assert(rc == 0 || errno == EINPROGRESS);
    return fd;
}

int raw_dial_as(struct pair *p, uint64_t peer) {
    struct error err = {0};
    struct fabric_blob offer;
    uint8_t hello[HELLO_BYTES], welcome[WELCOME_BYTES];
    cr_assert_eq(fabric_tcp.offer(p->owner.fabric, peer, &no_hello, &offer, &err), 0, "%s",
                 err.text);
    int fd = raw_dial(raw_port(&offer));
    hello_put(hello, raw_token(&offer));
    raw_send(p, fd, hello, sizeof hello);
    raw_recv(p, fd, welcome, sizeof welcome);
    cr_assert_null(welcome_check(welcome));
    return fd;
}

int raw_listen(struct fabric_blob *offer) {
    struct sockaddr_in a;
    socklen_t size = sizeof a;
    int fd = loopback_socket(&a, 0, SOCK_NONBLOCK);
    cr_assert_eq(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    cr_assert_eq(listen(fd, 8), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&a, &size), 0);
    uint16_t port = htole16(ntohs(a.sin_port));
    *offer = (struct fabric_blob){.size = 28, .bytes = {2, 0}};
    memcpy(offer->bytes + 2, &port, sizeof port);
    memset(offer->bytes + 4, 0xaa, FRAME_TOKEN_BYTES);
    offer->bytes[4 + FRAME_TOKEN_BYTES] = RAW_NUMBER;
    return fd;
}

int raw_accept_link(struct pair *p, int listener) {
    int fd = -1;
    PAIR_UNTIL(p, (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
    uint8_t hello[HELLO_BYTES], token[FRAME_TOKEN_BYTES], welcome[WELCOME_BYTES];
    raw_recv(p, fd, hello, sizeof hello);
    cr_assert_null(hello_get(hello, token));
    welcome_put(welcome);
    unsigned up = p->lessee.up;
    raw_send(p, fd, welcome, sizeof welcome);
    PAIR_UNTIL(p, p->lessee.up > up);
    return fd;
}

ssize_t raw_send_try(int fd, const void *data, size_t n) {
    return send(fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t raw_recv_try(int fd, void *data, size_t n) {
    return recv(fd, data, n, MSG_DONTWAIT);
}

void raw_send(struct pair *p, int fd, const void *data, size_t n) {
    const uint8_t *at = data;
    uint64_t until = clock_now_ns() + 10 * NSEC_PER_SEC;
    while (n > 0) {
        ssize_t sent = raw_send_try(fd, at, n);
        cr_assert(sent > 0 || errno == EAGAIN || errno == ENOTCONN || errno == EINPROGRESS,
                  "send: %s", strerror(errno));
        cr_assert(clock_now_ns() < until, "the engine does not read");
        pair_turn(p);
        if (sent > 0) {
            at += sent;
            n -= (size_t)sent;
        }
    }
}

void raw_recv(struct pair *p, int fd, void *data, size_t n) {
    uint8_t *at = data;
    uint64_t until = clock_now_ns() + 10 * NSEC_PER_SEC;
    while (n > 0) {
        ssize_t got = raw_recv_try(fd, at, n);
        cr_assert(got > 0 || (got < 0 && errno == EAGAIN), "recv: %s",
                  got ? strerror(errno) : "closed");
        cr_assert(clock_now_ns() < until, "the engine does not answer");
        pair_turn(p);
        if (got > 0) {
            at += got;
            n -= (size_t)got;
        }
    }
}

bool raw_closed(struct pair *p, int fd) {
    uint8_t byte;
    uint64_t until = clock_now_ns() + 10 * NSEC_PER_SEC;
    while (clock_now_ns() < until) {
        ssize_t got = raw_recv_try(fd, &byte, 1);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            return true;
        pair_turn(p);
    }
    return false;
}

void raw_frame(struct pair *p, int fd, const struct frame *f) {
    uint8_t bytes[FRAME_BYTES];
    frame_put(bytes, f);
    raw_send(p, fd, bytes, sizeof bytes);
}

struct frame raw_answer(struct pair *p, int fd) {
    uint8_t bytes[FRAME_BYTES];
    struct frame f;
    raw_recv(p, fd, bytes, sizeof bytes);
    frame_get(&f, bytes);
    return f;
}

struct frame raw_request(const struct fabric_blob *key, int type, uint32_t op, uint64_t offset,
                         uint32_t length) {
    struct frame f = {.type = (uint8_t)type, .op = op, .offset = offset, .length = length};
    memcpy(&f.slot, key->bytes + 4, sizeof f.slot);
    memcpy(&f.key, key->bytes + 8, sizeof f.key);
    f.slot = le32toh(f.slot);
    f.key = le64toh(f.key);
    return f;
}
