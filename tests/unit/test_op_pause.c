/* SPDX-License-Identifier: MIT */
/* A paused session: nothing is taken from its rings, and everything else goes on. */
#include "tests/unit/op_rig.h"
#include <criterion/criterion.h>
#include <string.h>

#define BYTES (256u * 1024u)
#define REMOTE RIG_HANDLE(3)

static struct rig rig;
static struct rig_client c, second;
static struct rig_remote remote;
static uint8_t far[BYTES];

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    settings.max_session_ops = 4;
    rig_up(&rig, &settings, 11);
    sim_script()->chunk = 512;
    rig_client_up(&rig, &c, 64, 128, BYTES);
    rig_remote_up(&rig, &remote, far, BYTES, RDMAD_RIGHTS_ALL, sim_now() + 600 * NSEC_PER_SEC);
    rig_lease(&c, &remote, REMOTE, 900, RDMAD_RIGHTS_ALL);
    memset(c.pool, 'p', BYTES);
}

TestSuite(pause, .init = setup, .timeout = 60);

static void down(void) {
    rig_client_down(&c);
    rig_remote_down(&rig, &remote);
    cr_assert_eq(rig.violated, 0);
    rig_down(&rig);
}

static const struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP};

static struct rdmad_sqe write_of(uint64_t length) {
    return (struct rdmad_sqe){
        .opcode = RDMAD_OP_WRITE, .pool = RIG_HANDLE(0), .lease = REMOTE, .length = length};
}

static void steer(bool pause) {
    struct rig_answer answer = {0};
    plane_session_pause(c.session, pause, rig_done, &answer);
    cr_assert_eq(rig_await(&rig, &answer), 0);
}

static void nothing_comes(struct rig_client *from) {
    struct rdmad_cqe cqe;
    rig_run_until(&rig, sim_now() + 2 * NSEC_PER_SEC);
    cr_assert_not(rig_take(from, &cqe), "something was taken from a paused session's ring");
}

Test(pause, nothing_is_taken_until_the_resume_and_then_all_of_it) {
    steer(true);
    for (int i = 0; i < 5; i++)
        rig_put(&c, &nop);
    nothing_comes(&c);
    steer(false);
    for (int i = 0; i < 5; i++)
        cr_assert_eq(rig_wait(&c).status, 0);
    down();
}

Test(pause, a_ring_that_sleeps_is_paused_too_and_its_doorbell_wakes_nobody) {
    struct worker *w = &rig.plane[HERE]->worker[0];
    struct op_ring *r = c.ring->owner;
    rig_settle(&rig);
    if (!r->parked)
        cr_assert(rings_park(w, r));
    steer(true);
    rig_put(&c, &nop);
    cr_assert_not(r->parked);
    cr_assert(rings_park_all(w), "a paused ring keeps the worker awake");
    nothing_comes(&c);
    steer(false);
    cr_assert_eq(rig_wait(&c).status, 0);
    down();
}

Test(pause, a_ring_made_in_the_pause_is_paused) {
    steer(true);
    rig_ring_up(&c, &second, 16, 16);
    rig_put(&second, &nop);
    nothing_comes(&second);
    steer(false);
    cr_assert_eq(rig_wait(&second).status, 0);
    rig_client_down(&c);
    rig_ring_free(&second);
    rig_remote_down(&rig, &remote);
    rig_down(&rig);
}

Test(pause, what_was_taken_goes_on_to_its_end) {
    struct rdmad_sqe sqe = write_of(BYTES);
    rig_put(&c, &sqe);
    rig_run_until(&rig, sim_now() + 20000);
    cr_assert_gt(sim_inflight(), 0);
    steer(true);
    cr_assert_eq(rig_wait(&c).status, 0);
    cr_assert_eq(far[BYTES - 1], 'p');
    down();
}

/* An op that ends makes room for others of its session: not in a pause. */
Test(pause, the_end_of_an_op_lets_no_other_in) {
    struct rdmad_sqe sqe = write_of(BYTES);
    for (int i = 0; i < 6; i++)
        rig_put(&c, &sqe);
    rig_run_until(&rig, sim_now() + 20000);
    steer(true);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(rig_wait(&c).status, 0);
    nothing_comes(&c);
    steer(false);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(rig_wait(&c).status, 0);
    down();
}

Test(pause, the_time_of_an_op_begins_when_it_is_taken) {
    struct rdmad_sqe sqe = write_of(64);
    sqe.timeout_ns = NSEC_PER_MSEC;
    steer(true);
    rig_put(&c, &sqe);
    nothing_comes(&c);
    steer(false);
    cr_assert_eq(rig_wait(&c).status, 0, "two seconds of pause were held against it");
    down();
}

Test(pause, a_deadline_is_kept_in_the_pause) {
    struct rdmad_sqe sqe = write_of(64);
    sim_script()->lose_request_ppm = 1000000;
    sqe.timeout_ns = NSEC_PER_MSEC;
    rig_put(&c, &sqe);
    rig_settle(&rig);
    uint64_t end_ns = sim_now() + NSEC_PER_MSEC;
    steer(true);
    cr_assert_eq(rig_wait(&c).status, RDMAD_E_TIMEOUT);
    cr_assert_leq(sim_now(), end_ns);
    down();
}

Test(pause, a_paused_session_ends_like_any_other) {
    struct rdmad_sqe sqe = write_of(BYTES);
    for (int i = 0; i < 6; i++)
        rig_put(&c, &sqe);
    rig_run_until(&rig, sim_now() + 20000);
    steer(true);
    down();
}

Test(pause, pausing_twice_needs_one_resume_and_a_resume_alone_is_harmless) {
    steer(false);
    rig_put(&c, &nop);
    cr_assert_eq(rig_wait(&c).status, 0);
    steer(true);
    steer(true);
    rig_put(&c, &nop);
    nothing_comes(&c);
    steer(false);
    cr_assert_eq(rig_wait(&c).status, 0);
    down();
}
