/* SPDX-License-Identifier: MIT */
/*
 * Many threads at one session, for ThreadSanitizer: blocking transfers that share a ring, requests
 * under way at the same time, a thread that waits for events. The daemon is fake_daemon.c; what is
 * looked at here is the library's own state, the ring's memory has tsan_client_ring.c.
 */
#include "tests/unit/fake_daemon.h"

#include "common/ringword.h"
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WRITERS 3u
#define WRITES 2000u
#define ATTACHES 300u

static struct fake_daemon fake = {.spin_ns = 5000};
static rdmad_session *session;
static rdmad_pool *pool;
static rdmad_lease *lease;
static bool stop;

static void must(int rc, const char *what) {
    if (rc) {
        fprintf(stderr, "%s: %s\n", what, rdmad_last_error(NULL));
        abort();
    }
}

static void *serve_ring(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        struct rdmad_sqe sqe;
        if (ringword_peek(&fake.ring->client->sq_tail) == fake.ring->sq_head) {
            usleep(20); /* sometimes long enough for the client to go to sleep */
            continue;
        }
        if (!fake_ring_take(fake.ring, &sqe))
            abort();
        struct rdmad_cqe cqe = {.user_data = sqe.user_data, .opcode = sqe.opcode};
        fake_ring_complete(fake.ring, &cqe);
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

static void *attach_often(void *unused) {
    struct rdmad_lease_info info;
    rdmad_lease *mine;

    (void)unused;
    for (unsigned i = 0; i < ATTACHES; i++) {
        must(rdmad_lease_attach(session, "name", 0, &mine), "attach");
        rdmad_lease_info(mine, &info);
        rdmad_lease_free(mine);
    }
    return NULL;
}

static void *take_events(void *unused) {
    struct rdmad_event e = {0};

    (void)unused;
    while (e.type != RDMAD_EVENT_SESSION_LOST)
        must(rdmad_next_event(session, -1, &e), "event");
    return NULL;
}

int main(void) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    pthread_t server, writer[WRITERS], attacher[2], listener;
    struct rdmad_lease_info info;

    fake_start(&fake);
    o.runtime_dir = fake.dir;
    o.ring_entries = 2; /* fewer than writers: they also wait for entries */
    must(rdmad_open(&o, &session), "open");
    must(rdmad_pool_create(session, 1 << 16, 0, &pool), "pool");
    must(rdmad_lease_attach(session, "name", 0, &lease), "attach");
    rdmad_lease_info(lease, &info);

    pthread_create(&listener, NULL, take_events, NULL);
    for (unsigned i = 0; i < 2; i++)
        pthread_create(&attacher[i], NULL, attach_often, NULL);
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_create(&writer[i], NULL, write_often, NULL);
    fake_await_ring(&fake); /* made by the first write */
    pthread_create(&server, NULL, serve_ring, NULL);
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(writer[i], NULL);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(attacher[i], NULL);
    fake_hang_up(&fake);
    pthread_join(listener, NULL);
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    pthread_join(server, NULL);
    rdmad_close(session);
    fake_stop(&fake);
    return 0;
}
