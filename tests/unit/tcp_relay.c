/* SPDX-License-Identifier: MIT */
#include "tests/unit/tcp_relay.h"
#include "daemon/fabric/tcp/blob.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#define SEEN_MAX ((size_t)64 << 20)

static struct sockaddr_in loopback(uint16_t port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

void relay_start(struct relay *r, struct fabric_blob *offer) {
    struct sockaddr_in a = loopback(0);
    socklen_t size = sizeof a;
    struct invitation i;
    *r = (struct relay){.fd = {-1, -1}};
    r->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert(r->listener >= 0 && bind(r->listener, (struct sockaddr *)&a, sizeof a) == 0);
    cr_assert(listen(r->listener, 1) == 0);
    cr_assert(getsockname(r->listener, (struct sockaddr *)&a, &size) == 0);
    cr_assert(offer_read(offer, &i));
    r->port = i.port;
    i.port = ntohs(a.sin_port);
    offer_put(offer, &i);
    for (int way = 0; way < 2; way++)
        cr_assert((r->seen[way] = malloc(SEEN_MAX)) != NULL);
}

static void relay_accept(struct relay *r) {
    struct sockaddr_in a = loopback(r->port);
    int one = 1;
    r->fd[0] = accept4(r->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (r->fd[0] < 0)
        return;
    r->fd[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(r->fd[1] >= 0 && connect(r->fd[1], (struct sockaddr *)&a, sizeof a) == 0);
    for (int i = 0; i < 2; i++)
        setsockopt(r->fd[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void relay_cut(struct relay *r) {
    for (int i = 0; i < 2; i++)
        if (r->fd[i] >= 0)
            close(r->fd[i]);
    r->fd[0] = r->fd[1] = -1;
}

static void relay_read(struct relay *r, int way) {
    uint8_t *at = r->seen[way] + r->size[way];
    cr_assert(SEEN_MAX - r->size[way] >= 65536, "too much to see");
    ssize_t n = recv(r->fd[way], at, 65536, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        r->cut = true;
        return;
    }
    if (n > 0 && r->meddle)
        n = (ssize_t)r->meddle(r, way, at, (size_t)n);
    if (n > 0)
        r->size[way] += (size_t)n;
}

static void relay_pass(struct relay *r, int way) {
    size_t left = r->size[way] - r->passed[way];
    if (r->held[way] || left == 0)
        return;
    ssize_t n = send(r->fd[!way], r->seen[way] + r->passed[way], left, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        r->passed[way] += (size_t)n;
    else if (errno != EAGAIN)
        r->cut = true;
}

void relay_turn(struct relay *r) {
    if (r->fd[0] < 0 && !r->cut)
        relay_accept(r);
    for (int way = 0; way < 2 && r->fd[0] >= 0; way++) {
        if (!r->held[way])
            relay_read(r, way);
        relay_pass(r, way);
    }
    if (r->cut)
        relay_cut(r);
}

void relay_stop(struct relay *r) {
    relay_cut(r);
    close(r->listener);
    for (int way = 0; way < 2; way++)
        free(r->seen[way]);
}

bool relay_saw(const struct relay *r, const void *bytes, size_t n) {
    return memmem(r->seen[0], r->size[0], bytes, n) || memmem(r->seen[1], r->size[1], bytes, n);
}
