/* SPDX-License-Identifier: MIT */
/* Rings whose ops are under way and on which nothing is new (rings.c): they are looked at seldom.
 */
#include "daemon/op/engine/user.h"
#include "tests/unit/op_rig.h"
#include <criterion/criterion.h>

#define BYTES (64u << 10)
#define REMOTE RIG_HANDLE(3)
#define STEP_NS (10 * NSEC_PER_MSEC)

enum { MANY = 40, STILL_LOOKS = 4, QUIET_LOOKS = 32 };

static struct rig rig;
static struct rig_client of[MANY];
static struct rig_remote remote;
static uint8_t far[BYTES];
static const struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP};

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 23);
    rig_remote_up(&rig, &remote, far, BYTES, RDMAD_RIGHTS_ALL, CLOCK_NEVER);
    for (unsigned i = 0; i < MANY; i++) {
        rig_client_up(&rig, &of[i], 8, 0, BYTES);
        rig_lease(&of[i], &remote, REMOTE, 900, RDMAD_RIGHTS_ALL);
    }
    rig_settle(&rig);
    sim_script()->delay_min_ns = sim_script()->delay_max_ns = STEP_NS;
    sim_script()->max_inflight = MANY;
}

TestSuite(still, .init = setup, .timeout = 60);

static void down(void) {
    for (unsigned i = 0; i < MANY; i++)
        rig_client_down(&of[i]);
    rig_remote_down(&rig, &remote);
    cr_assert_eq(rig.violated, 0);
    rig_down(&rig);
}

static struct worker *here(void) {
    return &rig.plane[HERE]->worker[0];
}

static struct op_ring *ring_of(unsigned i) {
    return of[i].ring->owner;
}

static void turn_here(unsigned turns) {
    for (unsigned n = 0; n < turns; n++)
        worker_turn(here(), sim_now());
}

static void put_on_each(const struct rdmad_sqe *sqe) {
    for (unsigned i = 0; i < MANY; i++)
        rig_put(&of[i], sqe);
}

static unsigned take_all(void) {
    unsigned taken = 0;
    for (unsigned i = 0; i < MANY; i++)
        for (struct rdmad_cqe cqe; rig_take(&of[i], &cqe); taken++)
            cr_assert_eq(cqe.status, 0);
    return taken;
}

static struct rdmad_sqe write_of(uint64_t length) {
    return (struct rdmad_sqe){
        .opcode = RDMAD_OP_WRITE, .pool = RIG_HANDLE(0), .lease = REMOTE, .length = length};
}

static void write_on_each(uint64_t length) {
    const struct rdmad_sqe sqe = write_of(length);
    put_on_each(&sqe);
    turn_here(MANY / QUIET_LOOKS + 1);
}

static void grow_old(void) {
    sim_advance(NSEC_PER_MSEC);
    turn_here(8);
}

/* All but a few are, with a write under way. */
static void become_still(void) {
    grow_old();
    unsigned still = 0;
    for (unsigned i = 0; i < MANY; i++)
        still += ring_of(i)->still;
    cr_assert_eq(still, MANY - STILL_LOOKS);
}

static void answer_each(void) {
    for (unsigned step = 0; step < 4; step++) {
        sim_advance(STEP_NS);
        worker_turn(&rig.plane[THERE]->worker[0], sim_now());
    }
    turn_here(3);
}

static void are_seen_as_quiet_ones(void) {
    put_on_each(&nop);
    turn_here(MANY / QUIET_LOOKS + 1);
    unsigned seen = take_all();
    cr_assert_eq(seen, MANY, "%u were looked at", seen);
}

Test(still, few_are_looked_at_in_a_turn_and_none_is_left_out) {
    write_on_each(64);
    turn_here(8);
    put_on_each(&nop);
    turn_here(MANY / QUIET_LOOKS + 1);
    cr_assert_eq(take_all(), MANY, "they have only just had an sqe");
    become_still();
    put_on_each(&nop);
    turn_here(1);
    unsigned seen = take_all();
    cr_assert(seen >= STILL_LOOKS && seen <= 2 * STILL_LOOKS, "%u in a turn", seen);
    turn_here(MANY / STILL_LOOKS);
    cr_assert_eq(seen + take_all(), MANY);
    answer_each();
    cr_assert_eq(take_all(), MANY);
    down();
}

Test(still, with_its_answer_a_ring_is_looked_at_as_often_as_before) {
    write_on_each(64);
    become_still();
    answer_each();
    cr_assert_eq(take_all(), MANY);
    are_seen_as_quiet_ones();
    down();
}

/* The first op of a batch ends, of which its client hears with the last one's end. */
Test(still, and_so_it_is_when_nothing_was_told) {
    struct rdmad_sqe first = write_of(64);
    first.flags = RDMAD_SQE_MORE;
    put_on_each(&first);
    turn_here(8);
    become_still();
    answer_each();
    cr_assert_eq(take_all(), 0);
    write_on_each(64);
    for (unsigned i = 0; i < MANY; i++)
        cr_assert_eq(of[i].daemon->sq_head, 2);
    down();
}

Test(still, rings_that_only_wait_are_not) {
    for (unsigned i = 0; i < MANY; i++) {
        rig_grant(&of[i], 1 + i);
        rig_put(&of[i], &(struct rdmad_sqe){.opcode = RDMAD_OP_NOTIFIED, .lease = 1 + i});
    }
    rig_settle(&rig);
    grow_old();
    for (unsigned i = 0; i < MANY; i++)
        cr_assert(ring_of(i)->inflight == 1 && !ring_of(i)->still);
    are_seen_as_quiet_ones();
    down();
}

Test(still, one_session_with_many_does_not_make_the_others_wait) {
    struct rig_client more[MANY];
    const struct rdmad_sqe sqe = write_of(64);
    sim_script()->max_inflight = 2 * MANY;
    for (unsigned i = 0; i < MANY; i++) {
        rig_ring_up(&of[0], &more[i], 8, 0);
        rig_put(&more[i], &sqe);
    }
    write_on_each(64);
    grow_old();
    put_on_each(&nop);
    turn_here(MANY / STILL_LOOKS + 1);
    unsigned seen = take_all();
    cr_assert_geq(seen, MANY - 1, "%u were looked at", seen);
    answer_each();
    down();
    for (unsigned i = 0; i < MANY; i++)
        rig_ring_free(&more[i]);
}

Test(still, they_keep_no_worker_awake_and_are_seen_after_its_sleep) {
    write_on_each(64);
    become_still();
    cr_assert(rings_park_all(here()));
    for (unsigned i = 0; i < MANY; i++)
        cr_assert(ring_of(i)->parked && !ring_of(i)->still);
    put_on_each(&nop);
    for (unsigned i = 0; i < MANY; i++)
        rings_wake(here(), ring_of(i));
    turn_here(1);
    cr_assert_eq(take_all(), MANY);
    answer_each();
    cr_assert_eq(take_all(), MANY);
    down();
}

Test(still, no_worker_sleeps_while_one_of_them_has_something) {
    write_on_each(64);
    become_still();
    unsigned last = MANY - 1;
    while (!ring_of(last)->still)
        last--;
    rig_put(&of[last], &nop);
    cr_assert_not(rings_park_all(here()));
    rig_settle(&rig);
    cr_assert_eq(take_all(), 1);
    down();
}

static void steer(unsigned i, bool pause) {
    struct rig_answer answer = {0};
    plane_session_pause(of[i].session, pause, rig_done, &answer);
    turn_here(1);
    cr_assert_eq(rig_await(&rig, &answer), 0);
}

/* Of the others those beyond count are paused, which is as good as if they were not there. */
static unsigned leave_others(unsigned count) {
    unsigned last = MANY, left = 0;
    for (unsigned i = 0; i < MANY; i++)
        if (!ring_of(i)->still && left++ < count)
            last = i;
        else if (!ring_of(i)->still)
            steer(i, true);
    return last;
}

static void put_on_still(void) {
    unsigned still = 0;
    for (unsigned i = 0; i < MANY; i++)
        if (ring_of(i)->still && ++still)
            rig_put(&of[i], &nop);
    cr_assert_eq(still, MANY - STILL_LOOKS);
}

static void are_seen_beside(struct rig_client *other) {
    unsigned seen = 0;
    for (unsigned turn = 0; other && turn < MANY; turn++) {
        rig_put(other, &nop);
        turn_here(1);
        cr_assert_eq(take_all(), 1);
    }
    put_on_still();
    for (unsigned turn = 0; turn < MANY; turn++) {
        if (other)
            rig_put(other, &nop);
        turn_here(1);
        seen += take_all();
    }
    cr_assert_eq(seen, MANY - STILL_LOOKS + (other ? MANY : 0));
}

Test(still, they_are_seen_beside_the_only_one_that_is_not) {
    write_on_each(64);
    become_still();
    are_seen_beside(&of[leave_others(1)]);
    answer_each();
    down();
}

Test(still, and_if_there_is_no_other) {
    write_on_each(64);
    become_still();
    leave_others(0);
    are_seen_beside(NULL);
    answer_each();
    down();
}

Test(still, nothing_is_taken_from_one_that_is_paused) {
    write_on_each(64);
    become_still();
    for (unsigned i = 0; i < MANY; i++)
        steer(i, true);
    put_on_each(&nop);
    answer_each();
    turn_here(MANY);
    cr_assert_eq(take_all(), MANY, "more than what was under way");
    for (unsigned i = 0; i < MANY; i++)
        steer(i, false);
    rig_settle(&rig);
    cr_assert_eq(take_all(), MANY);
    down();
}

/* Each has two writes under way, and the first is answered while it waits for the second. */
static void two_on_each(void) {
    sim_script()->max_inflight = 2 * MANY;
    sim_script()->lazy_cancel = true;
    write_on_each(64);
    sim_advance(STEP_NS / 2);
    write_on_each(64);
    become_still();
    sim_script()->delay_min_ns = NSEC_PER_MSEC; /* how long a cancel takes */
}

static void nothing_is_taken_until(struct rig_answer gone[MANY]) {
    turn_here(1);
    put_on_each(&nop);
    for (unsigned left = 1; left;) {
        left = 0;
        rig_step(&rig, sim_now() + NSEC_PER_MSEC);
        for (unsigned i = 0; i < MANY; i++) {
            if (gone[i].done)
                continue;
            left++;
            cr_assert(list_empty(&ring_of(i)->node));
        }
    }
    for (unsigned i = 0; i < MANY; i++)
        cr_assert(gone[i].result.code == 0 && of[i].daemon->sq_head == 2);
}

Test(still, nothing_is_taken_from_one_that_was_dropped) {
    struct rig_answer gone[MANY] = {0};
    const struct op_user *u = ring_of(0)->session->user;
    two_on_each();
    for (unsigned i = 0; i < MANY; i++)
        plane_ring_drop(of[i].session, RIG_HANDLE(0), rig_done, &gone[i]);
    nothing_is_taken_until(gone);
    cr_assert_not(user_is_polled(u));
    down();
}

Test(still, nor_from_those_of_a_session_that_ends) {
    struct rig_answer gone[MANY] = {0};
    two_on_each();
    for (unsigned i = 0; i < MANY; i++)
        plane_session_drop(of[i].session, rig_done, &gone[i]);
    nothing_is_taken_until(gone);
    for (unsigned i = 0; i < MANY; i++)
        rig_client_free(&of[i]);
    rig_remote_down(&rig, &remote);
    cr_assert_eq(rig.violated, 0);
    rig_down(&rig);
}

Test(still, those_of_a_user_that_its_rate_puts_aside_are_seen) {
    struct plane_share share = PLANE_SHARE_DEFAULT;
    share.bytes_per_second = BYTES;
    write_on_each(BYTES);
    become_still();
    leave_others(0);
    cr_assert_eq(plane_user_share(rig.plane[HERE], (struct user_id){.uid = rig.uid}, &share), 0);
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    put_on_still();
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    cr_assert_eq(take_all(), MANY - STILL_LOOKS);
    cr_assert_gt(rig.throttled[PLANE_RATE_BYTES], 0);
    down();
}
