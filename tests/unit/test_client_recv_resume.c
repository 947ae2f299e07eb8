/* SPDX-License-Identifier: MIT */
/* librdmad's receives when one daemon goes and the next comes. */
#include "libclient/base/session.h" /* first: its parameters are named as our globals */

#include "tests/unit/away_rig.h"
#include <criterion/criterion.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

TestSuite(recv_resume, .init = away_set_up, .fini = rig_tear_down, .timeout = 30);

static void submit_cancel(uint64_t target, uint64_t user_data) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    cr_assert_eq(rdmad_prep_cancel(ring, sqe, target, user_data), 0);
    cr_assert_eq(rdmad_ring_submit(ring), 1);
}

static void lose(void) {
    struct rdmad_event e;
    away.refuse_session = RDMAD_E_PERM;
    fake_come_back(&fake);
    e = away_next_event();
    cr_assert_eq(e.type, RDMAD_EVENT_SESSION_LOST, "%u: %s", e.type, e.text);
}

static void expect_recv(uint64_t user_data) {
    struct rdmad_sqe sqe = away_take();
    cr_assert_eq(sqe.opcode, RDMAD_OP_RECV);
    cr_assert_eq(sqe.lease, 41);
    cr_assert_eq(sqe.pool, FAKE_POOL);
    cr_assert_eq(sqe.pool_offset, AWAY_RECEIVES + 64 * user_data, "offset %llu",
                 (unsigned long long)sqe.pool_offset);
    cr_assert_eq(sqe.length, 64);
    away_answer(&sqe, 0, RDMAD_DONE);
    cr_assert_eq(rig_reap().user_data, user_data);
}

/* ---- receives ------------------------------------------------------------------------------- */

Test(recv_resume, a_receive_that_was_taken_is_given_to_the_next_daemon) {
    away_submit_recv(1);
    struct rdmad_sqe old = away_take();
    away_go();
    away_come_back();
    struct rdmad_sqe new = away_take();
    cr_assert_eq(memcmp(&old, &new, sizeof(new)), 0);
    away_answer(&new, 0, RDMAD_DONE);
    away_expect_end(1, 0, RDMAD_DONE);
    away_submit_recv(2); /* in the same slot, which knows nothing of the one before */
    new = away_take();
    away_answer(&new, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    away_expect_end(2, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(recv_resume, what_cannot_have_come_costs_the_session) {
    away_submit_recv(1);
    struct rdmad_sqe sqe = away_take();
    struct rdmad_cqe cqe = {.user_data = sqe.user_data, .bytes = sqe.length, .opcode = sqe.opcode};
    fake_ring_complete(away_newest(), &cqe);
    cr_expect_eq(rig_reap().bytes, 64);
    away_submit_recv(2);
    sqe = away_take();
    cqe = (struct rdmad_cqe){
        .user_data = sqe.user_data, .bytes = sqe.length + 1, .opcode = sqe.opcode};
    fake_ring_complete(away_newest(), &cqe);
    struct rdmad_cqe got = rig_reap();
    cr_expect_eq(got.status, RDMAD_E_DAEMON_LOST, "%llu bytes came", (unsigned long long)got.bytes);
    cr_expect_not_null(strstr(s->lost_text, "room"), "%s", s->lost_text);
}

/* Else it would be given to that one twice, and two messages would come to its buffer. */
Test(recv_resume, a_receive_whose_ring_waited_for_a_daemon_is_given_to_it_once) {
    away_submit_recv(1);
    away_take();
    away_go();
    unsigned rings = away_count_of(&fake.nrings);
    away.go_for_ring = true; /* of the next daemon; the one after it makes the ring */
    fake_come_back(&fake);
    away_await_resumed();
    for (unsigned i = 0; i < 5000 && away_count_of(&fake.nrings) == rings; i++) {
        rig_expect_nothing(); /* it does not wait for the second one */
        usleep(1000);
    }
    rig_expect_nothing();
    cr_assert_eq(away_count_of(&fake.nrings), rings + 1, "the ring was made %u times",
                 away_count_of(&fake.nrings) - rings);
    struct rdmad_sqe sqe = away_take();
    away_answer(&sqe, 0, RDMAD_DONE);
    away_expect_end(1, 0, RDMAD_DONE);
}

static rdmad_lease *grant(void) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_lease *granted;
    cr_assert_eq(rdmad_lease_grant(s, memory, 64, &terms, &granted), 0, "%s", rdmad_last_error(s));
    return granted;
}

Test(recv_resume, a_wait_for_a_notice_is_given_to_the_next_daemon) {
    rdmad_lease *granted = grant();
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    cr_assert_eq(rdmad_prep_notified(ring, sqe, granted, 5), 0);
    sqe->timeout_ns = 7000000000;
    cr_assert_eq(rdmad_ring_submit(ring), 1);
    struct rdmad_sqe old = away_take();
    away_go();
    away_come_back();
    struct rdmad_sqe new = away_take();
    cr_assert_eq(memcmp(&old, &new, sizeof(new)), 0);
    away_answer(&new, 0, RDMAD_DONE);
    away_expect_end(5, 0, RDMAD_DONE);
}

/* Slots are free in another order than that of the entries. */
static void shuffle(unsigned turns) {
    struct rdmad_sqe sqe[3];
    for (unsigned i = 0; i < 3; i++)
        rig_submit_write(90 + i);
    for (unsigned i = 0; i < 3; i++)
        sqe[i] = rig_take();
    for (unsigned i = 0; i < 3; i++) {
        rig_complete(&sqe[(i + 1) % 3], 0);
        rig_reap();
    }
    for (; turns > 0; turns--) {
        rig_submit_write(99);
        sqe[0] = rig_take();
        rig_complete(&sqe[0], 0);
        rig_reap();
    }
}

/* As many as there are entries: two that were taken, one submitted meanwhile, one just reserved.
 * The first two are not where they were: behind them was a write, which is over. */
static void full_ring_goes_on(unsigned turns) {
    shuffle(turns);
    away_submit_recv(1);
    away_submit_recv(2);
    rig_submit_write(89);
    away_take();
    away_take();
    struct rdmad_sqe write = away_take();
    away_answer(&write, 0, RDMAD_DONE);
    away_expect_end(89, 0, RDMAD_DONE);
    away_go();
    away_submit_recv(3);
    away_prep_recv(4);
    away_come_back();
    cr_assert_eq(rdmad_ring_submit(ring), 1);
    cr_assert_null(rdmad_ring_reserve(ring));
    for (uint64_t i = 1; i <= 4; i++)
        expect_recv(i);
    cr_assert_not(fake_ring_has(away_newest()));
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(recv_resume, a_full_ring_goes_on_in_order_from_its_beginning) {
    full_ring_goes_on(1);
}

Test(recv_resume, a_full_ring_goes_on_in_order_from_its_second_entry) {
    full_ring_goes_on(2);
}

Test(recv_resume, a_full_ring_goes_on_in_order_from_its_third_entry) {
    full_ring_goes_on(3);
}

Test(recv_resume, a_full_ring_goes_on_in_order_from_its_last_entry) {
    full_ring_goes_on(4);
}

Test(recv_resume, receives_are_kept_as_often_as_daemons_go) {
    shuffle(0);
    for (uint64_t i = 1; i <= 3; i++)
        away_submit_recv(i);
    for (unsigned i = 0; i < 3; i++)
        away_take();
    away_go();
    away_come_back();
    away_go(); /* this one has looked at nothing */
    away_come_back();
    expect_recv(1);
    away_take();
    away_submit_recv(4);
    away_go();
    fake_come_back(&fake);
    away_await_resumed();
    fake_go(&fake); /* nobody has looked at the ring meanwhile */
    while (rdmad_is_open(s))
        usleep(100);
    away_come_back();
    for (uint64_t i = 2; i <= 4; i++)
        expect_recv(i);
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(recv_resume, receives_come_before_what_a_stopping_daemon_has_not_taken) {
    away_submit_recv(1);
    away_submit_recv(2);
    rig_submit_write(3);
    away_take();
    __atomic_store_n(&away_newest()->daemon->sq_left, 1, __ATOMIC_RELEASE);
    away_go();
    away_come_back();
    expect_recv(1);
    expect_recv(2);
    struct rdmad_sqe sqe = away_take();
    cr_assert_eq(sqe.opcode, RDMAD_OP_WRITE);
    away_answer(&sqe, 0, RDMAD_DONE);
    away_expect_end(3, 0, RDMAD_DONE);
}

Test(recv_resume, a_buffer_that_a_daemon_had_may_be_partly_written) {
    away_submit_recv(1);
    away_submit_recv(2);
    away_take();
    away_take();
    away_go();
    away_submit_recv(3);
    away_come_back();
    struct rdmad_sqe first = away_take();
    away_answer(&first, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    away_expect_end(1, RDMAD_E_CANCELED, RDMAD_FAILED_PARTIAL);
    __atomic_store_n(&away_newest()->daemon->sq_left, 1, __ATOMIC_RELEASE);
    away_go();
    lose();
    away_expect_end(2, RDMAD_E_DAEMON_LOST, RDMAD_FAILED_PARTIAL);
    away_expect_end(3, RDMAD_E_DAEMON_LOST, RDMAD_FAILED_UNTOUCHED);
}

Test(recv_resume, receives_end_with_a_session_that_is_lost) {
    away_submit_recv(1);
    away_take();
    away_go();
    lose();
    away_expect_end(1, RDMAD_E_DAEMON_LOST, RDMAD_FAILED_PARTIAL);
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(recv_resume, sends_and_writes_that_were_taken_end_unknown) {
    away_submit_send(1);
    rig_submit_write(2);
    away_take();
    away_take();
    fake_go(&fake);
    away_expect_end(1, RDMAD_E_DAEMON_LOST, RDMAD_UNKNOWN);
    away_expect_end(2, RDMAD_E_DAEMON_LOST, RDMAD_UNKNOWN);
    away_come_back();
    cr_assert_not(fake_ring_has(away_newest()));
}

Test(recv_resume, a_receive_in_a_batch_ends) {
    away_prep_recv(1)->flags |= RDMAD_SQE_MORE;
    away_prep_recv(2);
    cr_assert_eq(rdmad_ring_submit(ring), 2);
    away_take();
    away_take();
    fake_go(&fake);
    away_expect_end(2, RDMAD_E_DAEMON_LOST, RDMAD_FAILED_PARTIAL);
    away_come_back();
    cr_assert_not(fake_ring_has(away_newest()));
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(recv_resume, the_rest_of_a_batch_is_not_taken_for_a_receive) {
    away_submit_recv(1);
    rig_prep_write(2)->flags |= RDMAD_SQE_MORE;
    cr_assert_eq(rdmad_ring_submit(ring), 1);
    away_take();
    away_take();
    away_go();
    rig_prep_write(3);
    cr_assert_eq(rdmad_ring_submit(ring), RDMAD_E_DAEMON_LOST);
    away_expect_end(3, RDMAD_E_DAEMON_LOST, RDMAD_UNKNOWN);
    away_come_back();
    expect_recv(1);
    cr_assert_not(fake_ring_has(away_newest()));
}

/* Of a batch whose first entry went with its daemon the rest is not submitted. */
static void cut_a_batch(void) {
    rig_prep_write(2)->flags |= RDMAD_SQE_MORE;
    cr_assert_eq(rdmad_ring_submit(ring), 2);
    away_take();
    away_take();
    away_go();
    fake_come_back(&fake);
    away_await_resumed();
}

static void complete_the_batch(void) {
    rig_prep_write(3);
    cr_assert_eq(rdmad_ring_submit(ring), RDMAD_E_DAEMON_LOST);
    away_expect_end(3, RDMAD_E_DAEMON_LOST, RDMAD_UNKNOWN);
    rig_expect_nothing();
}

Test(recv_resume, a_wait_for_a_receive_ends_if_a_cut_batch_comes_before_it) {
    const struct rdmad_cqe *cqe;
    away_prep_recv(1);
    cut_a_batch();
    cr_assert_eq(rdmad_ring_wait(ring, 20000, &cqe), RDMAD_E_INVAL);
    cr_assert(strstr(rdmad_last_error(s), "its batch of 1 entries"), "%s", rdmad_last_error(s));
    complete_the_batch();
    expect_recv(1);
}

static void count_call(void *calls, const struct rdmad_cqe *cqe) {
    *(unsigned *)calls += cqe->status == 0;
}

Test(recv_resume, a_dispatch_ends_if_a_cut_batch_comes_before_its_receive) {
    unsigned calls = 0;
    cr_assert_eq(rdmad_sqe_set_callback(ring, away_prep_recv(1), count_call, &calls), 0);
    cut_a_batch();
    cr_assert_eq(rdmad_ring_dispatch(ring, 0, 0), 0);
    cr_assert_eq(rdmad_ring_dispatch(ring, 20000, 0), RDMAD_E_INVAL);
    complete_the_batch();
    struct rdmad_sqe sqe = away_take();
    away_answer(&sqe, 0, RDMAD_DONE);
    cr_assert_eq(rdmad_ring_dispatch(ring, 20000, 0), 1);
    cr_assert_eq(calls, 1);
}

/* ---- cancels -------------------------------------------------------------------------------- */

Test(recv_resume, a_cancel_goes_with_the_receive_that_it_names) {
    away_submit_recv(1);
    submit_cancel(1, 2);
    away_take();
    away_take();
    away_go();
    submit_cancel(1, 3);
    away_come_back();
    struct rdmad_sqe recv = away_take(), kept = away_take(), later = away_take();
    cr_assert_eq(recv.opcode, RDMAD_OP_RECV);
    cr_assert_eq(kept.opcode, RDMAD_OP_CANCEL);
    cr_assert_eq(kept.lease, recv.user_data);
    cr_assert_eq(later.opcode, RDMAD_OP_CANCEL);
    cr_assert_eq(later.lease, recv.user_data);
    away_answer(&kept, 0, RDMAD_DONE);
    away_expect_end(2, 0, RDMAD_DONE);
    away_answer(&recv, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    away_expect_end(1, RDMAD_E_CANCELED, RDMAD_FAILED_PARTIAL);
    away_answer(&later, RDMAD_E_HANDLE, RDMAD_FAILED_UNTOUCHED);
    away_expect_end(3, RDMAD_E_HANDLE, RDMAD_FAILED_UNTOUCHED);
}

Test(recv_resume, a_cancel_of_anything_else_ends) {
    away_submit_send(1);
    submit_cancel(1, 2);
    away_submit_recv(3);
    for (unsigned i = 0; i < 3; i++)
        away_take();
    fake_go(&fake);
    cr_assert_eq(rig_reap().status, RDMAD_E_DAEMON_LOST);
    cr_assert_eq(rig_reap().status, RDMAD_E_DAEMON_LOST);
    away_come_back();
    expect_recv(3);
    cr_assert_not(fake_ring_has(away_newest()));
}

Test(recv_resume, a_receive_whose_cancel_is_done_ends) {
    away_submit_recv(1);
    submit_cancel(1, 2);
    away_take();
    struct rdmad_sqe cancel = away_take();
    away_answer(&cancel, 0, RDMAD_DONE);
    away_expect_end(2, 0, RDMAD_DONE);
    fake_go(&fake);
    away_expect_end(1, RDMAD_E_DAEMON_LOST, RDMAD_FAILED_PARTIAL);
    away_come_back();
    away_submit_recv(3); /* in the same slot */
    away_take();
    away_go();
}

static void *take_and_cancel(void *unused) {
    (void)unused;
    struct rdmad_sqe recv = away_take(), cancel = away_take();
    cr_assert_eq(cancel.lease, recv.user_data);
    fake_go(&fake);
    usleep(300000);
    fake_come_back(&fake);
    while (away_count_of(&fake.nrings) < 2)
        usleep(100);
    recv = away_take();
    cancel = away_take();
    cr_assert_eq(cancel.lease, recv.user_data);
    away_answer(&cancel, 0, RDMAD_DONE);
    away_answer(&recv, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    return NULL;
}

Test(recv_resume, a_blocking_cancel_sleeps_and_asks_the_next_daemon) {
    struct timespec used;
    struct rdmad_cqe cqe;
    pthread_t t;
    away_submit_recv(1);
    pthread_create(&t, NULL, take_and_cancel, NULL);
    cr_assert_eq(rdmad_ring_cancel(ring, 1, &cqe), 0, "%s", rdmad_last_error(s));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    pthread_join(t, NULL);
    cr_assert_eq(cqe.status, RDMAD_E_CANCELED);
    cr_assert(used.tv_sec == 0 && used.tv_nsec < 150000000, "%ld ns", used.tv_nsec);
    rig_expect_nothing();
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

static void *receive(void *rc) {
    *(int *)rc = rdmad_recv(channel, memory, 64, -1, NULL);
    return NULL;
}

Test(recv_resume, a_blocking_receive_just_goes_on) {
    int rc = 1;
    pthread_t t;
    pthread_create(&t, NULL, receive, &rc);
    while (away_count_of(&fake.nrings) < 2)
        usleep(100);
    away_take();
    fake_go(&fake);
    usleep(20000);
    fake_come_back(&fake);
    while (away_count_of(&fake.nrings) < 3)
        usleep(100);
    struct rdmad_sqe sqe = away_take();
    cr_assert_eq(sqe.opcode, RDMAD_OP_RECV);
    away_answer(&sqe, 0, RDMAD_DONE);
    pthread_join(t, NULL);
    cr_assert_eq(rc, 0, "%d: %s", rc, rdmad_last_error(s));
}
