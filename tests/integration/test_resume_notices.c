/* SPDX-License-Identifier: MIT */
/*
 * test_resume_notices.c - notifications that their owner had not taken are lost with its daemon,
 * and it is told how many. None that a lessee knows to be there goes without a word.
 */
#include "tests/support/two.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

static void each_route(void (*promise)(struct two *t)) {
    need_hole_guard();
    two_each_route(promise);
}

static void restart(struct two *t, bool in_order) {
    if (in_order)
        tdaemon_end(t->a);
    else
        tdaemon_kill(t->a);
    tdaemon_restart(t->a);
}

/* How many are told to be lost, until the session has been resumed. */
static size_t told_lost(struct two *t) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    size_t lost = 0;
    for (;;) {
        int rc = rdmad_next_event(t->owner, (int)TEST_PATIENCE_MS, &e);
        CHECK(!rc, "%s: it was not resumed", rdmad_errname(rc));
        if (e.type == RDMAD_EVENT_SESSION_RESUMED)
            return lost;
        CHECK(e.type == RDMAD_EVENT_NOTIFICATIONS_LOST && e.length, "event %u: %s", e.type, e.text);
        lost += e.length;
    }
}

static void leave(struct two *t, rdmad_lease *l, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        CHECK(!rdmad_write_notify(l, 0, t->mine, 8, i), "%s", rdmad_last_error(t->lessee));
}

static void take(struct two *t, rdmad_lease *own, unsigned count) {
    uint32_t imm;
    for (unsigned i = 0; i < count; i++)
        CHECK(!rdmad_wait_notified(own, (int)TEST_PATIENCE_MS, &imm, NULL), "%s",
              rdmad_last_error(t->owner));
}

/* The lessee's next one goes through when it is attached again. */
static void counted(struct two *t) {
    rdmad_lease *own = two_grant(t, 0, 0, 0);
    rdmad_lease *l = client_attach(t->lessee, rdmad_lease_uri(own));
    for (unsigned i = 1; i < 9; i++) {
        leave(t, l, 10);
        take(t, own, 10);
        leave(t, l, i); /* and so the worker has told that it is taken */
        restart(t, i % 2);
        size_t lost = told_lost(t);
        CHECK(lost == i, "%zu are told to be lost, not %u", lost, i);
        leave(t, l, 1);
        take(t, own, 1); /* the ring is at this daemon now */
    }
}

static void those_that_were_not_taken_are_told(void) {
    each_route(counted);
}

/* What is left of leases that have ended is nobody's; and the ring that told goes first. */
static void moved(struct two *t) {
    rdmad_ring *first = client_ring(t->owner, 8), *second = client_ring(t->owner, 8);
    rdmad_lease *own = two_grant(t, 0, 0, 0), *other = two_grant(t, 0, 0, 0);
    rdmad_lease *l = client_attach(t->lessee, rdmad_lease_uri(own));
    rdmad_lease *m = client_attach(t->lessee, rdmad_lease_uri(other));
    leave(t, l, 3);
    leave(t, m, 4);
    CHECK(!rdmad_lease_revoke(other), "%s", rdmad_last_error(t->owner));
    (void)client_event(t->owner, RDMAD_EVENT_LEASE_ENDED);
    rdmad_ring_destroy(first);
    restart(t, false);
    size_t lost = told_lost(t);
    CHECK(lost == 3, "%zu are told to be lost, not 3", lost);
    rdmad_ring_destroy(second);
}

static void of_leases_that_are_alive_by_whichever_ring(void) {
    each_route(moved);
}

/* Nobody can tell how many there were; who never took any is not bothered. */
static void unknown(struct two *t) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    rdmad_lease *own = two_grant(t, 0, 0, 0);
    rdmad_ring *ring = client_ring(t->owner, 8);
    const struct rdmad_cqe *cqe;
    rdmad_ring_destroy(ring);
    restart(t, false);
    CHECK(told_lost(t) == 0, "something is told to be lost");
    ring = client_ring(t->owner, 8);
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    CHECK(sqe && !rdmad_prep_notified(ring, sqe, own, 1) && rdmad_ring_submit(ring) == 1, "%s",
          rdmad_last_error(t->owner));
    rdmad_lease *l = client_attach(t->lessee, rdmad_lease_uri(own));
    leave(t, l, 1);
    CHECK(!rdmad_ring_wait(ring, (int)TEST_PATIENCE_MS, &cqe) && !cqe->status, "%s",
          rdmad_last_error(t->owner));
    rdmad_ring_destroy(ring);
    leave(t, l, 2);
    restart(t, false);
    CHECK(!rdmad_next_event(t->owner, (int)TEST_PATIENCE_MS, &e), "no event");
    CHECK(e.type == RDMAD_EVENT_NOTIFICATIONS_LOST && !e.length && strstr(e.text, "may be"),
          "event %u, %zu: %s", e.type, e.length, e.text);
    CHECK(told_lost(t) == 0, "it is told twice");
}

static void that_it_cannot_be_known(void) {
    each_route(unknown);
}

/* ---- under load ---- */

struct load {
    struct two *t;
    rdmad_lease *own, *l;
    bool stop, left; /* atomic: no more kills; and no more is left */
    unsigned done, taken;
};

static void *leave_many(void *arg) {
    struct load *load = arg;
    while (!__atomic_load_n(&load->stop, __ATOMIC_SEQ_CST)) {
        int rc = rdmad_write_notify(load->l, 0, load->t->mine, 8, 7);
        if (rc == 0)
            load->done++;
        else if (rc == RDMAD_E_NO_WAITER)
            sleep_ms(1);
    }
    return NULL;
}

static void *take_many(void *arg) {
    struct load *load = arg;
    uint32_t imm;
    while (!__atomic_load_n(&load->left, __ATOMIC_SEQ_CST)) {
        if (rdmad_wait_notified(load->own, 20, &imm, NULL) == 0)
            __atomic_add_fetch(&load->taken, 1, __ATOMIC_SEQ_CST);
        if (load->taken % 64 == 0)
            sleep_ms(2); /* so that some wait */
    }
    while (rdmad_wait_notified(load->own, 200, &imm, NULL) == 0)
        load->taken++;
    return NULL;
}

static void loaded(struct two *t) {
    struct load load = {.t = t, .own = two_grant(t, 0, 0, 0)};
    pthread_t leaver, taker;
    size_t lost = 0;
    load.l = client_attach(t->lessee, rdmad_lease_uri(load.own));
    CHECK(!pthread_create(&leaver, NULL, leave_many, &load), "thread");
    CHECK(!pthread_create(&taker, NULL, take_many, &load), "thread");
    for (unsigned i = 0; i < test_count(30); i++) {
        unsigned before = __atomic_load_n(&load.taken, __ATOMIC_SEQ_CST);
        for (uint64_t until = now_ms() + TEST_PATIENCE_MS; /* it has a ring at this daemon */
             __atomic_load_n(&load.taken, __ATOMIC_SEQ_CST) - before < 2; sleep_ms(1))
            CHECK(now_ms() < until, "nothing is taken at this daemon");
        sleep_ms((unsigned)(test_random() % 50));
        restart(t, false);
        struct rdmad_event e = RDMAD_EVENT_INIT;
        do {
            CHECK(!rdmad_next_event(t->owner, (int)TEST_PATIENCE_MS, &e), "it was not resumed");
            CHECK(e.type != RDMAD_EVENT_NOTIFICATIONS_LOST || e.length, "%s", e.text);
            lost += e.type == RDMAD_EVENT_NOTIFICATIONS_LOST ? e.length : 0;
        } while (e.type != RDMAD_EVENT_SESSION_RESUMED);
    }
    __atomic_store_n(&load.stop, true, __ATOMIC_SEQ_CST);
    pthread_join(leaver, NULL);
    __atomic_store_n(&load.left, true, __ATOMIC_SEQ_CST);
    pthread_join(taker, NULL);
    fprintf(stderr, "%u are known to be there, %u were taken, %zu were told to be lost\n",
            load.done, load.taken, lost);
    CHECK(load.done <= load.taken + lost, "some went without a word");
}

static void none_goes_without_a_word(void) {
    each_route(loaded);
}

TEST_MAIN(CASE(those_that_were_not_taken_are_told),
          CASE(of_leases_that_are_alive_by_whichever_ring), CASE(that_it_cannot_be_known),
          CASE(none_goes_without_a_word))
