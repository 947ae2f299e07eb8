/* SPDX-License-Identifier: MIT */
/*
 * false_peer.c - see false_peer.h.
 */
#include "tests/integration/false_peer.h"

#include "common/uri.h"
#include "tests/support/harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

int false_peer_dial(const char *host, uint16_t port) {
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval patience = {.tv_sec = TEST_PATIENCE_MS / 1000};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && inet_pton(AF_INET, host, &sa.sin_addr) == 1, "socket to %s", host);
    CHECK(connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0, "%s:%u: %s", host, port,
          strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

void false_peer_say(const struct false_peer *p, const struct peer_msg *m) {
    uint8_t frame[PEER_WIRE_MAX];
    size_t size = peer_wire_encode(m, frame);
    CHECK(send(p->fd, frame, size, MSG_NOSIGNAL) == (ssize_t)size, "send: %s", strerror(errno));
}

static void receive(const struct false_peer *p, void *data, size_t size) {
    CHECK(recv(p->fd, data, size, MSG_WAITALL) == (ssize_t)size, "receive: %s", strerror(errno));
}

static void next(const struct false_peer *p, struct peer_msg *m) {
    uint8_t frame[PEER_WIRE_MAX];
    size_t length;
    struct error why = {0};
    receive(p, frame, PEER_WIRE_HEAD);
    CHECK(peer_wire_length(frame, false, &length, &why) == 0, "%s", why.text);
    receive(p, frame + PEER_WIRE_HEAD, length - PEER_WIRE_HEAD);
    CHECK(peer_wire_decode(frame, length, m, &why) == 0, "%s", why.text);
}

bool false_peer_hear(const struct false_peer *p, int ms, struct peer_msg *m) {
    for (;;) {
        struct pollfd waiting = {.fd = p->fd, .events = POLLIN};
        if (poll(&waiting, 1, ms) <= 0)
            return false;
        next(p, m);
        if (m->type != PEER_MSG_PING)
            return true;
        m->type = PEER_MSG_PONG;
        false_peer_say(p, m);
    }
}

void false_peer_await(const struct false_peer *p, uint16_t type, struct peer_msg *m) {
    do {
        CHECK(false_peer_hear(p, (int)TEST_PATIENCE_MS, m), "the owner's daemon says no %s",
              peer_wire_name(type));
        CHECK(m->type == type || m->type != PEER_MSG_BYE, "the owner's daemon says goodbye: %s",
              m->bye.text);
    } while (m->type != type);
}

static void say_hello(struct false_peer *p, const char *listen, const char *fabric) {
    char host[RDMAD_HOST_MAX + 1];
    uint16_t port;
    CHECK(rdmad_hostport_parse(listen, host, &port) == NULL, "%s", listen);
    *p = (struct false_peer){.fd = false_peer_dial(host, port)};
    struct peer_msg m = {.type = PEER_MSG_HELLO};
    m.hello = (struct peer_hello){.magic = PEER_WIRE_MAGIC, .node = "false-peer", .listen_port = 1};
    strncpy(m.hello.fabrics[0], fabric, sizeof(m.hello.fabrics[0]) - 1);
    CHECK(getrandom(m.hello.node_id, sizeof(m.hello.node_id), 0) > 0, "random");
    false_peer_say(p, &m);
}

void false_peer_connect(struct false_peer *p, const char *listen, const char *fabric) {
    struct peer_msg m;
    say_hello(p, listen, fabric);
    false_peer_await(p, PEER_MSG_HELLO, &m);
}

bool false_peer_try(struct false_peer *p, const char *listen, const char *fabric) {
    uint8_t frame[PEER_WIRE_MAX];
    say_hello(p, listen, fabric);
    bool up = recv(p->fd, frame, PEER_WIRE_HEAD, MSG_WAITALL) == (ssize_t)PEER_WIRE_HEAD &&
              (frame[2] | frame[3] << 8) == PEER_MSG_HELLO;
    if (!up)
        close(p->fd);
    return up;
}

void false_peer_close(struct false_peer *p) {
    close(p->fd);
}

void false_peer_attach(const struct false_peer *p, const char *uri, uint64_t lessee_ref,
                       uint64_t via, struct peer_attach_rep *out) {
    struct rdmad_uri u;
    CHECK(rdmad_uri_parse(uri, &u) == NULL, "%s", uri);
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REQ};
    m.attach_req = (struct peer_attach_req){.lessee_ref = lessee_ref, .lease = u.lease, .via = via};
    memcpy(m.attach_req.key, u.key, sizeof(u.key));
    false_peer_say(p, &m);
    do
        false_peer_await(p, PEER_MSG_ATTACH_REP, &m);
    while (m.attach_rep.lessee_ref != lessee_ref);
    CHECK(m.attach_rep.status == 0, "attach: %s", m.attach_rep.text);
    *out = m.attach_rep;
}
