/* SPDX-License-Identifier: MIT */
/* A session leaves for the next daemon: what it has not sent then is not sent here any more,
 * however late a way for its channels comes to be. */
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>

#define POOL (4u << 20)
#define SMALL 100u
#define AT (POOL / 2)

static struct rig rig;
static struct chan c;

static void start(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 8);
}

static void done(void) {
    sim_script()->hold_sends = false;
    chan_down(&c);
    rig_down(&rig);
}

TestSuite(channel_leave, .init = start, .timeout = 60);

static void send(int end, unsigned i) {
    chan_put(&c, end, RDMAD_OP_SEND, i, SMALL, 100 + i);
}
static void receive(int end, unsigned i) {
    chan_put(&c, end, RDMAD_OP_RECV, AT + (uint64_t)i * SMALL, SMALL, i);
}

static void run(void) {
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
}

static bool silent(int end) {
    struct rdmad_cqe cqe;
    run();
    return !chan_take(&c, end, &cqe);
}

static void part(int end) {
    struct rig_answer parted = {0};
    plane_session_part(c.end[end].client.session, rig_done, &parted);
    cr_assert_eq(rig_await(&rig, &parted), 0);
}

static bool leaves(int end) {
    struct rig_answer left = {0};
    plane_session_leave(c.end[end].client.session, rig_done, &left);
    cr_assert_eq(rig_await(&rig, &left), 0);
    return plane_session_has_left(c.end[end].client.session);
}

/* ---- between two daemons -------------------------------------------------------------------- */

static void remote_up(void) {
    chan_remote_up(&rig, &c, POOL);
    receive(A, 0);
    receive(B, 0);
    receive(B, 1);
    run();
}

Test(channel_leave, what_is_on_its_way_is_known_when_both_have_parted) {
    struct rig_answer parted = {0};
    remote_up();
    sim_script()->hold_sends = true;
    send(A, 0);
    run();
    plane_session_part(c.end[A].client.session, rig_done, &parted);
    run();
    cr_assert_not(parted.done);
    sim_script()->hold_sends = false;
    cr_assert_eq(rig_await(&rig, &parted), 0);
    ASSERT_CQE(chan_wait(&c, A), 100, RDMAD_OK, RDMAD_DONE, SMALL);
    ASSERT_CQE(chan_wait(&c, B), 0, RDMAD_OK, RDMAD_DONE, SMALL);
    send(A, 1);
    send(B, 2);
    cr_assert(silent(A) && silent(B));
    cr_assert(leaves(A));
    cr_assert(silent(A));
    cr_assert_eq(c.end[A].stats.sends_waiting, 1);
    done();
}

/* It would be refused, and would be on its way when the other end leaves. */
Test(channel_leave, nothing_is_sent_to_an_end_that_has_parted) {
    remote_up();
    part(B);
    send(A, 0);
    cr_assert(silent(A) && silent(B));
    cr_assert(list_empty(&chan_of(&c, A)->out.sent),
              "it counts on the receives of an end that leaves");
    cr_assert(leaves(B));
    done();
}

Test(channel_leave, what_is_on_its_way_to_a_peer_that_does_not_answer_is_unknown) {
    struct rig_answer parted = {0};
    remote_up();
    sim_script()->hold_sends = true;
    send(A, 0);
    run();
    plane_session_part(c.end[A].client.session, rig_done, &parted);
    send(A, 1);
    cr_assert(silent(A));
    cr_assert_not(parted.done);
    cr_assert(leaves(A));
    ASSERT_CQE(chan_wait(&c, A), 100, RDMAD_E_PEER_LOST, RDMAD_UNKNOWN, 0);
    cr_assert_eq(rig_await(&rig, &parted), 0);
    cr_assert(silent(A));
    cr_assert_eq(c.end[A].stats.sends_waiting, 1);
    done();
}

/* The next daemon does not know what came before it. */
Test(channel_leave, what_is_linked_to_one_that_is_not_sent_ends_with_it) {
    struct rig_answer dropped = {0};
    struct rdmad_sqe sqe = chan_sqe(RDMAD_OP_SEND, 0, SMALL, 100);
    chan_remote_up(&rig, &c, POOL);
    sqe.flags = RDMAD_SQE_LINK;
    rig_put(&c.end[A].client, &sqe); /* nobody receives it */
    send(A, 1);
    run();
    part(A);
    cr_assert(leaves(A));
    plane_session_drop(c.end[A].client.session, rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    ASSERT_CQE(chan_wait(&c, A), 100, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED, 0);
    ASSERT_CQE(chan_wait(&c, A), 101, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED, 0);
    rig_client_free(&c.end[A].client);
    c.end[A].client.session = NULL;
    done();
}

/* Nor does it of one that waited behind a fence: who is told of the second is told of the first. */
Test(channel_leave, a_link_behind_a_fence_ends_with_what_is_linked_to_it) {
    struct rig_answer dropped = {0};
    struct rdmad_sqe sqe = chan_sqe(RDMAD_OP_SEND, 0, SMALL, 101);
    chan_remote_up(&rig, &c, POOL);
    send(A, 0); /* nobody receives it */
    sqe.flags = RDMAD_SQE_LINK | RDMAD_SQE_FENCE;
    rig_put(&c.end[A].client, &sqe);
    send(A, 2);
    run();
    part(A);
    cr_assert(leaves(A));
    plane_session_drop(c.end[A].client.session, rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    ASSERT_CQE(chan_wait(&c, A), 101, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED, 0);
    ASSERT_CQE(chan_wait(&c, A), 102, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED, 0);
    rig_client_free(&c.end[A].client);
    c.end[A].client.session = NULL;
    done();
}

/* The link has started meanwhile, so it is told of after what waits for it. */
Test(channel_leave, what_waits_for_a_link_under_way_is_not_sent_by_the_next_daemon) {
    struct rig_answer dropped = {0};
    struct rdmad_sqe sqe = chan_sqe(RDMAD_OP_SEND, 0, SMALL, 101);
    chan_remote_up(&rig, &c, POOL);
    send(A, 0);
    sqe.flags = RDMAD_SQE_LINK | RDMAD_SQE_FENCE;
    rig_put(&c.end[A].client, &sqe);
    send(A, 2);
    chan_put(&c, B, RDMAD_OP_RECV, AT, SMALL, 1); /* for the first alone */
    ASSERT_CQE(chan_wait(&c, A), 100, RDMAD_OK, RDMAD_DONE, SMALL);
    run();
    part(A);
    cr_assert(leaves(A));
    plane_session_drop(c.end[A].client.session, rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    unsigned told = 0;
    for (struct rdmad_cqe cqe; chan_take(&c, A, &cqe); told++)
        cr_expect_eq(cqe.status, RDMAD_E_CANCELED, "%d", cqe.status);
    cr_expect_eq(told, 2, "what follows is the next daemon's");
    rig_client_free(&c.end[A].client);
    c.end[A].client.session = NULL;
    done();
}

/* A turn lets go of what waits for it before the session is dropped. */
Test(channel_leave, what_follows_a_link_that_broke_is_not_the_next_daemons) {
    struct rig_answer dropped = {0};
    struct rdmad_cqe cqe[2] = {{.status = RDMAD_OK}};
    struct rdmad_sqe link = chan_sqe(RDMAD_OP_SEND, 0, SMALL, 100);
    chan_remote_up(&rig, &c, POOL);
    link.flags = RDMAD_SQE_LINK;
    link.timeout_ns = 10 * NSEC_PER_MSEC;
    rig_put(&c.end[A].client, &link); /* nobody receives it */
    send(A, 1);
    run();
    part(A);
    cr_assert(leaves(A));
    rig_run_until(&rig, sim_now() + 20 * NSEC_PER_MSEC);
    plane_session_drop(c.end[A].client.session, rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    unsigned told = 0;
    while (told < 2 && chan_take(&c, A, &cqe[told]))
        told++;
    cr_expect_eq(told, 2, "what follows is the next daemon's");
    ASSERT_CQE(cqe[0], 100, RDMAD_E_TIMEOUT, RDMAD_FAILED_UNTOUCHED, 0);
    if (told == 2)
        ASSERT_CQE(cqe[1], 101, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED, 0);
    rig_client_free(&c.end[A].client);
    c.end[A].client.session = NULL;
    done();
}

/* The other end has come back meanwhile, and has a receive for it. */
static void found(bool parted_before, bool left_before) {
    remote_up();
    chan_rest(&c, A);
    chan_rest(&c, B);
    send(A, 0);
    if (parted_before)
        part(A);
    if (left_before)
        cr_assert(leaves(A));
    chan_way(&c, A);
    chan_way(&c, B);
    chan_open(&c);
    chan_connect(&c, A);
    chan_connect(&c, B);
    cr_assert(silent(B), "it is sent here, and will be sent by the next daemon, too");
    cr_assert(silent(A));
    if (!left_before)
        cr_assert(leaves(A));
    cr_assert_eq(c.end[A].stats.sends_waiting, 1);
    cr_assert(silent(A) && silent(B));
    done();
}

Test(channel_leave, nothing_is_sent_by_a_way_that_comes_when_it_has_left) {
    found(true, true);
}

Test(channel_leave, nothing_is_sent_by_a_way_that_comes_when_it_has_parted) {
    found(true, false);
}

/* ---- within a daemon ------------------------------------------------------------------------ */

/* Two ends that were added without a way, and get one to each other. */
static void meet(void) {
    for (int end = A; end <= B; end++) {
        struct rig_answer there = {0};
        c.end[end].number += 5000;
        plane_channel_way(c.end[end].client.session, CHAN_HANDLE, c.end[end].number, NULL, 0,
                          rig_done, &there);
        cr_assert_eq(rig_await(&rig, &there), 0);
    }
    chan_open(&c);
}

Test(channel_leave, ends_on_one_daemon_that_meet_too_late_say_nothing) {
    c = (struct chan){.rig = &rig};
    for (int end = A; end <= B; end++) {
        c.end[end].where = HERE;
        c.end[end].number = 1000 + (unsigned)end;
        rig_client_on(&rig, HERE, &c.end[end].client, 256, 512, POOL);
        chan_add(&c, end);
        receive(end, 0);
        send(end, 0);
    }
    part(A);
    part(B);
    meet();
    cr_assert(silent(A) && silent(B), "it is sent here, and will be sent by the next daemon, too");
    cr_assert(leaves(A) && leaves(B));
    cr_assert(silent(A) && silent(B));
    done();
}
