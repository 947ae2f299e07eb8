/* SPDX-License-Identifier: MIT */
/*
 * test_waits.c - a client that fills its rings with ops that wait for ever, and cancels without
 * pause, hurts nobody else: what it has posted is limited and comes back, and a neighbour does not
 * notice the cancels.
 */
#include "tests/support/bystander.h"
#include "tests/support/rawclient.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RINGS = 64, ENTRIES = 4096, PER_SESSION = 65536, PER_UID = 131072 };

struct waiter {
    int sock;
    uint64_t lease;
    unsigned rings;
    struct raw_ring ring[RINGS];
    struct raw_pool pool;
    uint64_t refused[4]; /* by whose limit */
};

static void waiter_open(struct waiter *a, struct tdaemon *d, unsigned rings, unsigned entries) {
    struct rdmad_lease_grant_rep lease;
    char text[RDMAD_TEXT_MAX + 1];
    *a = (struct waiter){.rings = rings};
    a->sock = raw_session(tdaemon_dir(d));
    CHECK(raw_pool_create(a->sock, 65536, 0, &a->pool) == 0, "no pool");
    CHECK(raw_grant(a->sock, &a->pool, UINT64_C(3600) * 1000000000, &lease, text) == 0, "%s", text);
    a->lease = lease.lease;
    for (unsigned i = 0; i < rings; i++)
        CHECK(raw_ring_create(a->sock, entries, &a->ring[i]) == 0, "no ring %u", i);
}

static void waiter_close(struct waiter *a) {
    for (unsigned i = 0; i < a->rings; i++)
        raw_ring_unmap(&a->ring[i]);
    raw_pool_unmap(&a->pool);
    close(a->sock);
}

static void post(const struct waiter *a, struct raw_ring *r, unsigned count, uint64_t tag) {
    static struct rdmad_sqe sqe[ENTRIES];
    for (unsigned n = 0; n < count; n++)
        sqe[n] = (struct rdmad_sqe){
            .opcode = RDMAD_OP_NOTIFIED, .lease = a->lease, .user_data = tag + n};
    raw_ring_put(r, sqe, count);
}

static bool all_taken(const struct raw_ring *r) {
    return __atomic_load_n(&r->daemon->sq_head, __ATOMIC_ACQUIRE) == r->sq_tail;
}

/* Until all rings' entries were taken; what was refused is counted. */
static void settle(struct waiter *a) {
    struct rdmad_cqe cqe;
    for (unsigned i = 0; i < a->rings; i++) {
        for (unsigned ms = 0; !all_taken(&a->ring[i]); ms++) {
            CHECK(ms < 10000 * test_patience(), "ring %u is not served", i);
            sleep_ms(1);
        }
        while (raw_ring_take(&a->ring[i], &cqe, 0)) {
            CHECK(cqe.status == RDMAD_E_LIMIT && cqe.lease_id < 4, "%d", cqe.status);
            a->refused[cqe.lease_id]++;
        }
    }
}

static uint64_t sum(const struct waiter *a) {
    return a->refused[1] + a->refused[2] + a->refused[3];
}

/* AddressSanitizer keeps up to 256 MiB of what was freed, by the bystander's calls, too. */
static uint64_t kept_bytes(void) {
    return (test_sanitized() ? UINT64_C(256) : UINT64_C(16)) << 20;
}

static void what_a_user_lets_wait_is_limited_and_its_memory_comes_back(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    static struct waiter a[4];
    struct bystander *b = bystander_start(d);
    uint64_t before = tdaemon_rss_bytes(d), most = 0, waiting = 0;
    for (unsigned s = 0; s < 4; s++) {
        waiter_open(&a[s], d, 20, ENTRIES);
        for (unsigned i = 0; i < a[s].rings; i++)
            post(&a[s], &a[s].ring[i], ENTRIES - 1, 1);
        settle(&a[s]);
        waiting += UINT64_C(20) * (ENTRIES - 1) - sum(&a[s]);
        uint64_t rss = tdaemon_rss_bytes(d);
        most = rss > most ? rss : most;
    }
    CHECK(a[0].refused[RDMAD_LIMIT_SESSION] == 20 * (ENTRIES - 1) - PER_SESSION, "%lu refused",
          (unsigned long)a[0].refused[RDMAD_LIMIT_SESSION]);
    CHECK(a[3].refused[RDMAD_LIMIT_UID] > 0, "a user's fourth session is not refused");
    CHECK(waiting <= PER_UID, "%lu wait", (unsigned long)waiting);
    for (unsigned s = 0; s < 4; s++)
        waiter_close(&a[s]);
    uint64_t after = tdaemon_rss_bytes(d);
    for (unsigned ms = 0; after > before + kept_bytes() && ms < TEST_PATIENCE_MS; ms += 50) {
        sleep_ms(50);
        after = tdaemon_rss_bytes(d);
    }
    printf("%lu ops waited: the daemon had %lu MiB, with them %lu, afterwards %lu\n",
           (unsigned long)waiting, (unsigned long)(before >> 20), (unsigned long)(most >> 20),
           (unsigned long)(after >> 20));
    CHECK(after <= before + kept_bytes(), "their memory does not come back");
    bystander_stop(b, "as many ops that wait as a user may have, four times");
    tdaemon_stop(d);
}

/* With as many ops that wait as it may have; nobody else waits for their ends, and when the session
 * is over they are. */
static void a_sessions_end_with_all_it_may_have_leaves_a_neighbour_its_turn(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    static struct waiter a;
    struct bystander *b = bystander_start(d);
    double worst = 0;
    for (unsigned round = 0; round < 3; round++) {
        waiter_open(&a, d, 17, ENTRIES);
        for (unsigned i = 0; i < a.rings; i++)
            post(&a, &a.ring[i], ENTRIES - 1, 1);
        settle(&a);
        CHECK(a.refused[RDMAD_LIMIT_SESSION] == 17 * (ENTRIES - 1) - PER_SESSION, "%lu refused",
              (unsigned long)a.refused[RDMAD_LIMIT_SESSION]);
        waiter_close(&a);
        sleep_ms(300);
        worst = bystander_worst_op_ms(b);
    }
    printf("a neighbour's worst op: %.1f ms\n", worst);
    bystander_stop(b, "ends of sessions with 65536 ops that wait");
    tdaemon_stop(d);
}

/* Of names that nothing has, and of some that something has, from all rings at once. */
static void cancels_from_all_rings_leave_a_neighbour_its_turn(void) {
    enum { DEPTH = 1000, ROUND = 16 };
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    static struct waiter a;
    uint64_t canceled = 0, sent = 0;
    waiter_open(&a, d, RINGS, 2048);
    for (unsigned i = 0; i < RINGS; i++)
        post(&a, &a.ring[i], DEPTH, 0);
    settle(&a);
    CHECK(sum(&a) == 0, "%lu refused", (unsigned long)sum(&a));
    struct bystander *b = bystander_start(d);
    for (uint64_t until = now_ms() + 1500; now_ms() < until;) {
        for (unsigned i = 0; i < RINGS; i++) {
            struct raw_ring *r = &a.ring[i];
            struct rdmad_sqe sqe[ROUND];
            struct rdmad_cqe cqe;
            while (raw_ring_take(r, &cqe, 0))
                canceled += cqe.status == RDMAD_E_CANCELED;
            if (!all_taken(r))
                continue;
            for (unsigned n = 0; n < ROUND; n++)
                sqe[n] = (struct rdmad_sqe){.opcode = RDMAD_OP_CANCEL,
                                            .lease = n ? 1u << 20 : sent % DEPTH};
            sqe[ROUND - 1] = (struct rdmad_sqe){
                .opcode = RDMAD_OP_NOTIFIED, .lease = a.lease, .user_data = sent % DEPTH};
            raw_ring_put(r, sqe, ROUND);
            sent += ROUND - 1;
        }
    }
    printf("%lu cancels, of which %lu ended an op\n", (unsigned long)sent, (unsigned long)canceled);
    CHECK(canceled > 0, "no cancel ended anything");
    bystander_stop(b, "cancels from 64 rings with 64000 ops that wait");
    waiter_close(&a);
    tdaemon_stop(d);
}

TEST_MAIN(CASE(what_a_user_lets_wait_is_limited_and_its_memory_comes_back),
          CASE(a_sessions_end_with_all_it_may_have_leaves_a_neighbour_its_turn),
          CASE(cancels_from_all_rings_leave_a_neighbour_its_turn))
