/* SPDX-License-Identifier: MIT */
/* Doorbells: who publishes is heard, who only rings is not listened to for a while. */
#include "common/ringword.h"
#include "daemon/op/engine/doorbells.h"
#include "tests/unit/op_rig.h"
#include <criterion/criterion.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define MANY 10000u

static struct rig rig;
static struct rig_client c;
static struct worker *w;
static struct op_ring *r;

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 5);
    rig_client_up(&rig, &c, 16, 16, 4096);
    w = &rig.plane[HERE]->worker[0];
    r = c.ring->owner;
    cr_assert(rings_park(w, r));
}

TestSuite(doorbells, .init = setup, .timeout = 60);

static void down(void) {
    rig_client_down(&c);
    cr_assert_eq(rig.violated, 0);
    rig_down(&rig);
}

/* What the loop would do now: whether epoll tells of the ring. */
static bool told(void) {
    struct epoll_event ev[8];
    int n = epoll_wait(w->epoll_fd, ev, 8, 0);
    for (int i = 0; i < n; i++)
        if (ev[i].data.ptr == r)
            return true;
    return false;
}

/* Rings until the worker does not hear it; returns how often it did. */
static unsigned ring_in_vain(void) {
    for (unsigned n = 0; n < MANY; n++) {
        eventfd_write(c.fds[3], 1);
        if (!told())
            return n;
        cr_assert_not(doorbells_heard(w, r));
        cr_assert(r->parked, "a ring in vain wakes nothing");
    }
    return MANY;
}

static void pass(uint64_t ns) {
    sim_advance(ns);
    worker_turn(w, sim_now());
}

static const struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP};

Test(doorbells, who_publishes_is_heard_for_ever) {
    for (unsigned i = 0; i < MANY; i++) {
        struct rdmad_cqe cqe;
        rig_put(&c, &nop);
        eventfd_write(c.fds[3], 1); /* and rings twice */
        cr_assert(told());
        cr_assert(doorbells_heard(w, r));
        worker_turn(w, sim_now());
        cr_assert(rig_take(&c, &cqe));
        ringword_publish(&c.client->cq_head, c.cq_head);
        cr_assert(rings_park(w, r));
        eventfd_write(c.fds[3], 1); /* late: what it was for is done */
        cr_assert(told());
        doorbells_heard(w, r);
    }
    cr_assert(list_empty(&w->deaf));
    down();
}

Test(doorbells, who_only_rings_is_soon_not_listened_to) {
    unsigned heard = ring_in_vain();
    cr_assert_lt(heard, 1000u);
    cr_assert_gt(heard, 10u, "an honest client may ring in vain");
    cr_assert_eq(ring_in_vain(), 0);
    cr_assert_leq(worker_next_ns(w), sim_now() + NSEC_PER_MSEC, "but looked at");
    down();
}

Test(doorbells, a_ring_not_listened_to_is_served_within_a_millisecond) {
    struct rdmad_cqe cqe;
    ring_in_vain();
    rig_put(&c, &nop);
    cr_assert_not(told());
    pass(NSEC_PER_MSEC);
    cr_assert(rig_take(&c, &cqe));
    down();
}

Test(doorbells, a_ring_is_listened_to_again_and_misses_nothing) {
    ring_in_vain();
    for (unsigned i = 0; i < 200 && !list_empty(&w->deaf); i++)
        pass(NSEC_PER_MSEC);
    cr_assert(list_empty(&w->deaf), "deaf for longer than 200 ms");
    cr_assert(told(), "of what was rung for meanwhile");
    down();
}

static uint64_t deaf_for(void) {
    uint64_t start = sim_now();
    while (!list_empty(&w->deaf))
        pass(NSEC_PER_MSEC);
    return sim_now() - start;
}

Test(doorbells, who_goes_on_is_listened_to_less_and_less_but_in_the_end_again) {
    uint64_t last = 0, longest = 5 * NSEC_PER_SEC;
    for (unsigned i = 0; i < 5; i++) {
        ring_in_vain();
        uint64_t now = deaf_for();
        cr_assert_gt(now, last);
        last = now;
    }
    for (unsigned i = 0; i < 10; i++) {
        ring_in_vain();
        cr_assert_lt(deaf_for(), longest);
    }
    sim_advance(60 * NSEC_PER_SEC); /* in which it behaved */
    ring_in_vain();
    cr_assert_lt(deaf_for(), last);
    down();
}

Test(doorbells, a_ring_that_is_dropped_while_not_listened_to_leaves_nothing_behind) {
    ring_in_vain();
    cr_assert_not(list_empty(&w->deaf));
    rig_client_down(&c);
    cr_assert(list_empty(&w->deaf));
    cr_assert_eq(doorbells_next_ns(w), CLOCK_NEVER);
    rig_down(&rig);
}
