/* SPDX-License-Identifier: MIT */
/*
 * async_epoll URI - reads a whole lease, 16 pieces at a time, from an epoll loop.
 *
 * One descriptor becomes readable for both: completions of armed rings, and events of leases and of
 * the session. The rule of the loop: take events until there are none, completions until
 * rdmad_ring_arm says that it is armed, then sleep.
 */
#include <err.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <sys/epoll.h>

#define PIECE 65536u
#define DEPTH 16u

struct reader {
    rdmad_session *session;
    rdmad_ring *ring;
    rdmad_lease *lease;
    char *buffer[DEPTH];
    uint64_t length, asked, arrived;
    uint64_t sum;
};

/* Keeps the ring full: buffer i is free when its op has completed. */
static void ask(struct reader *r, unsigned i) {
    struct rdmad_sqe *sqe;
    size_t n = r->length - r->asked < PIECE ? r->length - r->asked : PIECE;

    if (n == 0 || !(sqe = rdmad_ring_reserve(r->ring)))
        return;
    if (rdmad_prep_read(r->ring, sqe, r->lease, r->asked, r->buffer[i], n, i))
        errx(1, "%s", rdmad_last_error(r->session));
    r->asked += n;
}

static void take_completions(struct reader *r) {
    const struct rdmad_cqe *cqe;
    char why[512];
    int rc;

    do {
        while (rdmad_ring_peek(r->ring, &cqe) == 0) {
            unsigned i = (unsigned)cqe->user_data;
            if (cqe->status) {
                rdmad_ring_explain(r->ring, cqe, why, sizeof(why));
                errx(1, "%s", why);
            }
            for (uint64_t k = 0; k < cqe->bytes; k++)
                r->sum += (unsigned char)r->buffer[i][k];
            r->arrived += cqe->bytes;
            rdmad_ring_seen(r->ring, cqe);
            ask(r, i);
        }
        if (rdmad_ring_submit(r->ring) < 0)
            errx(1, "%s", rdmad_last_error(r->session));
        rc = r->arrived < r->length ? rdmad_ring_arm(r->ring) : 0;
    } while (rc == RDMAD_E_AGAIN);
    if (rc)
        errx(1, "%s", rdmad_last_error(r->session));
}

static void take_events(struct reader *r) {
    struct rdmad_event e = RDMAD_EVENT_INIT;

    while (rdmad_next_event(r->session, 0, &e) == 0) {
        if (e.type == RDMAD_EVENT_LEASE_ENDED)
            errx(1, "%s", e.text);
    }
}

int main(int argc, char **argv) {
    struct reader r = {0};
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    struct epoll_event interest = {.events = EPOLLIN}, ready;
    rdmad_pool *pool;
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    if (argc != 2)
        errx(2, "usage: async_epoll URI");
    if (epoll < 0 || rdmad_open(NULL, &r.session) ||
        rdmad_pool_create(r.session, (size_t)DEPTH * PIECE, 0, &pool) ||
        rdmad_ring_create(r.session, DEPTH, &r.ring) ||
        rdmad_lease_attach(r.session, argv[1], 0, &r.lease))
        errx(1, "%s", rdmad_last_error(NULL));
    rdmad_lease_get_info(r.lease, &info);
    r.length = info.length;
    for (unsigned i = 0; i < DEPTH; i++) {
        r.buffer[i] = rdmad_alloc(pool, PIECE);
        ask(&r, i);
    }

    if (epoll_ctl(epoll, EPOLL_CTL_ADD, rdmad_session_fd(r.session), &interest))
        err(1, "epoll_ctl");
    for (take_completions(&r); r.arrived < r.length; take_completions(&r)) {
        /* rdmad may hang, and wakes nobody then */
        if (epoll_wait(epoll, &ready, 1, 30000) == 1)
            take_events(&r);
    }
    printf("%llu bytes, their sum is %llu\n", (unsigned long long)r.arrived,
           (unsigned long long)r.sum);
    rdmad_close(r.session);
    return 0;
}
