/* SPDX-License-Identifier: MIT */
/* librdmad's chains (RDMAD_SQE_LINK) when one daemon goes and the next comes. */
#include "libclient/base/session.h" /* first: its parameters are named as our globals */

#include "tests/unit/away_rig.h"
#include <criterion/criterion.h>

TestSuite(chain_resume, .init = away_set_up, .fini = rig_tear_down, .timeout = 30);

static void submit_linked(uint64_t user_data) {
    rig_prep_write(user_data)->flags |= RDMAD_SQE_LINK;
    cr_assert_eq(rdmad_ring_submit(ring), 1);
}

static void submit_nop(uint64_t user_data) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    cr_assert_eq(rdmad_prep_nop(ring, sqe, user_data), 0);
    cr_assert_eq(rdmad_ring_submit(ring), 1);
}

/* The daemon goes, and has not said what became of what it took. */
static void go_and_come(uint64_t taken) {
    fake_go(&fake);
    away_expect_end(taken, RDMAD_E_DAEMON_LOST, RDMAD_UNKNOWN);
    away_come_back();
}

/* The next daemon can only refuse it. */
static struct rdmad_sqe expect_cut(uint64_t user_data) {
    struct rdmad_sqe sqe = away_take();
    cr_assert_eq(sqe.opcode, UINT8_MAX, "op %llu of kind %u would be executed",
                 (unsigned long long)user_data, sqe.opcode);
    away_answer(&sqe, RDMAD_E_INVAL, RDMAD_FAILED_UNTOUCHED);
    away_expect_end(user_data, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    return sqe;
}

static struct rdmad_sqe expect_done(uint64_t user_data) {
    struct rdmad_sqe sqe = away_take();
    cr_assert_eq(sqe.opcode, RDMAD_OP_WRITE, "op %llu", (unsigned long long)user_data);
    away_answer(&sqe, 0, RDMAD_DONE);
    away_expect_end(user_data, 0, RDMAD_DONE);
    return sqe;
}

Test(chain_resume, what_is_linked_to_one_that_went_with_its_daemon_is_not_done) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    submit_linked(1);
    away_take();
    fake_go(&fake);
    while (rdmad_is_open(s))
        cr_assert_eq(rdmad_next_event(s, 1, &e), RDMAD_E_TIMEOUT);
    submit_linked(2); /* while there is no daemon, and 1 has not ended yet */
    rig_submit_write(3);
    away_expect_end(1, RDMAD_E_DAEMON_LOST, RDMAD_UNKNOWN);
    away_come_back();
    cr_expect_eq(expect_cut(2).flags & RDMAD_SQE_LINK, RDMAD_SQE_LINK, "so 3 is canceled there");
    expect_done(3); /* by a daemon that has not done so */
    cr_expect_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(chain_resume, what_is_submitted_to_the_next_daemon_is_not_done_either) {
    submit_linked(1);
    away_take();
    go_and_come(1);
    away_submit_recv(9); /* comes between links as if it were not there */
    away_take();
    rig_submit_write(2);
    expect_cut(2);
    rig_submit_write(3);
    expect_done(3);
}

Test(chain_resume, what_is_linked_to_one_that_was_done_is_done) {
    submit_linked(1);
    expect_done(1);
    away_go();
    rig_submit_write(2);
    away_come_back();
    expect_done(2);
    rig_submit_write(3);
    expect_done(3);
}

Test(chain_resume, an_earlier_chain_that_broke_does_not_count) {
    submit_linked(1);
    struct rdmad_sqe sqe = away_take();
    away_answer(&sqe, RDMAD_E_TIMEOUT, RDMAD_FAILED_UNTOUCHED);
    away_expect_end(1, RDMAD_E_TIMEOUT, RDMAD_FAILED_UNTOUCHED);
    rig_submit_write(2);
    sqe = away_take();
    away_answer(&sqe, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    away_expect_end(2, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    submit_linked(3);
    expect_done(3);
    away_go();
    rig_submit_write(4);
    away_come_back();
    expect_done(4);
}

Test(chain_resume, a_nop_ends_a_chain_that_broke_with_its_daemon) {
    submit_linked(1);
    away_take();
    go_and_come(1);
    submit_nop(2);
    struct rdmad_sqe sqe = away_take();
    away_answer(&sqe, 0, RDMAD_DONE);
    away_expect_end(2, 0, RDMAD_DONE);
    rig_submit_write(3);
    expect_done(3);
    submit_linked(4);
    away_take();
    fake_go(&fake);
    away_expect_end(4, RDMAD_E_DAEMON_LOST, RDMAD_UNKNOWN);
    submit_nop(5);
    rig_submit_write(6);
    away_come_back();
    sqe = away_take();
    cr_assert_eq(sqe.opcode, RDMAD_OP_NOP);
    away_answer(&sqe, 0, RDMAD_DONE);
    away_expect_end(5, 0, RDMAD_DONE);
    expect_done(6);
}

/* It stops in good order: the first was taken and not done, the others are the next daemon's. */
Test(chain_resume, what_a_stopping_daemon_has_not_taken_follows_what_it_has) {
    submit_linked(1);
    submit_linked(2);
    rig_submit_write(3);
    struct rdmad_sqe sqe = away_take();
    away_answer(&sqe, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    away_expect_end(1, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    __atomic_store_n(&away_newest()->daemon->sq_left, 1, __ATOMIC_RELEASE);
    away_go();
    away_come_back();
    expect_cut(2);
    expect_done(3);
}

Test(chain_resume, a_batch_that_follows_is_canceled_whole) {
    struct rdmad_sqe sqe[3];
    submit_linked(1);
    away_take();
    fake_go(&fake);
    away_expect_end(1, RDMAD_E_DAEMON_LOST, RDMAD_UNKNOWN);
    for (unsigned i = 0; i < 3; i++)
        rig_prep_write(2 + i)->flags |= i < 2 ? RDMAD_SQE_MORE : 0;
    cr_assert_eq(rdmad_ring_submit(ring), 3);
    away_come_back();
    for (unsigned i = 0; i < 3; i++) {
        sqe[i] = away_take();
        cr_expect_eq(sqe[i].opcode, UINT8_MAX);
        cr_expect_eq(sqe[i].flags & RDMAD_SQE_MORE, i < 2 ? RDMAD_SQE_MORE : 0);
    }
    away_answer(&sqe[2], RDMAD_E_INVAL, RDMAD_FAILED_UNTOUCHED);
    away_expect_end(4, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    cr_expect_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(chain_resume, one_that_is_cut_is_known_to_have_done_nothing_whoever_goes_next) {
    submit_linked(1);
    away_take();
    go_and_come(1);
    submit_linked(2);
    away_take();
    fake_go(&fake);
    away_expect_end(2, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    rig_submit_write(3);
    away_come_back();
    expect_cut(3);
}
