/* SPDX-License-Identifier: MIT */
/*
 * echo_epoll NAME - gives every message back to whoever sent it, to any number of clients, from one
 * thread and one epoll loop. `rpc call` is a client for it.
 *
 * One descriptor brings everything: clients that connect, channels that end, and completions, which
 * call back. The rule of the loop is that of examples/async_epoll.c, with dispatch where that one
 * peeks. A client has one buffer, and one op in flight on it at a time: a receive, then the send of
 * what came, then the next receive. A channel that ends ends that op, and with it the client goes.
 */
#include <err.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

enum { MOST = 65536, CLIENTS = 64 };

struct client {
    rdmad_channel *channel;
    char *buf;
};

static rdmad_session *session;
static rdmad_pool *pool;
static rdmad_ring *ring;

static void drop(struct client *c) {
    rdmad_channel_close(c->channel);
    rdmad_free(pool, c->buf);
    free(c);
}

static void went(void *arg, const struct rdmad_cqe *cqe);

/* There is always an entry: ops have ended before their callbacks run, and clients are few. */
static void ask(struct client *c, size_t send, const struct rdmad_cqe *got) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    int rc;

    if (got) {
        rc = rdmad_prep_send(ring, sqe, c->channel, c->buf, send, 0);
        if (got->flags & RDMAD_CQE_IMM)
            rdmad_sqe_set_imm(sqe, (uint32_t)got->imm);
    } else {
        rc = rdmad_prep_recv(ring, sqe, c->channel, c->buf, MOST, 0);
    }
    if (rc || rdmad_sqe_set_callback(ring, sqe, went, c) || rdmad_ring_submit(ring) < 0)
        errx(1, "%s", rdmad_last_error(session));
}

static void went(void *arg, const struct rdmad_cqe *cqe) {
    if (cqe->status && cqe->status != RDMAD_E_TOO_SMALL)
        drop(arg); /* the channel has ended */
    else if (cqe->status || cqe->opcode == RDMAD_OP_SEND)
        ask(arg, 0, NULL);
    else
        ask(arg, cqe->bytes, cqe);
}

static void take_events(rdmad_service *service) {
    struct rdmad_event e = RDMAD_EVENT_INIT;

    while (rdmad_next_event(session, 0, &e) == 0) {
        struct client *c;
        if (e.type == RDMAD_EVENT_SESSION_LOST)
            errx(1, "%s", e.text);
        if (e.type != RDMAD_EVENT_INCOMING || !(c = calloc(1, sizeof(*c))))
            continue;
        c->buf = rdmad_alloc(pool, MOST);
        if (!c->buf || rdmad_accept(service, NULL, 0, &c->channel))
            drop(c); /* no room, or it has given up */
        else
            ask(c, 0, NULL);
    }
}

int main(int argc, char **argv) {
    struct epoll_event interest = {.events = EPOLLIN}, ready;
    rdmad_service *service;
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    if (argc != 2)
        errx(2, "usage: echo_epoll NAME");
    if (epoll < 0 || rdmad_open(NULL, &session) ||
        rdmad_pool_create(session, (size_t)CLIENTS * MOST, 0, &pool) ||
        rdmad_ring_create(session, CLIENTS, &ring) ||
        rdmad_listen(session, argv[1], NULL, &service))
        errx(1, "%s", rdmad_last_error(NULL));
    printf("%s\n", rdmad_service_uri(service));
    fflush(stdout);
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, rdmad_session_fd(session), &interest))
        err(1, "epoll_ctl");
    for (;;) {
        take_events(service);
        while (rdmad_ring_arm(ring) == RDMAD_E_AGAIN)
            rdmad_ring_dispatch(ring, 0, 0);
        epoll_wait(epoll, &ready, 1, 30000); /* rdmad may hang, and wakes nobody then */
    }
}
