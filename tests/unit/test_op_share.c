/* SPDX-License-Identifier: MIT */
/*
 * What users get of a worker and of its routes: by weight between users, equally between a user's
 * sessions and rings, within rates. All that is counted here is counted in turns and on the
 * scripted clock, so no test depends on the speed of the machine.
 */
#include "daemon/base/log.h"
#include "daemon/op/engine/user.h"
#include "daemon/op/seam/objects.h"
#include "tests/unit/op_crowd.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MANY 64u

static void setup(void) {
    crowds_up(1);
}

TestSuite(share, .init = setup, .timeout = 120);

/* ---- weights ----------------------------------------------------------------------------- */

Test(share, weights_of_3_and_1_hold_for_long_copies) {
    both(1, 1, RDMAD_OP_WRITE, LOCAL, BYTES);
    is_about(ratio_of(2000).bytes, 3);
    crowds_down();
}

Test(share, and_for_one_session_against_64) {
    both(1, MANY, RDMAD_OP_READ, LOCAL, 256 * 1024);
    is_about(ratio_of(2000).bytes, 3);
    crowds_down();
}

Test(share, and_for_64_sessions_against_one) {
    both(MANY, 1, RDMAD_OP_WRITE, LOCAL, 64 * 1024);
    is_about(ratio_of(2000).bytes, 3);
    crowds_down();
}

Test(share, and_for_small_ops_in_ops) {
    both(8, MANY, RDMAD_OP_WRITE, LOCAL, 64);
    is_about(ratio_of(2000).ops, 3);
    crowds_down();
}

Test(share, and_for_nops) {
    both(8, MANY, RDMAD_OP_NOP, 0, 0);
    is_about(ratio_of(2000).ops, 3);
    crowds_down();
}

Test(share, and_for_sizes_in_any_order) {
    both(2, 8, RDMAD_OP_WRITE, LOCAL, 8);
    alice.size[1] = bob.size[2] = 256 * 1024;
    alice.size[2] = bob.size[1] = 4096;
    alice.size[3] = bob.size[3] = 70000;
    alice.sizes = bob.sizes = 4;
    is_about(ratio_of(4000).bytes, 3);
    crowds_down();
}

/* An op costs 2 KiB besides its bytes. */
Test(share, bytes_and_ops_of_different_users_have_one_measure) {
    both(8, 2, RDMAD_OP_NOP, 0, 0);
    crowd_does(&bob, RDMAD_OP_WRITE, LOCAL, BYTES);
    struct done a = crowd_done(&alice), b = crowd_done(&bob);
    saturate(2000);
    struct done x = crowd_done(&alice), y = crowd_done(&bob);
    double bobs = y.bytes - b.bytes + (y.ops - b.ops) * USER_OP_COST;
    is_about((x.ops - a.ops) * USER_OP_COST / bobs, 3);
    crowds_down();
}

Test(share, and_on_a_link) {
    sim_script()->max_inflight = 8;
    both(1, MANY, RDMAD_OP_WRITE, REMOTE, 64 * 1024);
    is_about(ratio_of(20000).bytes, 3);
    crowds_down();
}

Test(share, and_on_a_link_beside_a_busy_local_route) {
    struct crowd carol;
    sim_script()->max_inflight = 8;
    both(1, 16, RDMAD_OP_READ, REMOTE, 64 * 1024);
    crowd_up(&carol, 1003, 1, 1);
    crowd_does(&carol, RDMAD_OP_WRITE, LOCAL, 64 * 1024);
    saturate(1000);
    struct done a = crowd_done(&alice), b = crowd_done(&bob), c = crowd_done(&carol);
    for (unsigned n = 0; n < RIG_COUNT(10000); n++) {
        crowd_fill(&carol);
        saturate(1);
    }
    struct done x = crowd_done(&alice), y = crowd_done(&bob), z = crowd_done(&carol);
    cr_assert_gt(z.bytes, c.bytes);
    is_about((x.bytes - a.bytes) / (y.bytes - b.bytes), 3);
    crowd_down(&carol);
    crowds_down();
}

Test(share, a_users_sessions_have_equal_parts_whatever_their_rings) {
    both(2, 1, RDMAD_OP_WRITE, LOCAL, 64);
    set_share(ALICE, 30, 0, 0, 0);
    for (unsigned k = 0; k < 32; k++, alice.of[1].rings++)
        rig_ring_up(&alice.of[1].c, &alice.of[1].ring[k], DEPTH, DEPTH);
    const struct source *one = &alice.of[0], *many = &alice.of[1];
    saturate(500);
    struct done a = session_done(one), b = session_done(many);
    saturate(2000);
    is_about((session_done(one).ops - a.ops) / (session_done(many).ops - b.ops), 1);
    crowd_does(&alice, RDMAD_OP_WRITE, LOCAL, 100000);
    saturate(500);
    a = session_done(one), b = session_done(many);
    saturate(RIG_COUNT(8000));
    is_about((session_done(one).bytes - a.bytes) / (session_done(many).bytes - b.bytes), 1);
    crowds_down();
}

/* Those of the other sizes owe several quanta after each part, and not equally many. */
Test(share, and_of_a_link_whatever_the_sizes_of_their_ops) {
    struct crowd small, odd;
    sim_script()->max_inflight = 8;
    both(3, 1, RDMAD_OP_WRITE, REMOTE, BYTES);
    crowd_up(&small, ALICE, 1, 1);
    crowd_does(&small, RDMAD_OP_WRITE, REMOTE, 32 * 1024);
    crowd_up(&odd, ALICE, 1, 1);
    crowd_does(&odd, RDMAD_OP_WRITE, REMOTE, 300 * 1024);
    struct done a = {0, 0}, s = a, o = a;
    for (unsigned n = 0; n < RIG_COUNT(24000); n++) {
        if (n == RIG_COUNT(4000))
            a = crowd_done(&alice), s = crowd_done(&small), o = crowd_done(&odd);
        crowd_fill(&small);
        crowd_fill(&odd);
        saturate(1);
    }
    double large = (crowd_done(&alice).bytes - a.bytes) / 3;
    is_about((crowd_done(&small).bytes - s.bytes) / large, 32.0 / 33);
    is_about((crowd_done(&odd).bytes - o.bytes) / large, 1);
    crowd_down(&small);
    crowd_down(&odd);
    crowds_down();
}

Test(share, changes_while_ops_are_under_way) {
    both(4, 8, RDMAD_OP_WRITE, LOCAL, 100000);
    is_about(ratio_of(2000).bytes, 3);
    set_share(ALICE, 100, 0, 0, 0);
    is_about(ratio_of(2000).bytes, 1);
    set_share(BOB, 700, 0, 0, 0);
    is_about(ratio_of(8000).bytes, 1 / 7.0);
    crowds_down();
}

static void is_nothing_in_store(uint8_t opcode, uint64_t lease, uint64_t size) {
    both(1, 32, opcode, lease, size);
    set_share(ALICE, 100, 0, 0, 0);
    bob.stopped = true;
    saturate(RIG_COUNT(3000));
    bob.stopped = false;
    struct done a = crowd_done(&alice), b = crowd_done(&bob);
    saturate(200);
    cr_assert_geq(crowd_done(&alice).ops - a.ops, 0.4 * (crowd_done(&bob).ops - b.ops),
                  "bob took what he had not used before");
    crowds_down();
}
Test(share, who_was_idle_has_nothing_in_store) {
    is_nothing_in_store(RDMAD_OP_WRITE, LOCAL, 100000);
}
Test(share, nor_has_who_asks_for_little) {
    is_nothing_in_store(RDMAD_OP_NOP, 0, 0);
}

static double bytes_in(const struct crowd *crowd, unsigned turns) {
    double before = crowd_done(crowd).bytes;
    saturate(turns);
    return crowd_done(crowd).bytes - before;
}

/* Parts are for those who want more than there is. Else somebody with one op a turn would hold all
 * others to what that costs. */
static void is_no_brake(uint8_t opcode, uint64_t lease) {
    crowd_up(&alice, ALICE, 1, 1);
    crowd_up(&bob, BOB, 1, 1);
    crowd_does(&alice, RDMAD_OP_WRITE, LOCAL, BYTES);
    crowd_does(&bob, opcode, lease, 64);
    bob.at_once = 1;
    bob.stopped = true;
    double alone = bytes_in(&alice, 1000);
    bob.stopped = false;
    saturate(100);
    double beside = bytes_in(&alice, 1000);
    cr_assert_gt(crowd_done(&bob).ops, 500);
    cr_assert_gt(beside, 0.9 * alone, "%.0f of %.0f bytes", beside, alone);
    crowds_down();
}

Test(share, who_wants_little_holds_up_nobody) {
    is_no_brake(RDMAD_OP_NOP, LOCAL);
}

Test(share, nor_does_who_writes_little) {
    is_no_brake(RDMAD_OP_WRITE, LOCAL);
}

/* Its ops wait for a link that takes no more: that is no use of the worker's time. */
Test(share, who_waits_for_a_full_link_holds_up_nobody) {
    crowd_up(&alice, ALICE, 1, 1);
    crowd_up(&bob, BOB, 4, 1);
    crowd_does(&alice, RDMAD_OP_WRITE, LOCAL, BYTES);
    crowd_does(&bob, RDMAD_OP_READ, REMOTE, 8);
    bob.stopped = true;
    double alone = bytes_in(&alice, 1000);
    bob.stopped = false;
    sim_script()->max_inflight = 4;
    sim_script()->delay_min_ns = sim_script()->delay_max_ns = 20000;
    saturate(100);
    double beside = bytes_in(&alice, 1000);
    cr_assert_gt(beside, 0.45 * alone, "%.0f of %.0f bytes", beside, alone);
    crowds_down();
}

Test(share, a_low_priority_is_not_starved_and_a_high_one_goes_first) {
    both(1, 1, RDMAD_OP_WRITE, LOCAL, 64 * 1024);
    set_share(ALICE, 100, 1, 0, 0);
    is_about(ratio_of(8000).bytes, 16);
    set_share(BOB, 100, -1, 0, 0);
    double ratio = ratio_of(40000).bytes;
    cr_assert(ratio > 200 && ratio < 300, "%.1f", ratio);
    crowds_down();
}

Test(share, out_of_bounds_is_refused_and_what_holds_is_told) {
    struct plane *p = rig.plane[HERE];
    struct plane_user_stats stats;
    struct plane_share share = PLANE_SHARE_DEFAULT;
    crowd_up(&alice, ALICE, 1, 1);
    share.weight = 0;
    cr_assert_eq(plane_user_share(p, crowd_user(ALICE), &share), RDMAD_E_INVAL);
    share.weight = PLANE_WEIGHT_MAX + 1;
    cr_assert_eq(plane_peer_share(p, 1, &share), RDMAD_E_INVAL);
    share = (struct plane_share){.weight = 1, .priority = 2};
    cr_assert_eq(plane_user_share(p, crowd_user(ALICE), &share), RDMAD_E_INVAL);
    plane_user_stats(p, crowd_user(ALICE), &stats);
    cr_assert_eq(stats.share.weight, PLANE_WEIGHT_DEFAULT);
    set_share(ALICE, 7, -1, 5, 6);
    plane_user_stats(p, crowd_user(ALICE), &stats);
    cr_assert(stats.share.weight == 7 && stats.share.priority == -1 &&
              stats.share.bytes_per_second == 5 && stats.share.ops_per_second == 6);
    crowds_down();
}

/* A rule without uid gives a share to everybody who ever came. */
Test(share, of_a_user_without_sessions_nothing_is_kept) {
    struct rig_client once;
    for (uid_t uid = 2000; uid < 2040; uid++) {
        rig.uid = uid;
        rig_client_up(&rig, &once, DEPTH, DEPTH, BYTES);
        set_share(uid, 7, 1, 5, 6);
        rig_client_down(&once);
        cr_assert_null(account_find(&rig.plane[HERE]->accounts, crowd_user(uid)),
                       "uid %u is kept for ever", uid);
    }
    crowds_down();
}

/* ---- rates ------------------------------------------------------------------------------- */

/* Moves the clock from event to event; the crowds are kept full. */
static void pass(uint64_t ns) {
    for (uint64_t end = sim_now() + ns; sim_now() < end;) {
        crowd_fill(&alice);
        crowd_fill(&bob);
        rig_step(&rig, sim_now() + NSEC_PER_MSEC < end ? sim_now() + NSEC_PER_MSEC : end);
    }
}

static void holds(double moved, double rate, double seconds) {
    cr_assert(moved > 0.97 * rate * seconds && moved < 1.03 * rate * seconds,
              "%.0f instead of %.0f", moved / seconds, rate);
}

/* From a second on, for four. */
static void alice_is_held_to(struct plane_share share) {
    set_share(ALICE, 100, 0, share.bytes_per_second, share.ops_per_second);
    pass(NSEC_PER_SEC);
    struct done before = crowd_done(&alice);
    pass(4 * NSEC_PER_SEC);
    struct done after = crowd_done(&alice);
    if (share.ops_per_second)
        holds(after.ops - before.ops, (double)share.ops_per_second, 4);
    else
        holds(after.bytes - before.bytes, (double)share.bytes_per_second, 4);
}

static void alice_alone(unsigned sessions, unsigned rings) {
    crowd_up(&alice, ALICE, sessions, rings);
    crowd_up(&bob, BOB, 1, 1);
    bob.stopped = true;
}

static void rate_of_bytes(uint64_t lease, uint64_t size, uint64_t rate) {
    alice_alone(4, 1);
    crowd_does(&alice, RDMAD_OP_WRITE, lease, size);
    alice_is_held_to((struct plane_share){.bytes_per_second = rate});
    struct plane_user_stats stats;
    plane_user_stats(rig.plane[HERE], crowd_user(ALICE), &stats);
    cr_assert_gt(stats.throttled_ns, 3 * NSEC_PER_SEC);
    cr_assert_lt(stats.throttled_ns, 5 * NSEC_PER_SEC + 1);
    cr_assert_gt(stats.throttled, 100);
}

Test(share, a_rate_of_bytes_holds_locally_and_may_change) {
    rate_of_bytes(LOCAL, 64 * 1024, 20 * 1000 * 1000);
    alice_is_held_to((struct plane_share){.bytes_per_second = 5 * 1000 * 1000});
    crowds_down();
}

/* However often it is put aside. */
Test(share, that_a_user_is_throttled_is_told_once_a_minute_of_each_rate) {
    rate_of_bytes(LOCAL, 64 * 1024, 20 * 1000 * 1000);
    cr_assert_eq(rig.throttled[PLANE_RATE_BYTES], 1, "%u", rig.throttled[PLANE_RATE_BYTES]);
    cr_assert_eq(rig.throttled[PLANE_RATE_OPS], 0);
    cr_assert_eq(rig.throttled_uid, ALICE);
    pass(54 * NSEC_PER_SEC);
    cr_assert_eq(rig.throttled[PLANE_RATE_BYTES], 1);
    pass(2 * NSEC_PER_SEC);
    cr_assert_eq(rig.throttled[PLANE_RATE_BYTES], 2, "%u", rig.throttled[PLANE_RATE_BYTES]);
    set_share(ALICE, 100, 0, 0, 100);
    pass(2 * NSEC_PER_SEC);
    cr_assert_eq(rig.throttled[PLANE_RATE_OPS], 1);
    cr_assert_eq(rig.throttled[PLANE_RATE_BYTES], 2);
    set_share(ALICE, 100, 0, 0, 0);
    crowds_down();
}

static uint64_t alice_owes_ns(void) {
    const struct op_account *a = account_find(&rig.plane[HERE]->accounts, crowd_user(ALICE));
    return a ? clock_left(sim_now(), a->bytes_due_ns) : 0;
}

Test(share, who_goes_and_comes_again_owes_what_it_owed_and_a_new_rate_forgives_but_a_second) {
    alice_alone(1, 1);
    crowd_does(&alice, RDMAD_OP_WRITE, LOCAL, 64 * 1024);
    set_share(ALICE, 100, 0, 10 * 1000, 0);
    pass(10 * NSEC_PER_MSEC);
    cr_assert_gt(alice_owes_ns(), 5 * NSEC_PER_SEC);
    forget_share(ALICE); /* nobody tells it again */
    crowd_down(&alice);
    crowd_up(&alice, ALICE, 1, 1);
    cr_assert_gt(alice_owes_ns(), 5 * NSEC_PER_SEC, "coming again forgives what is owed");
    set_share(ALICE, 100, 0, 1000 * 1000, 0);
    rig_settle(&rig);
    cr_assert_leq(alice_owes_ns(), NSEC_PER_SEC);
    cr_assert_gt(alice_owes_ns(), NSEC_PER_SEC / 2, "a new rate forgives everything");
    crowds_down();
}

Test(share, a_rate_of_bytes_holds_over_a_link) {
    rate_of_bytes(REMOTE, 64 * 1024, 20 * 1000 * 1000);
    crowds_down();
}

Test(share, a_rate_of_bytes_holds_for_small_ops) {
    rate_of_bytes(LOCAL, 100, 1000 * 1000);
    crowds_down();
}

/* What was taken is paid for, and moves though more is asked for all the time. */
Test(share, a_rate_of_ops_holds_for_short_ones_and_long) {
    alice_alone(4, 1);
    crowd_does(&alice, RDMAD_OP_NOP, 0, 0);
    alice_is_held_to((struct plane_share){.ops_per_second = 3000});
    crowd_does(&alice, RDMAD_OP_WRITE, REMOTE, 64 * 1024);
    alice_is_held_to((struct plane_share){.ops_per_second = 100});
    crowd_does(&alice, RDMAD_OP_WRITE, REMOTE, 400 * 1000);
    alice_is_held_to((struct plane_share){.ops_per_second = 10, .bytes_per_second = 5000 * 1000});
    crowds_down();
}

Test(share, who_is_beyond_a_rate_keeps_nobody_else_from_anything) {
    both(4, 1, RDMAD_OP_WRITE, LOCAL, 4096);
    set_share(ALICE, 100, 0, 1000 * 1000, 0);
    bob.stopped = true;
    pass(100 * NSEC_PER_MSEC);
    bob.stopped = false;
    struct done before = crowd_done(&bob);
    saturate(100);
    cr_assert_geq(crowd_done(&bob).ops - before.ops, 100 * 60);
    crowds_down();
}

/* A suite of its own, because a suite's init cannot be taken back. */
Test(share_of_workers, a_rate_is_that_of_all_workers_together) {
    crowds_up(3);
    alice_alone(6, 1);
    crowd_does(&alice, RDMAD_OP_WRITE, LOCAL, 10000);
    alice_is_held_to((struct plane_share){.bytes_per_second = 10 * 1000 * 1000});
    crowds_down();
}

/* ---- tenants ----------------------------------------------------------------------------- */

/* In containers everybody may have the same uid: alice and bob are told apart by their sockets. */
static void setup_tenants(void) {
    crowds_are_tenants();
    crowds_up(1);
}

TestSuite(tenants, .init = setup_tenants, .timeout = 120);

Test(tenants, of_one_uid_have_shares_by_the_weight_of_each) {
    both(1, MANY, RDMAD_OP_WRITE, LOCAL, 64 * 1024);
    is_about(ratio_of(2000).bytes, 3);
    set_share(ALICE, 100, 0, 0, 0);
    is_about(ratio_of(2000).bytes, 1);
    crowds_down();
}

Test(tenants, and_of_a_link) {
    sim_script()->max_inflight = 8;
    both(1, MANY, RDMAD_OP_WRITE, REMOTE, 64 * 1024);
    is_about(ratio_of(20000).bytes, 3);
    crowds_down();
}

/* What the one owes its rate the other does not, and both rates hold at once. */
Test(tenants, of_one_uid_have_rates_of_their_own) {
    crowd_up(&alice, ALICE, 4, 1);
    crowd_up(&bob, BOB, 4, 1);
    crowd_does(&alice, RDMAD_OP_WRITE, LOCAL, 64 * 1024);
    crowd_does(&bob, RDMAD_OP_WRITE, LOCAL, 64 * 1024);
    set_share(ALICE, 100, 0, 5 * 1000 * 1000, 0);
    set_share(BOB, 100, 0, 20 * 1000 * 1000, 0);
    pass(NSEC_PER_SEC);
    struct done a = crowd_done(&alice), b = crowd_done(&bob);
    pass(4 * NSEC_PER_SEC);
    holds(crowd_done(&alice).bytes - a.bytes, 5e6, 4);
    holds(crowd_done(&bob).bytes - b.bytes, 20e6, 4);
    struct plane_user_stats his, hers;
    plane_user_stats(rig.plane[HERE], crowd_user(BOB), &his);
    plane_user_stats(rig.plane[HERE], crowd_user(ALICE), &hers);
    cr_assert_eq(hers.share.bytes_per_second, 5 * 1000 * 1000);
    cr_assert_eq(his.share.bytes_per_second, 20 * 1000 * 1000);
    bob.stopped = true;
    set_share(BOB, 100, 0, 0, 0);
    pass(NSEC_PER_SEC);
    plane_user_stats(rig.plane[HERE], crowd_user(BOB), &his);
    b = crowd_done(&bob);
    bob.stopped = false;
    saturate(200);
    cr_assert_gt(crowd_done(&bob).bytes - b.bytes, 100e6, "bob is held to alice's rate");
    struct plane_user_stats later;
    plane_user_stats(rig.plane[HERE], crowd_user(BOB), &later);
    cr_assert_eq(later.throttled, his.throttled);
    crowds_down();
}

/* ---- what a small op waits for ----------------------------------------------------------- */

static uint64_t placed, first_wait;

static void count_placed(void *base, uint64_t offset, uint64_t bytes) {
    (void)base, (void)offset;
    placed += bytes;
}

static uint64_t audited(void) {
    return bob.audit->bytes_written;
}

/* Bytes of bob's that went before a small op of a's. */
static uint64_t wait_of_small(const struct crowd *a, uint64_t lease, uint64_t (*moved)(void)) {
    struct rdmad_sqe small = {
        .opcode = RDMAD_OP_WRITE, .pool = RIG_HANDLE(0), .lease = lease, .length = 8};
    struct rdmad_cqe cqe;
    uint64_t before = moved();
    rig_put(&a->of[0].c, &small);
    crowd_fill(&bob);
    unsigned turns = 0;
    while (!rig_take(&a->of[0].c, &cqe)) {
        worker_turn(&rig.plane[HERE]->worker[0], sim_now());
        worker_turn(&rig.plane[THERE]->worker[0], sim_now());
        sim_advance(100);
        cr_assert_lt(turns++, 10000u);
    }
    cr_assert_eq(cqe.status, 0);
    return moved() - before;
}

/* The same at the worst of 50, under ASan of 10. */
static uint64_t worst_wait(uint64_t lease, uint64_t (*moved)(void)) {
    crowd_up(&alice, ALICE, 1, 1);
    crowd_up(&bob, BOB, MANY, 8);
    crowd_does(&bob, RDMAD_OP_WRITE, lease, BYTES);
    alice.stopped = true, bob.at_once = lease == LOCAL ? 8 : 0; /* one does not fit into a poll */
    saturate(20);
    uint64_t worst = 0;
    for (unsigned n = 0; n < RIG_COUNT(50); n++) {
        uint64_t wait = wait_of_small(&alice, lease, moved);
        if (n == 0) /* it comes to a link that another user had for itself */
            first_wait = wait;
        else if (wait > worst)
            worst = wait;
        saturate(n % 3);
    }
    return worst;
}

Test(share, a_small_op_waits_for_one_poll_beside_8_rings_of_64_sessions) {
    uint64_t worst = worst_wait(LOCAL, audited);
    cr_assert_leq(worst, 768u * 1024, "%lu bytes", (unsigned long)worst);
    crowds_down();
}

static uint64_t all_placed(void) {
    return placed;
}

Test(share, a_small_op_waits_for_what_is_posted_ahead_on_a_link) {
    sim_script()->placed = count_placed;
    sim_script()->chunk = 64 * 1024;
    sim_script()->max_inflight = 1024;
    uint64_t worst = worst_wait(REMOTE, all_placed);
    cr_assert_leq(first_wait, 20u << 20, "%lu bytes", (unsigned long)first_wait);
    cr_assert_leq(worst, 3u << 20, "%lu bytes", (unsigned long)worst);
    crowds_down();
}

/* Bytes that are posted on the link and not back. */
static uint64_t posted_ahead(const struct crowd *crowd) {
    list_for_each (pos, &crowd->of[0].c.session->op.shares) {
        const struct op_route *route = list_entry(pos, struct op_share, node)->flow->route;
        if (!route->local)
            return route->ahead;
    }
    return 0;
}

/* More moves better. Once somebody has come with a small op it is as little as ever, until nobody
 * has for a while. */
Test(share, more_is_posted_ahead_where_several_users_move_much_and_nobody_is_small) {
    struct crowd carol;
    sim_script()->placed = count_placed;
    sim_script()->chunk = 64 * 1024;
    sim_script()->max_inflight = 1024;
    crowd_up(&carol, 1003, 1, 1);
    both(1, 8, RDMAD_OP_WRITE, REMOTE, BYTES);
    for (unsigned n = 0; n < 2; n++) {
        saturate(1000); /* what one had to itself is moved */
        uint64_t much = posted_ahead(&bob);
        (void)wait_of_small(&carol, REMOTE, all_placed);
        saturate(1000);
        uint64_t little = posted_ahead(&bob);
        cr_expect(much > 3u << 20 && much <= 5u << 20, "%lu bytes", (unsigned long)much);
        cr_expect_leq(little, 3u << 19, "%lu bytes", (unsigned long)little);
        sim_advance(NSEC_PER_SEC);
    }
    crowd_down(&carol);
    crowds_down();
}

/* ---- peers ------------------------------------------------------------------------------- */

static uint64_t not_kept_for;

static int keeps_nothing(struct fabric *f, uint64_t peer, const struct fabric_share *share) {
    (void)f;
    (void)share;
    not_kept_for = peer;
    return RDMAD_E_NOMEM;
}

/* Its rates are not held: whoever set them is told so. */
Test(share, a_peers_share_that_there_is_no_memory_for_is_in_the_log) {
    struct plane *p = rig.plane[HERE];
    struct op_fabric *fabric = &p->worker[0].links[0];
    const struct fabric_ops *was = fabric->ops;
    struct fabric_ops without_memory = *was;
    const struct plane_share share = {.weight = 100, .bytes_per_second = 1000000};
    char said[512] = "";
    int log = memfd_create("log", MFD_CLOEXEC), err = dup(STDERR_FILENO);
    without_memory.peer_share = keeps_nothing;
    fabric->ops = &without_memory;
    log_init(LOG_NOTICE, 1);
    cr_assert(log >= 0 && err >= 0 && dup2(log, STDERR_FILENO) >= 0);
    cr_assert_eq(plane_peer_share(p, 77, &share), 0);
    rig_settle(&rig);
    dup2(err, STDERR_FILENO);
    fabric->ops = was;
    cr_assert_eq(not_kept_for, 77);
    cr_assert(pread(log, said, sizeof(said) - 1, 0) > 0, "nothing was said");
    cr_assert(strstr(said, "warning: peer 77: out of memory for its weight and rates"), "%s", said);
    close(log);
    close(err);
}
