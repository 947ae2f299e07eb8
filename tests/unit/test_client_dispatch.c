/* SPDX-License-Identifier: MIT */
/* librdmad's callbacks. */
#include "tests/unit/client_rig.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(dispatch, .init = rig_set_up, .fini = rig_tear_down, .timeout = 20);

static unsigned calls;
static uint64_t called_with;
static char said[300];

static void note(void *arg, const struct rdmad_cqe *cqe) {
    cr_assert_eq(arg, &calls);
    calls++;
    called_with = cqe->user_data;
    rdmad_ring_explain(ring, cqe, said, sizeof(said));
}

static struct rdmad_sqe submit_with(rdmad_callback *callback, void *arg, uint64_t user_data) {
    struct rdmad_sqe *sqe = rig_prep_write(user_data);

    cr_assert_eq(rdmad_sqe_set_callback(ring, sqe, callback, arg), 0);
    cr_assert_eq(rdmad_ring_submit(ring), 1);
    return rig_take();
}

Test(dispatch, calls_back_with_the_completion) {
    struct rdmad_sqe sqe = submit_with(note, &calls, 5);

    rig_complete(&sqe, 0);
    cr_assert_eq(rdmad_ring_dispatch(ring, 1000, 0), 1);
    cr_assert_eq(calls, 1);
    cr_assert_eq(called_with, 5);
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(dispatch, peek_and_wait_do_not_see_what_has_a_callback) {
    const struct rdmad_cqe *cqe;
    struct rdmad_sqe with = submit_with(note, &calls, 5), without;

    rig_submit_write(6);
    without = rig_take();
    rig_complete(&with, 0);
    rig_complete(&without, 0);
    cr_assert_eq(rig_reap().user_data, 6);
    rig_expect_nothing();
    cr_assert_eq(rdmad_ring_wait(ring, -1, &cqe), RDMAD_E_INVAL);
    cr_assert_not_null(strstr(rdmad_last_error(s), "1 ops have a callback"), "%s",
                       rdmad_last_error(s));
    cr_assert_eq(calls, 0);
    cr_assert_eq(rdmad_ring_dispatch(ring, 0, 0), 1);
}

Test(dispatch, does_not_take_what_has_none) {
    struct rdmad_sqe with = submit_with(note, &calls, 5), without;

    rig_submit_write(6);
    without = rig_take();
    rig_complete(&without, 0);
    cr_assert_eq(rdmad_ring_dispatch(ring, 5, 0), 0, "the time passed");
    rig_complete(&with, 0);
    cr_assert_eq(rdmad_ring_dispatch(ring, -1, 0), 1);
    cr_assert_eq(rdmad_ring_dispatch(ring, -1, 0), RDMAD_E_INVAL);
    cr_assert_eq(rig_reap().user_data, 6);
}

Test(dispatch, calls_at_most_as_many_as_asked_for_and_in_order) {
    struct rdmad_sqe sqe[3];

    for (unsigned i = 0; i < 3; i++)
        sqe[i] = submit_with(note, &calls, i);
    for (unsigned i = 3; i-- > 0;)
        rig_complete(&sqe[i], 0);
    cr_assert_eq(rdmad_ring_dispatch(ring, 1000, 2), 2);
    cr_assert_eq(called_with, 1);
    cr_assert_eq(rdmad_ring_dispatch(ring, 1000, 2), 1);
    cr_assert_eq(called_with, 0);
}

static void again(void *arg, const struct rdmad_cqe *cqe) {
    struct rdmad_sqe sqe = submit_with(again, arg, cqe->user_data + 1);

    calls++;
    rig_complete(&sqe, 0);
}

Test(dispatch, a_callback_may_submit_the_next_on_a_full_ring) {
    struct rdmad_sqe sqe[RIG_ENTRIES];

    for (unsigned i = 0; i < RIG_ENTRIES; i++)
        sqe[i] = submit_with(again, NULL, i);
    cr_assert_eq(rig_free_entries(), 0);
    for (unsigned i = 0; i < RIG_ENTRIES; i++)
        rig_complete(&sqe[i], 0);
    for (unsigned round = 1; round < 100; round++) {
        cr_assert_eq(rdmad_ring_dispatch(ring, 1000, 0), RIG_ENTRIES, "and lets go");
        cr_assert_eq(calls, round * RIG_ENTRIES);
    }
}

Test(dispatch, a_callback_may_explain_what_failed) {
    struct rdmad_sqe sqe = submit_with(note, &calls, 5);

    rig_complete(&sqe, RDMAD_E_LEASE_REVOKED);
    cr_assert_eq(rdmad_ring_dispatch(ring, 1000, 0), 1);
    cr_assert_not_null(strstr(said, "write of 64 bytes to lease 7 failed"), "%s", said);
}

static void dispatch_within(void *arg, const struct rdmad_cqe *cqe) {
    (void)cqe;
    *(int *)arg = rdmad_ring_dispatch(ring, 0, 0);
}

Test(dispatch, a_callback_may_dispatch) {
    int inner = -1;
    struct rdmad_sqe outer = submit_with(dispatch_within, &inner, 1);
    struct rdmad_sqe other = submit_with(note, &calls, 2);

    rig_complete(&outer, 0);
    rig_complete(&other, 0);
    cr_assert_eq(rdmad_ring_dispatch(ring, 1000, 0), 1);
    cr_assert_eq(inner, 1);
    cr_assert_eq(calls, 1);
}

Test(dispatch, an_event_loop_is_told_to_dispatch) {
    struct rdmad_sqe sqe = submit_with(note, &calls, 1);

    cr_assert_eq(rdmad_ring_arm(ring), 0);
    rig_complete(&sqe, 0);
    cr_assert_eq(rdmad_ring_arm(ring), RDMAD_E_AGAIN);
    cr_assert_eq(rdmad_ring_dispatch(ring, 0, 0), 1);
    cr_assert_eq(rdmad_ring_arm(ring), 0);
}

Test(dispatch, silent_ops_that_are_done_are_not_called_back) {
    struct rdmad_sqe *sqe = rig_prep_write(1), sent;

    rdmad_sqe_set_flags(sqe, RDMAD_SQE_SILENT);
    rdmad_sqe_set_callback(ring, sqe, note, &calls);
    rdmad_ring_submit(ring);
    sent = rig_take();
    cr_assert_eq(rdmad_ring_dispatch(ring, 0, 0), 0);
    rig_complete(&sent, 0);
    cr_assert_eq(rdmad_ring_dispatch(ring, -1, 0), RDMAD_E_INVAL);
    cr_assert_eq(calls, 0);
}

Test(dispatch, a_dead_daemons_ops_are_called_back) {
    submit_with(note, &calls, 1);
    fake_hang_up(&fake);
    cr_assert_eq(rdmad_ring_dispatch(ring, -1, 0), 1);
    cr_assert_not_null(strstr(said, "rdmad was lost"), "%s", said);
    cr_assert_eq(rdmad_ring_dispatch(ring, -1, 0), RDMAD_E_DAEMON_LOST);
}

Test(dispatch, an_entry_that_is_not_reserved_takes_no_callback) {
    struct rdmad_sqe mine = {.opcode = 0};

    cr_assert_eq(rdmad_sqe_set_callback(ring, &mine, note, &calls), RDMAD_E_INVAL);
}

/* ---- what a callback may end --------------------------------------------------------------- */

static void destroy_ring(void *arg, const struct rdmad_cqe *cqe) {
    (void)arg;
    calls++;
    rdmad_ring_destroy(ring);
    called_with = cqe->user_data; /* valid until we return */
}

static void close_session(void *arg, const struct rdmad_cqe *cqe) {
    (void)arg;
    calls++;
    rdmad_close(s);
    s = NULL;
    called_with = cqe->user_data;
}

static void ends_in_a_callback(rdmad_callback *end) {
    struct rdmad_sqe sqe[3];

    for (unsigned i = 0; i < 3; i++)
        sqe[i] = submit_with(end, NULL, i);
    for (unsigned i = 0; i < 3; i++)
        rig_complete(&sqe[i], 0);
    cr_assert_eq(rdmad_ring_dispatch(ring, 1000, 0), 1);
    cr_assert_eq(calls, 1, "the others were called, too");
    cr_assert_eq(called_with, 0);
}

Test(dispatch, a_callback_may_destroy_its_ring) {
    ends_in_a_callback(destroy_ring);
}

Test(dispatch, a_callback_may_close_the_session) {
    ends_in_a_callback(close_session);
}

/* Dispatches what is left on the same ring, whose callback ends it. */
static void dispatch_again(void *arg, const struct rdmad_cqe *cqe) {
    (void)arg;
    (void)cqe;
    calls++;
    cr_assert_eq(rdmad_ring_dispatch(ring, 0, 0), 1);
}

static void ends_in_a_callback_in_a_callback(rdmad_callback *end) {
    struct rdmad_sqe sqe[3];

    for (unsigned i = 0; i < 3; i++)
        sqe[i] = submit_with(i ? end : dispatch_again, NULL, i);
    for (unsigned i = 0; i < 3; i++)
        rig_complete(&sqe[i], 0);
    cr_assert_eq(rdmad_ring_dispatch(ring, 1000, 0), 1);
    cr_assert_eq(calls, 2);
}

Test(dispatch, a_callback_in_a_callback_may_destroy_the_ring) {
    ends_in_a_callback_in_a_callback(destroy_ring);
}

Test(dispatch, a_callback_in_a_callback_may_close_the_session) {
    ends_in_a_callback_in_a_callback(close_session);
}

static rdmad_ring *other;

static void dispatch_ring(void *arg, const struct rdmad_cqe *cqe) {
    (void)cqe;
    calls++;
    cr_assert_eq(rdmad_ring_dispatch(*(rdmad_ring **)arg, 1000, 0), 1);
}

Test(dispatch, a_callback_of_one_ring_may_close_the_session_under_the_dispatch_of_another) {
    struct rdmad_sqe outer = submit_with(dispatch_ring, &other, 1), sqe;
    struct rdmad_sqe *entry;
    struct rdmad_cqe cqe = {.opcode = RDMAD_OP_NOP};

    cr_assert_eq(rdmad_ring_create(s, 2, &other), 0);
    entry = rdmad_ring_reserve(other);
    rdmad_prep_nop(other, entry, 7);
    cr_assert_eq(rdmad_sqe_set_callback(other, entry, close_session, NULL), 0);
    cr_assert_eq(rdmad_ring_submit(other), 1);
    cr_assert(fake_ring_take(&fake.rings[1], &sqe));
    cqe.user_data = sqe.user_data;
    fake_ring_complete(&fake.rings[1], &cqe);
    rig_complete(&outer, 0);
    cr_assert_eq(rdmad_ring_dispatch(ring, 1000, 0), 1);
    cr_assert_eq(calls, 2);
    cr_assert_eq(called_with, 7);
}
