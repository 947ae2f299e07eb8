/* SPDX-License-Identifier: MIT */
/* Windows that take their time to open and to close, opened anew, and closed at any moment. */
#include "tests/unit/op_rig.h"
#include <criterion/criterion.h>
#include <string.h>

#define BYTES 65536u
#define REMOTE RIG_HANDLE(3)

static struct rig rig;
static struct rig_client c;
static struct rig_remote remote;
static uint8_t far[BYTES], copy[BYTES];
static struct rig_answer opened, closed, second;

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 17);
    sim_script()->lazy_windows = true;
    sim_script()->chunk = 512;
    rig_client_up(&rig, &c, 64, 128, BYTES);
    rig_remote_up(&rig, &remote, far, BYTES, RDMAD_RIGHTS_ALL, CLOCK_NEVER);
    rig_lease(&c, &remote, REMOTE, 900, RDMAD_RIGHTS_ALL);
    memset(c.pool, 'p', BYTES);
    memset(far, 'f', BYTES);
    memset(&opened, 0, sizeof(opened));
    memset(&closed, 0, sizeof(closed));
    memset(&second, 0, sizeof(second));
}

TestSuite(windows, .init = setup, .timeout = 60);

static void down(void) {
    rig_client_down(&c);
    rig_remote_down(&rig, &remote);
    rig_down(&rig);
}

static struct rdmad_sqe write_of(uint64_t length) {
    return (struct rdmad_sqe){
        .opcode = RDMAD_OP_WRITE, .pool = RIG_HANDLE(0), .lease = REMOTE, .length = length};
}

static int write_now(uint64_t length) {
    struct rdmad_sqe sqe = write_of(length);
    return rig_do(&c, &sqe).status;
}

static void close_remote(void) {
    plane_window_close(remote.window, RDMAD_E_LEASE_REVOKED, rig_done, &closed);
    remote.window = NULL;
}

static struct plane_window *open_another(struct rig_answer *answer) {
    struct fabric_window_spec spec = {.peer = RIG_PEER,
                                      .via = plane_lane_number(remote.lane),
                                      .base = far,
                                      .length = BYTES,
                                      .rights = RDMAD_RIGHTS_ALL,
                                      .deadline_ns = CLOCK_NEVER,
                                      .audit = &remote.audit};
    return plane_window_open(rig.plane[THERE], rig.fabric, &spec, NULL, rig_blob, answer);
}

Test(windows, a_lazy_window_has_its_key_when_it_is_open) {
    uint64_t at = sim_now();
    struct plane_window *window = open_another(&opened);
    rig_settle(&rig);
    cr_assert_not(opened.done);
    cr_assert_eq(rig_await(&rig, &opened), 0);
    cr_assert_gt(sim_now(), at);
    remote.key = opened.blob;
    rig_key(&c, &remote, REMOTE);
    cr_assert_eq(write_now(64), 0);
    plane_window_close(window, RDMAD_E_LEASE_REVOKED, rig_done, &closed);
    cr_assert_eq(rig_await(&rig, &closed), 0);
    down();
}

Test(windows, close_is_done_when_the_last_byte_has_moved_and_not_before) {
    struct rdmad_sqe sqe = write_of(BYTES);
    rig_put(&c, &sqe);
    rig_run_until(&rig, sim_now() + 20000);
    sim_script()->delay_max_ns = 200000;
    close_remote();
    rig_settle(&rig);
    cr_assert_not(closed.done);
    memcpy(copy, far, BYTES);
    cr_assert_eq(rig_await(&rig, &closed), 0);
    cr_assert_neq(memcmp(copy, far, BYTES), 0, "sim was not slow enough for this to show");
    memcpy(copy, far, BYTES);
    cr_assert_eq(rig_wait(&c).status, RDMAD_E_LEASE_REVOKED);
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    cr_assert_eq(memcmp(copy, far, BYTES), 0, "a byte came after the close");
    down();
}

Test(windows, one_closed_while_it_opens_answers_the_open_first) {
    struct plane_window *window = open_another(&opened);
    rig_settle(&rig);
    plane_window_extend(window, sim_now() + NSEC_PER_SEC);
    plane_window_close(window, RDMAD_E_LEASE_REVOKED, rig_done, &closed);
    rig_settle(&rig);
    cr_assert(opened.done && opened.result.code == RDMAD_E_CANCELED);
    cr_assert_not(closed.done);
    cr_assert_eq(rig_await(&rig, &closed), 0);
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
    down();
}

Test(windows, one_that_does_not_open_says_why_and_may_be_tried_again) {
    for (int lazy = 0; lazy < 2; lazy++) {
        struct rig_answer failed = {0}, again = {0}, gone = {0};
        sim_script()->lazy_windows = lazy;
        sim_script()->refuse_windows = true;
        struct plane_window *window = open_another(&failed);
        cr_assert_eq(rig_await(&rig, &failed), RDMAD_E_LIMIT);
        sim_script()->refuse_windows = false;
        plane_window_reopen(window, plane_lane_number(remote.lane), rig_blob, &again);
        cr_assert_eq(rig_await(&rig, &again), 0);
        remote.key = again.blob;
        rig_key(&c, &remote, REMOTE);
        cr_assert_eq(write_now(64), 0);
        plane_window_close(window, RDMAD_E_LEASE_REVOKED, rig_done, &gone);
        cr_assert_eq(rig_await(&rig, &gone), 0);
    }
    struct plane_window *window;
    sim_script()->refuse_windows = true;
    window = open_another(&opened);
    cr_assert_eq(rig_await(&rig, &opened), RDMAD_E_LIMIT);
    plane_window_close(window, RDMAD_E_LEASE_REVOKED, rig_done, &closed);
    cr_assert_eq(rig_await(&rig, &closed), 0, "on failure still close it");
    sim_script()->refuse_windows = false;
    down();
}

Test(windows, after_a_reopen_only_the_new_key_is_good_and_only_on_its_link) {
    struct fabric_blob old = remote.key;
    cr_assert_eq(write_now(100), 0);
    uint64_t link = plane_lane_number(remote.lane);
    plane_window_reopen(remote.window, link, rig_blob, &opened);
    rig_settle(&rig);
    cr_assert_not(opened.done);
    cr_assert_eq(rig_await(&rig, &opened), 0);
    remote.key = old;
    rig_key(&c, &remote, REMOTE);
    cr_assert_eq(write_now(100), RDMAD_E_NO_LEASE);
    remote.key = opened.blob;
    rig_key(&c, &remote, REMOTE);
    cr_assert_eq(write_now(100), 0);
    plane_window_reopen(remote.window, link + 1000, rig_blob, &second);
    cr_assert_eq(rig_await(&rig, &second), 0);
    remote.key = second.blob;
    rig_key(&c, &remote, REMOTE);
    cr_assert_eq(write_now(100), RDMAD_E_NO_LEASE, "a key of another link");
    cr_assert_eq(remote.audit.bytes_written, 200, "the audit is one");
    down();
}

Test(windows, a_deadline_set_before_or_during_a_reopen_holds_after_it) {
    for (int during = 0; during < 2; during++) {
        struct rig_answer again = {0};
        uint64_t deadline_ns = sim_now() + NSEC_PER_SEC;
        uint64_t link = plane_lane_number(remote.lane);
        if (!during)
            plane_window_extend(remote.window, deadline_ns);
        plane_window_reopen(remote.window, link, rig_blob, &again);
        if (during) {
            rig_step(&rig, deadline_ns); /* closed, and being opened */
            cr_assert_not(again.done);
            plane_window_extend(remote.window, deadline_ns);
        }
        cr_assert_eq(rig_await(&rig, &again), 0);
        remote.key = again.blob;
        rig_key(&c, &remote, REMOTE);
        cr_assert_eq(write_now(100), 0);
        rig_run_until(&rig, deadline_ns);
        cr_assert_eq(write_now(100), RDMAD_E_LEASE_EXPIRED);
        plane_window_extend(remote.window, CLOCK_NEVER);
        cr_assert_eq(write_now(100), 0);
    }
    down();
}

/* In each half of it, and in the turn in which it is asked for. */
Test(windows, one_closed_during_a_reopen_answers_the_reopen_first) {
    for (unsigned steps = 0; steps < 3; steps++) {
        struct rig_answer first = {0}, again = {0}, gone = {0};
        struct plane_window *window = open_another(&first);
        cr_assert_eq(rig_await(&rig, &first), 0);
        plane_window_reopen(window, plane_lane_number(remote.lane), rig_blob, &again);
        for (unsigned i = 0; i < steps; i++) {
            rig_settle(&rig);
            if (i > 0)
                rig_step(&rig, sim_now() + NSEC_PER_SEC);
        }
        cr_assert_not(again.done);
        plane_window_close(window, RDMAD_E_LEASE_REVOKED, rig_done, &gone);
        rig_settle(&rig);
        cr_assert(again.done && again.result.code == RDMAD_E_CANCELED);
        cr_assert_not(gone.done);
        cr_assert_eq(rig_await(&rig, &gone), 0);
    }
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
    down();
}

Test(windows, a_reopen_during_an_open_is_refused) {
    struct plane_window *window = open_another(&opened);
    plane_window_reopen(window, 1, rig_blob, &second);
    cr_assert_eq(rig_await(&rig, &second), RDMAD_E_INVAL);
    cr_assert_eq(rig_await(&rig, &opened), 0);
    plane_window_close(window, RDMAD_E_LEASE_REVOKED, rig_done, &closed);
    cr_assert_eq(rig_await(&rig, &closed), 0);
    down();
}

/* A stale WRITE of a link that was given up must not land after newer ones: the window it was for
 * is closed before there is a key for the next link. */
Test(windows, what_an_old_link_left_behind_cannot_land_after_a_rebuild) {
    struct rdmad_sqe sqe = write_of(BYTES);
    rig_put(&c, &sqe);
    rig_run_until(&rig, sim_now() + 20000);
    rig_break(&rig);
    cr_assert_eq(rig_wait(&c).status, RDMAD_E_PEER_LOST);
    struct fabric_blob old = remote.key;
    rig_rebuild(&rig, &remote);
    cr_assert_neq(memcmp(&old, &remote.key, sizeof(old)), 0);
    rig_key(&c, &remote, REMOTE);
    memset(c.pool, 'q', BYTES);
    cr_assert_eq(write_now(BYTES), 0);
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    for (size_t i = 0; i < BYTES; i++)
        cr_assert_eq(far[i], 'q');
    down();
}

Test(windows, a_peers_word_that_a_link_is_closed_is_passed_on_where_it_matters) {
    plane_forget(rig.plane[THERE], rig.fabric, RIG_PEER, plane_lane_number(remote.lane), rig_done,
                 &closed);
    cr_assert_eq(rig_await(&rig, &closed), 0);
    down();
}
