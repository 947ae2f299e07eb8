/* SPDX-License-Identifier: MIT */
/*
 * Which of a session's ops on a route is next: what came first ends first, and what is small waits
 * for no long op to end. Counted in bytes, so no test depends on the speed of the machine.
 */
#include "daemon/op/engine/share.h"
#include "tests/unit/op_crowd.h"
#include <criterion/criterion.h>

#define PART (128u * 1024) /* of a long op on the local route */
#define RINGS_OF_ALICE 4u
#define OPS (RINGS_OF_ALICE * DEPTH)
#define AHEAD (512u * 1024)

static void setup(void) {
    crowds_up(1);
    crowd_up(&alice, ALICE, 1, RINGS_OF_ALICE);
    crowd_up(&bob, BOB, 1, 1);
    bob.stopped = true;
    crowd_does(&alice, RDMAD_OP_WRITE, LOCAL, BYTES);
}

TestSuite(turns, .init = setup, .timeout = 120);

static double moved(void) {
    return crowd_done(&alice).bytes;
}

static double ended(void) {
    return crowd_done(&alice).ops;
}

static void queue_once(void) {
    crowd_fill(&alice);
    alice.stopped = true;
}

static void until_moved(double bytes) {
    for (unsigned n = 0; moved() < bytes; n++) {
        cr_assert_lt(n, 100000u, "%.0f bytes have moved", moved());
        saturate(1);
    }
}

static double placed;

static void count_placed(void *base, uint64_t offset, uint64_t bytes) {
    (void)base, (void)offset;
    placed += (double)bytes;
}

static void until_placed(double bytes) {
    for (unsigned n = 0; placed < bytes; n++) {
        cr_assert_lt(n, 100000u, "%.0f bytes have moved", placed);
        saturate(1);
    }
}

Test(turns, the_first_of_many_end_while_the_last_wait) {
    sim_script()->placed = count_placed;
    sim_script()->max_inflight = 8;
    crowd_does(&alice, RDMAD_OP_WRITE, REMOTE, BYTES);
    crowd_does(&bob, RDMAD_OP_WRITE, REMOTE, 8);
    alice.stopped = true;
    bob.stopped = false; /* on a link that two users use parts are short */
    saturate(10);
    bob.stopped = true;
    saturate(100);
    placed = 0;
    alice.stopped = false;
    queue_once();
    until_placed(OPS * (double)BYTES / 2);
    cr_assert_geq(ended(), OPS / 4., "half of the bytes have moved, and %.0f ended", ended());
    until_placed(OPS * (double)BYTES);
    saturate(100);
    cr_assert_eq(ended(), OPS);
    crowds_down();
}

/* With a rate, of a second each 16 MiB: 256 MiB would end all at once, after 16 s. */
Test(turns, and_so_they_do_with_a_rate) {
    set_share(ALICE, 100, 0, 16 << 20, 0);
    queue_once();
    for (uint64_t end = sim_now() + 2 * NSEC_PER_SEC; sim_now() < end;)
        rig_step(&rig, end);
    cr_assert_geq(ended(), SHARE_TURNS, "%.0f ended in two seconds", ended());
    crowds_down();
}

/* Bytes that went before a small op which came behind all that is queued. */
static double small_waits(void) {
    struct rdmad_sqe small = {
        .opcode = RDMAD_OP_WRITE, .pool = RIG_HANDLE(0), .lease = LOCAL, .length = 8};
    struct rig_client *ring = &alice.of[0].ring[0];
    double before = moved();
    small.user_data = 77;
    rig_put(ring, &small);
    for (unsigned n = 0; n < 100000; n++) {
        struct rdmad_cqe cqe;
        while (rig_take(ring, &cqe))
            if (cqe.user_data == 77)
                return moved() - before;
        worker_turn(&rig.plane[HERE]->worker[0], sim_now());
        sim_advance(100);
    }
    cr_assert(false, "the small op does not end");
    return 0;
}

Test(turns, a_small_op_waits_for_those_before_it_to_begin_not_to_end) {
    alice.at_once = 10;
    queue_once();
    double waited = small_waits(), most = 2. * RINGS_OF_ALICE * 10 * PART + 2 * AHEAD;
    cr_assert_leq(waited, most, "%.0f bytes went before it, not %.0f", waited, most);
    crowds_down();
}

Test(turns, and_for_none_when_all_before_it_have_begun) {
    alice.at_once = 10;
    queue_once();
    until_moved(2. * RINGS_OF_ALICE * 10 * PART);
    double waited = small_waits();
    cr_assert_leq(waited, 2. * AHEAD, "%.0f bytes went before it", waited);
    crowds_down();
}

/* Of 8 parts of a long op one is its first and 7 are not, so small ops have the bytes of 6. A part
 * costs 1 KiB besides its bytes. */
Test(turns, ops_that_have_begun_and_those_that_have_not_have_equal_bytes) {
    enum { SMALL = 8192 };
    struct rig_client *few = &alice.of[0].c, *many = &alice.of[0].ring[0];
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_WRITE, .pool = RIG_HANDLE(0), .lease = LOCAL};
    uint64_t longs = 0, smalls = 0;
    struct rdmad_cqe cqe;
    alice.stopped = true;
    for (unsigned n = 0; n < 4000; n++) {
        while (rig_take(few, &cqe))
            longs++;
        while (rig_take(many, &cqe))
            smalls++;
        for (sqe.length = BYTES; few->sq_tail - few->cq_head < 2;)
            rig_put(few, &sqe);
        for (sqe.length = SMALL; many->sq_tail - many->cq_head < DEPTH;)
            rig_put(many, &sqe);
        worker_turn(&rig.plane[HERE]->worker[0], sim_now());
        sim_advance(100);
    }
    is_about((double)smalls * (SMALL + ROUTE_OP_COST) / ((double)longs * BYTES), 6 / 8.);
    crowds_down();
}
