/* SPDX-License-Identifier: MIT */
/*
 * test_resume_calls.c - a daemon is killed amid calls that ask it more than one question. What it
 * had made of the answer so far is gone with it, and the next one is asked from the start.
 */
#include "tests/support/client.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

struct maker {
    rdmad_session *session;
    bool stop;     /* atomic */
    unsigned made; /* atomic */
};

static void *make_rings_and_pools(void *arg) {
    struct maker *m = arg;
    while (!__atomic_load_n(&m->stop, __ATOMIC_SEQ_CST)) {
        rdmad_ring *ring;
        rdmad_pool *pool;
        CHECK(rdmad_ring_create(m->session, 512, &ring) == 0, "%s", rdmad_last_error(m->session));
        rdmad_ring_destroy(ring);
        CHECK(rdmad_pool_create(m->session, 16 << 20, 0, &pool) == 0, "%s",
              rdmad_last_error(m->session));
        CHECK(rdmad_pool_destroy(pool) == 0, "%s", rdmad_last_error(m->session));
        __atomic_fetch_add(&m->made, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

/* No call meets two deaths: it is not asked of any number of daemons. */
static void rings_and_pools_are_made_though_the_daemon_dies(void) {
    need_hole_guard();
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct maker m = {.session = client_open(d)};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, make_rings_and_pools, &m) == 0, "thread");
    for (unsigned i = 0; i < test_count(200); i++) {
        sleep_ms((unsigned)(test_random() % 30));
        tdaemon_kill(d);
        tdaemon_restart(d);
        unsigned made = __atomic_load_n(&m.made, __ATOMIC_SEQ_CST);
        for (uint64_t until = now_ms() + TEST_PATIENCE_MS;
             __atomic_load_n(&m.made, __ATOMIC_SEQ_CST) - made < 2; sleep_ms(1))
            CHECK(now_ms() < until, "nothing is made at the next daemon");
    }
    __atomic_store_n(&m.stop, true, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
    rdmad_close(m.session);
    tdaemon_stop(d);
}

TEST_MAIN(CASE(rings_and_pools_are_made_though_the_daemon_dies))
