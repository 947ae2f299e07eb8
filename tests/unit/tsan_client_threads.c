/* SPDX-License-Identifier: MIT */
/*
 * Many threads at one session, for ThreadSanitizer: blocking transfers that share a ring, blocking
 * receives with their own, threads with a ring each that submit, cancel and are called back,
 * requests under way at the same time, a thread that waits for events; and all that wait ask
 * whether the daemon is there. The daemon is fake_daemon.c; what is looked at here is the library's
 * own state, the ring's memory has tsan_client_ring.c.
 */
#include "libclient/control/presence.h" /* first: its parameters are named as our globals */
#include "tests/unit/fake_daemon.h"

#include <rdmad/rdmad.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WRITERS 3u
#define WRITES 2000u
#define ATTACHES 300u
#define RECEIVERS 3u
#define RECEIVES 1000u
#define RINGS 3u
#define RING_OPS 2000u

static struct fake_daemon fake = {.spin_ns = 5000};
static rdmad_session *session;
static rdmad_pool *pool;
static rdmad_lease *lease;
static rdmad_channel *channel;
static bool stop;

static void must(int rc, const char *what) {
    if (rc) {
        fprintf(stderr, "%s: %s\n", what, rdmad_last_error(NULL));
        abort();
    }
}

/* Every third WRITE lies until it is canceled. */
static void serve(struct fake_ring *r, const struct rdmad_sqe *sqe) {
    struct rdmad_cqe cqe = {.user_data = sqe->user_data, .opcode = sqe->opcode};

    if (sqe->opcode == RDMAD_OP_WRITE && sqe->timeout_ns == 3)
        return;
    fake_ring_complete(r, &cqe);
    if (sqe->opcode != RDMAD_OP_CANCEL)
        return;
    cqe = (struct rdmad_cqe){
        .user_data = sqe->lease, .opcode = RDMAD_OP_WRITE, .status = RDMAD_E_CANCELED};
    fake_ring_complete(r, &cqe);
}

static void *serve_rings(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        unsigned rings = __atomic_load_n(&fake.nrings, __ATOMIC_ACQUIRE);
        bool idle = true;
        for (unsigned i = 0; i < rings; i++) {
            struct rdmad_sqe sqe;
            if (!fake_ring_has(&fake.rings[i]))
                continue;
            if (!fake_ring_take(&fake.rings[i], &sqe))
                abort();
            serve(&fake.rings[i], &sqe);
            idle = false;
        }
        if (idle)
            usleep(20); /* sometimes long enough for the client to go to sleep */
    }
    return NULL;
}

static void *write_often(void *unused) {
    char *buffer = rdmad_alloc(pool, 64);

    (void)unused;
    for (unsigned i = 0; i < WRITES; i++)
        must(rdmad_write(lease, 0, buffer, 64), "write");
    rdmad_free(pool, buffer);
    return NULL;
}

static void *receive_often(void *unused) {
    char *buffer = rdmad_alloc(pool, 64);

    (void)unused;
    for (unsigned i = 0; i < RECEIVES; i++)
        must(rdmad_recv(channel, buffer, 64, -1, NULL), "recv");
    rdmad_free(pool, buffer);
    return NULL;
}

static void count(void *arg, const struct rdmad_cqe *cqe) {
    *(unsigned *)arg += cqe->status == 0;
}

static struct rdmad_sqe *reserve_write(rdmad_ring *ring, void *buffer, uint64_t user_data) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);

    must(rdmad_prep_write(ring, sqe, lease, 0, buffer, 64, user_data), "prep");
    return sqe;
}

/* One that lies and is canceled, one that is silent, one that is called back. */
static void use_ring(rdmad_ring *ring, void *buffer, unsigned *called) {
    struct rdmad_cqe cqe;

    reserve_write(ring, buffer, 1)->timeout_ns = 3;
    rdmad_sqe_set_flags(reserve_write(ring, buffer, 2), RDMAD_SQE_SILENT);
    must(rdmad_sqe_set_callback(ring, reserve_write(ring, buffer, 3), count, called), "callback");
    must(rdmad_ring_submit(ring) == 3 ? 0 : -1, "submit");
    must(rdmad_ring_cancel(ring, 1, &cqe), "cancel");
    must(cqe.status == RDMAD_E_CANCELED ? 0 : -1, "canceled");
    must(rdmad_ring_dispatch(ring, -1, 0) == 1 ? 0 : -1, "dispatch");
}

static void *own_ring(void *unused) {
    char *buffer = rdmad_alloc(pool, 64);
    rdmad_ring *ring;
    unsigned called = 0;

    (void)unused;
    must(rdmad_ring_create(session, 4, &ring), "ring");
    for (unsigned i = 0; i < RING_OPS; i++)
        use_ring(ring, buffer, &called);
    must(called == RING_OPS ? 0 : -1, "calls");
    rdmad_free(pool, buffer);
    return NULL; /* the ring goes with the session */
}

static void *attach_often(void *unused) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    rdmad_lease *mine;

    (void)unused;
    for (unsigned i = 0; i < ATTACHES; i++) {
        must(rdmad_lease_attach(session, "name", 0, &mine), "attach");
        rdmad_lease_get_info(mine, &info);
        rdmad_lease_free(mine);
    }
    return NULL;
}

static void *take_events(void *unused) {
    struct rdmad_event e = RDMAD_EVENT_INIT;

    (void)unused;
    while (e.type != RDMAD_EVENT_SESSION_LOST)
        must(rdmad_next_event(session, -1, &e), "event");
    return NULL;
}

/* Whoever sleeps next asks, as soon as the last question has its answer. */
static void *hurry_questions(void *unused) {
    unsigned questions = 0;
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&session->lock);
        if (session->heard != session->asked_heard && rdmad_presence_due_ns(session)) {
            __atomic_store_n(&session->ask_ns, 0, __ATOMIC_RELAXED);
            questions++;
        }
        pthread_mutex_unlock(&session->lock);
        usleep(200);
    }
    must(questions > 1 ? 0 : -1, "questions");
    return unused;
}

static pthread_t threads[WRITERS + RECEIVERS + RINGS + 2];
static unsigned nthreads;

static void start(unsigned n, void *(*run)(void *)) {
    while (n-- > 0)
        pthread_create(&threads[nthreads++], NULL, run, NULL);
}

int main(void) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    pthread_t server, listener, hurry;
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;

    fake_start(&fake);
    o.runtime_dir = fake.dir;
    o.ring_entries = 2; /* fewer than writers: they also wait for entries */
    must(rdmad_open(&o, &session), "open");
    must(rdmad_pool_create(session, 1 << 16, 0, &pool), "pool");
    must(rdmad_lease_attach(session, "name", 0, &lease), "attach");
    must(rdmad_connect(session, "rdmad://h:1/service", 0, 0, &channel), "connect");
    rdmad_lease_get_info(lease, &info);

    pthread_create(&listener, NULL, take_events, NULL);
    pthread_create(&server, NULL, serve_rings, NULL);
    pthread_create(&hurry, NULL, hurry_questions, NULL);
    start(2, attach_often);
    start(WRITERS, write_often);
    start(RECEIVERS, receive_often);
    start(RINGS, own_ring);
    for (unsigned i = 0; i < nthreads; i++)
        pthread_join(threads[i], NULL);
    fake_hang_up(&fake);
    pthread_join(listener, NULL);
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    pthread_join(server, NULL);
    pthread_join(hurry, NULL);
    rdmad_close(session);
    fake_stop(&fake);
    return 0;
}
