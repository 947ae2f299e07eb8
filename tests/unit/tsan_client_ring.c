/* SPDX-License-Identifier: MIT */
/*
 * Both sides of a ring as two threads on one mapping, for ThreadSanitizer (two mappings of the same
 * pages would hide races from it). The daemon's side here spins, sleeps, batches and completes out
 * of order; the client's side waits, peeks and sleeps in poll by turns. Every op must complete once
 * and as itself; a wake-up that is lost shows as a test that never ends.
 */
#include "common/ringword.h"
#include "libclient/ring/create.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define ENTRIES 16u
#define OPS 200000u

static struct shared {
    struct rdmad_ring_client client;
    struct rdmad_sqe sqe[ENTRIES];
    struct rdmad_ring_daemon daemon;
    struct rdmad_cqe cqe[2 * ENTRIES];
} shared __attribute__((aligned(64)));

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    abort();
}

/* ---- the daemon's side --------------------------------------------------------------------- */

struct side {
    int wakeup, doorbell;
    unsigned seed;
    uint32_t sq_head, cq_tail;
};

static void sleep_for_sqes(struct side *d) {
    struct pollfd p = {.fd = d->doorbell, .events = POLLIN};
    eventfd_t rung;

    if (ringword_arm_and_peek(&shared.daemon.sq_wait, &shared.client.sq_tail) == d->sq_head)
        poll(&p, 1, -1);
    eventfd_read(d->doorbell, &rung); /* unlike the real one, which watches edges */
    ringword_disarm(&shared.daemon.sq_wait);
}

static void publish(struct side *d) {
    if (ringword_publish_and_ask(&shared.daemon.cq_tail, d->cq_tail, &shared.client.cq_wait))
        send(d->wakeup, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void *daemon_side(void *arg) {
    struct side d = *(struct side *)arg;

    for (unsigned done = 0; done < OPS;) {
        struct rdmad_sqe batch[ENTRIES];
        unsigned n = 0;
        while (ringword_peek(&shared.client.sq_tail) != d.sq_head && n < ENTRIES)
            batch[n++] = shared.sqe[d.sq_head++ % ENTRIES];
        ringword_publish(&shared.daemon.sq_head, d.sq_head);
        if (n == 0) {
            sleep_for_sqes(&d);
            continue;
        }
        for (unsigned i = n; i-- > 0;) {
            shared.cqe[d.cq_tail++ % (2 * ENTRIES)] =
                (struct rdmad_cqe){.user_data = batch[i].user_data, .bytes = batch[i].timeout_ns};
            if (rand_r(&d.seed) % 2)
                publish(&d);
        }
        publish(&d);
        done += n;
    }
    return NULL;
}

/* ---- the client's side --------------------------------------------------------------------- */

static unsigned seed = 2;
static unsigned char seen[OPS];

/* An op's user_data and a field that the daemon's side gives back: they must stay together. */
static void submit_some(struct rdmad_ring *r, uint64_t *next) {
    unsigned n = (unsigned)rand_r(&seed) % ENTRIES + 1;
    struct rdmad_sqe *sqe;

    while (n-- > 0 && *next < OPS && (sqe = rdmad_ring_reserve(r))) {
        rdmad_prep_nop(r, sqe, *next);
        sqe->timeout_ns = *next;
        ++*next;
    }
    if (rdmad_ring_submit(r) < 0)
        fail(rdmad_last_error(NULL));
}

static int one_way_or_another(struct rdmad_ring *r, const struct rdmad_cqe **cqe) {
    struct pollfd p = {.fd = rdmad_ring_fd(r), .events = POLLIN};
    int rc;

    if (rand_r(&seed) % 4)
        return rdmad_ring_wait(r, -1, cqe);
    while ((rc = rdmad_ring_peek(r, cqe)) == RDMAD_E_AGAIN) {
        if (rdmad_ring_arm(r) == 0)
            poll(&p, 1, -1);
    }
    return rc;
}

static void client_side(struct rdmad_ring *r) {
    const struct rdmad_cqe *cqe;
    uint64_t next = 0;

    for (unsigned reaped = 0; reaped < OPS; reaped++) {
        if (next == reaped || rand_r(&seed) % 8 == 0)
            submit_some(r, &next);
        if (one_way_or_another(r, &cqe))
            fail("an op failed");
        if (cqe->user_data != cqe->bytes || cqe->user_data >= OPS || seen[cqe->user_data]++)
            fail("a completion is not what was asked for");
        rdmad_ring_seen(r, cqe);
    }
}

int main(void) {
    static struct rdmad_session session = {.epoll = -1,
                                           .event_fd = -1,
                                           .spin_ns = 5000,
                                           .call_timeout_ns = UINT64_MAX,
                                           .ask_ns = UINT64_MAX}; /* it asks nothing */
    int bell[2], socks[2], doorbell = eventfd(0, EFD_NONBLOCK);
    pthread_t daemon;

    if (doorbell < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, bell) ||
        socketpair(AF_UNIX, SOCK_SEQPACKET, 0, socks))
        fail("socketpair");
    session.sock = socks[0];
    session.last_source = &session.first_source;
    pthread_mutex_init(&session.lock, NULL);
    pthread_cond_init(&session.changed, NULL);
    struct rdmad_ring_parts parts = {.client = &shared.client,
                                     .daemon = &shared.daemon,
                                     .sq_entries = ENTRIES,
                                     .cq_entries = 2 * ENTRIES,
                                     .wakeup = bell[0],
                                     .doorbell = doorbell};
    struct side side = {.wakeup = bell[1], .doorbell = doorbell, .seed = 1};
    struct rdmad_ring *r = rdmad_ring_new(&session, &parts);
    pthread_create(&daemon, NULL, daemon_side, &side);
    client_side(r);
    pthread_join(daemon, NULL);
    rdmad_ring_free(r);
    return 0;
}
