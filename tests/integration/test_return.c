/* SPDX-License-Identifier: MIT */
/*
 * test_return.c - the daemon of a lease's owner is lost, and comes back: lessees at another daemon
 * keep their handles, ops on them wait meanwhile, and what was in flight has one outcome. If it
 * does not come back they hear so in time.
 */
#include "tests/integration/far_load.h"
#include "tests/support/client.h"
#include "tests/support/pair.h"
#include "tests/support/procs.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>

#define SHORT "{\"peer\": {\"return_ms\": 600}}"
/* A daemon takes seconds to start in the guest. */
#define LONG "{\"peer\": {\"return_ms\": 60000}}"

enum { LEASE_MS = 3600000 }; /* in the guest 50 restarts take longer than the 60 s of a lease */

static void restart(struct tdaemon *d) {
    tdaemon_kill(d);
    tdaemon_restart(d);
}

static void a_lessee_keeps_its_handle_when_the_owners_daemon_dies(void) {
    struct far_pair p;
    far_pair_up(&p, LONG, 0, 1);
    for (unsigned i = 0; i < test_count(20); i++) {
        far_pair_works(&p, i);
        restart(p.far);
        far_pair_works(&p, i + 100);
    }
    far_pair_expect_no_end(&p);
    far_pair_down(&p);
}

/* The lessee's daemon stops: it does not give the lease back, which would end it. */
static void a_lease_for_one_lessee_outlives_the_lessees_daemon(void) {
    struct far_pair p;
    far_pair_up(&p, LONG, 0, 1);
    struct rdmad_lease_terms t = RDMAD_LEASE_TERMS_INIT;
    rdmad_lease *granted;
    t.rights = RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE;
    t.max_attaches = 1;
    CHECK(rdmad_lease_grant(p.owner, p.memory, FAR_BYTES, &t, &granted) == 0, "%s",
          rdmad_last_error(p.owner));
    rdmad_lease_free(p.attached);
    CHECK(rdmad_lease_attach(p.lessee, rdmad_lease_uri(granted), 0, &p.attached) == 0, "%s",
          rdmad_last_error(p.lessee));
    for (unsigned i = 0; i < 3; i++) {
        far_pair_works(&p, i);
        tdaemon_end(p.near);
        tdaemon_restart(p.near);
        far_pair_works(&p, i + 100);
    }
    far_pair_down(&p);
}

/* ---- outcomes -------------------------------------------------------------------------------- */

/* Returns how many ops were not done. patient: the next happens when the load goes on. */
static uint64_t work_while(struct far_pair *p, bool patient,
                           void (*happens)(struct far_pair *p, unsigned i)) {
    struct far_load *load = far_load_start(p);
    double pause_ms[1000];
    unsigned n = test_count(50);
    CHECK(n <= 1000, "no room for so many pauses");
    for (unsigned i = 0; i < n; i++) {
        sleep_ms(50 + (unsigned)test_random() % 50);
        far_load_longest_ms(load);
        happens(p, i);
        if (patient)
            far_load_expect_progress(load);
        sleep_ms(150);
        pause_ms[i] = far_load_longest_ms(load);
    }
    print_times("pauses", pause_ms, n);
    return far_load_stop(load);
}

static void kill_owners(struct far_pair *p, unsigned i) {
    (void)i;
    restart(p->far);
}

/* A daemon goes before the lessee has its lease back: on a busy machine for longer than 5 s. */
static void every_op_has_one_outcome(void) {
    struct far_pair p;
    far_pair_up(&p, LONG, LEASE_MS, 1);
    work_while(&p, false, kill_owners);
    far_pair_expect_no_end(&p);
    far_pair_down(&p);
}

/* The owner's daemon and the lessee's in turn. */
static void restart_in_order(struct far_pair *p, unsigned i) {
    struct tdaemon *d = i % 2 ? p->near : p->far;
    tdaemon_end(d);
    tdaemon_restart(d);
}

/* Neither an error nor an unknown outcome, if the one is there again before the other goes. */
static void a_restart_in_order_of_either_daemon_is_a_pause_and_no_more(void) {
    struct far_pair p;
    far_pair_up(&p, LONG, LEASE_MS, 1);
    CHECK(work_while(&p, true, restart_in_order) == 0, "ops have failed");
    far_pair_down(&p);
}

/* ---- the lessee is the daemon's own ---------------------------------------------------------- */

/* On a busy machine a peer is taken for dead now and then: what failed for that is asked anew. What
 * must not end is the handle. */
static void expect_adds(rdmad_session *s, rdmad_lease *l, const char *when) {
    uint64_t old;
    for (uint64_t since = now_ms(); rdmad_fetch_add(l, 0, 1, &old) != 0; sleep_ms(5)) {
        struct rdmad_lease_info info = client_info(l);
        CHECK(!info.ended, "%s the handle has ended with %s: %s", when, rdmad_errname(info.ended),
              rdmad_last_error(s));
        CHECK(now_ms() - since < TEST_PATIENCE_MS, "%s: %s", when, rdmad_last_error(s));
    }
}

/* Over verbs it goes by a link even at the owner's own daemon: atomics have to be the device's. The
 * other lessee waits through all of it: the owner's daemon goes again before that has got its lease
 * back, and on a busy machine all of it takes longer than 5 s. */
static void a_lessee_of_the_owners_own_daemon_keeps_its_handle_too(void) {
    struct far_pair p;
    rdmad_pool *pool;
    far_pair_up(&p, "{\"peer\": {\"ping_ms\": 50, \"dead_ms\": 200, \"return_ms\": 60000}}", 0, 1);
    rdmad_session *s = client_with_pool(p.far, 4096, &pool);
    rdmad_lease *l = client_attach(s, rdmad_lease_uri(p.granted));
    for (unsigned i = 0; i < 2; i++) {
        process_stop(tdaemon_pid(p.far));
        sleep_ms(400);
        process_go_on(tdaemon_pid(p.far));
        sleep_ms(50);
        expect_adds(s, l, "after its daemon hung");
        tdaemon_end(p.far);
        tdaemon_restart(p.far);
        expect_adds(s, l, "after its daemon was started anew");
        restart(p.far);
        expect_adds(s, l, "after its daemon was killed");
    }
    expect_adds(p.lessee, p.attached, "at the other daemon");
    rdmad_close(s);
    far_pair_down(&p);
}

/* ---- while it is away ------------------------------------------------------------------------ */

enum { READS = 32, EACH = 4096 };

static void submit_reads(struct far_pair *p, rdmad_ring *ring) {
    for (unsigned i = 0; i < READS; i++) {
        struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
        CHECK(sqe, "no room in the ring");
        CHECK(rdmad_prep_read(ring, sqe, p->attached, i * EACH, p->buffer + i * EACH, EACH, i) == 0,
              "%s", rdmad_last_error(p->lessee));
        CHECK(rdmad_ring_submit(ring) == 1, "%s", rdmad_last_error(p->lessee));
    }
}

static void what_is_submitted_meanwhile_waits(void) {
    struct far_pair p;
    const struct rdmad_cqe *cqe;
    far_pair_up(&p, LONG, 0, 1);
    fill_bytes(p.memory, FAR_BYTES, 7);
    rdmad_ring *ring = client_ring(p.lessee, READS);
    tdaemon_kill(p.far);
    sleep_ms(50);
    submit_reads(&p, ring);
    sleep_ms(100);
    CHECK(rdmad_ring_peek(ring, &cqe) == RDMAD_E_AGAIN, "a read without its owner's daemon");
    tdaemon_restart(p.far);
    for (unsigned i = 0; i < READS; i++) {
        CHECK(rdmad_ring_wait(ring, (int)TEST_PATIENCE_MS, &cqe) == 0, "read %u has no end", i);
        CHECK(cqe->status == 0, "a read: %s", rdmad_errname(cqe->status));
        rdmad_ring_seen(ring, cqe);
    }
    CHECK(bytes_are(p.buffer, READS * EACH, 7, NULL), "the reads are of the owner's bytes");
    rdmad_ring_destroy(ring);
    far_pair_down(&p);
}

/* More of them than one life of the owner's daemon would have room for, so they are counted anew.
 */
static void notifications_go_on(void) {
    struct far_pair p;
    far_pair_up(&p, LONG, 0, 1);
    for (uint32_t life = 0; life < 3; life++) {
        for (uint32_t i = 0; i < RDMAD_NOTIFY_DEPTH; i++)
            CHECK(rdmad_write_notify(p.attached, 0, p.buffer, 8, life << 16 | i) == 0,
                  "%u of %u: %s", i, life, rdmad_last_error(p.lessee));
        for (uint32_t i = 0; i < RDMAD_NOTIFY_DEPTH / 2; i++) {
            uint32_t imm = 0;
            CHECK(rdmad_wait_notified(p.granted, (int)TEST_PATIENCE_MS, &imm, NULL) == 0, "%s",
                  rdmad_last_error(p.owner));
            CHECK(imm == (life << 16 | i), "notice %x comes as %u of %u", imm, i, life);
        }
        restart(p.far);
        far_pair_works(&p, life);
    }
    far_pair_down(&p);
}

/* ---- it does not come back ---------------------------------------------------------------------
 */

/* In so many ms since the daemon was killed, at a time of now_ms(). */
static void expect_lost(struct far_pair *p, uint64_t since, uint64_t not_before_ms,
                        uint64_t not_after_ms) {
    struct rdmad_event e = client_event(p->lessee, RDMAD_EVENT_LEASE_ENDED);
    uint64_t took = now_ms() - since;
    CHECK(e.reason == RDMAD_E_PEER_LOST, "%s: %s", rdmad_errname(e.reason), e.text);
    CHECK(took >= not_before_ms && took <= not_after_ms, "told after %" PRIu64 " ms: %s", took,
          e.text);
    CHECK(rdmad_write(p->attached, 0, p->buffer + READS * EACH, 8) == RDMAD_E_PEER_LOST,
          "a write by a lost lease");
}

static void a_daemon_that_stays_away_is_told_of_in_time(void) {
    const struct rdmad_cqe *cqe;
    struct far_pair p;
    far_pair_up(&p, SHORT, 0, 1);
    rdmad_ring *ring = client_ring(p.lessee, READS);
    uint64_t since = now_ms();
    tdaemon_kill(p.far);
    submit_reads(&p, ring);
    expect_lost(&p, since, 300, 6000);
    for (unsigned i = 0; i < READS; i++) {
        CHECK(rdmad_ring_wait(ring, (int)TEST_PATIENCE_MS, &cqe) == 0, "read %u has no end", i);
        CHECK(cqe->status == RDMAD_E_PEER_LOST, "a read: %s", rdmad_errname(cqe->status));
        rdmad_ring_seen(ring, cqe);
    }
    rdmad_ring_destroy(ring);
    tdaemon_restart(p.far);
    far_pair_down(&p);
}

/* Its daemon is back, but nobody brings the lease back. */
static void an_owner_that_stays_away_is_told_of_in_time(void) {
    struct far_pair p;
    far_pair_up(&p, SHORT, 0, 1);
    uint64_t since = now_ms();
    tdaemon_kill(p.far);
    rdmad_close(p.owner);
    p.owner = NULL;
    tdaemon_restart(p.far);
    expect_lost(&p, since, 300, 6000);
    far_pair_down(&p);
}

static void whoever_does_not_outlive_daemons_is_told_at_once(void) {
    struct far_pair p;
    far_pair_up(&p, LONG, 0, 0);
    uint64_t since = now_ms();
    tdaemon_kill(p.far);
    expect_lost(&p, since, 0, 20000);
    tdaemon_restart(p.far);
    far_pair_down(&p);
}

static unsigned attaches_of(struct tdaemon *d) {
    json_t *objects = tdaemon_objects(d);
    unsigned n = (unsigned)json_integer_value(json_object_get(objects, "attaches"));
    json_decref(objects);
    return n;
}

static void what_is_freed_while_away_is_given_back(void) {
    struct far_pair p;
    far_pair_up(&p, LONG, 0, 1);
    CHECK(attaches_of(p.near) == 1, "one attach");
    tdaemon_kill(p.far);
    sleep_ms(50);
    rdmad_lease_free(p.attached);
    for (uint64_t until = now_ms() + TEST_PATIENCE_MS; attaches_of(p.near); sleep_ms(5))
        CHECK(now_ms() < until, "an attach that was freed is still there");
    tdaemon_restart(p.far);
    far_pair_down(&p);
}

TEST_MAIN(CASE(a_lessee_keeps_its_handle_when_the_owners_daemon_dies),
          CASE(a_lease_for_one_lessee_outlives_the_lessees_daemon), CASE(every_op_has_one_outcome),
          CASE(a_restart_in_order_of_either_daemon_is_a_pause_and_no_more),
          CASE(a_lessee_of_the_owners_own_daemon_keeps_its_handle_too),
          CASE(what_is_submitted_meanwhile_waits), CASE(notifications_go_on),
          CASE(a_daemon_that_stays_away_is_told_of_in_time),
          CASE(an_owner_that_stays_away_is_told_of_in_time),
          CASE(whoever_does_not_outlive_daemons_is_told_at_once),
          CASE(what_is_freed_while_away_is_given_back))
