/* SPDX-License-Identifier: MIT */
/* What a daemon that stops says it has not taken is the next one's, if it can be that. */
#include "libclient/base/session.h" /* first: its parameters are named as our globals */

#include "tests/unit/away_rig.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(left, .init = away_set_up, .fini = rig_tear_down, .timeout = 60);

/* It says that it has taken the entries before that one. */
static void leave(uint32_t from) {
    struct rdmad_ring_daemon *page = away_newest()->daemon;
    __atomic_store_n(&page->sq_head, from, __ATOMIC_RELEASE);
    __atomic_store_n(&page->sq_left, RDMAD_SQ_LEFT, __ATOMIC_RELEASE);
    __atomic_store_n(&page->let_go, 1, __ATOMIC_RELEASE);
}

static void expect_lost(const char *words) {
    struct rdmad_event e;
    do
        e = away_next_event();
    while (e.type == RDMAD_EVENT_SESSION_RESUMED);
    cr_assert_eq(e.type, RDMAD_EVENT_SESSION_LOST, "%u: %s", e.type, e.text);
    cr_assert_not_null(strstr(e.text, words), "%s", e.text);
}

/* It says so and goes, and that cannot be. */
static void expect_refused(uint32_t from) {
    const struct rdmad_cqe *cqe;
    leave(from);
    if (rdmad_is_open(s))
        fake_go(&fake);
    for (unsigned ms = 0; ms < 10000 && !rdmad_is_lost(s); ms++) {
        rdmad_ring_peek(ring, &cqe);
        usleep(1000);
    }
    cr_assert(rdmad_is_lost(s), "what it said was believed");
    expect_lost("left entries in a ring that were not in flight");
}

/* In whichever order. */
static void expect_two_ends(uint64_t a, uint64_t b, int outcome) {
    struct rdmad_cqe one = rig_reap(), two = rig_reap();
    cr_assert((one.user_data == a && two.user_data == b) ||
                  (one.user_data == b && two.user_data == a),
              "%llu and %llu ended", (unsigned long long)one.user_data,
              (unsigned long long)two.user_data);
    cr_assert(one.status == RDMAD_E_DAEMON_LOST && two.status == RDMAD_E_DAEMON_LOST);
    cr_assert(one.outcome == outcome && two.outcome == outcome, "%u, %u", one.outcome, two.outcome);
    rig_expect_nothing();
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

static void do_writes(uint64_t first, unsigned count) {
    struct rdmad_sqe sqe[RIG_ENTRIES];
    for (unsigned i = 0; i < count; i++)
        rig_submit_write(first + i);
    for (unsigned i = 0; i < count; i++)
        sqe[i] = away_take();
    for (unsigned i = 0; i < count; i++) {
        away_answer(&sqe[i], 0, RDMAD_DONE);
        away_expect_end(first + i, 0, RDMAD_DONE);
    }
}

/* ---- what cannot be ------------------------------------------------------------------------- */

Test(left, what_is_over_cannot_be_left) {
    do_writes(1, 3);
    expect_refused(1);
    rig_expect_nothing();
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(left, what_is_over_cannot_be_left_with_what_is_not) {
    do_writes(1, 2);
    rig_submit_write(3);
    rig_submit_write(4);
    away_take();
    expect_refused(1);
    expect_two_ends(3, 4, RDMAD_UNKNOWN);
}

Test(left, what_is_over_cannot_be_left_if_another_op_has_its_slot) {
    for (uint64_t i = 1; i <= 3; i++)
        do_writes(i, 1);
    rig_submit_write(4);
    expect_refused(2);
    away_expect_end(4, RDMAD_E_DAEMON_LOST, RDMAD_UNKNOWN);
    rig_expect_nothing();
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

/* Those lie where the first entries were. */
Test(left, what_lay_where_entries_are_reserved_now_cannot_be_left) {
    do_writes(1, 4);
    rig_prep_write(1);
    rig_prep_write(2);
    expect_refused(0);
    rig_expect_nothing();
    cr_assert_eq(rdmad_ring_submit(ring), RDMAD_E_DAEMON_LOST);
    expect_two_ends(1, 2, RDMAD_FAILED_UNTOUCHED);
}

Test(left, what_was_not_submitted_cannot_be_taken) {
    rig_submit_write(1);
    rig_prep_write(2);
    expect_refused(2);
    away_expect_end(1, RDMAD_E_DAEMON_LOST, RDMAD_UNKNOWN);
    rig_expect_nothing();
}

/* ---- receives that are kept ----------------------------------------------------------------- */

/* The receive is the new ring's first entry, and was the old one's before that. */
static void move_a_receive(void) {
    away_submit_recv(1);
    away_take();
    do_writes(2, 1);
    away_go();
    away_come_back();
}

Test(left, a_receive_that_was_kept_and_is_not_taken_is_given_to_a_third_daemon) {
    move_a_receive();
    leave(1);
    away_go();
    away_come_back();
    struct rdmad_sqe sqe = away_take();
    cr_assert_eq(sqe.opcode, RDMAD_OP_RECV);
    cr_assert_not(fake_ring_has(away_newest()));
    away_answer(&sqe, 0, RDMAD_DONE);
    away_expect_end(1, 0, RDMAD_DONE);
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(left, a_receive_that_was_kept_cannot_be_left_twice) {
    move_a_receive();
    expect_refused(0);
    away_expect_end(1, RDMAD_E_DAEMON_LOST, RDMAD_FAILED_PARTIAL);
    rig_expect_nothing();
}

/* ---- the blocking cancel -------------------------------------------------------------------- */

static void *cancel(void *cqe) {
    cr_assert_eq(rdmad_ring_cancel(ring, 1, cqe), 0, "%s", rdmad_last_error(s));
    return NULL;
}

static void await_entry(void) {
    for (unsigned ms = 0; ms < 10000 && !fake_ring_has(away_newest()); ms++)
        usleep(1000);
}

/* Both are there, and are done. */
static void carry_out_cancel(void) {
    struct rdmad_sqe sqe = away_take();
    cr_assert_eq(sqe.opcode, RDMAD_OP_CANCEL);
    struct rdmad_sqe target = {.user_data = sqe.lease, .opcode = RDMAD_OP_RECV};
    away_answer(&sqe, 0, RDMAD_DONE);
    away_answer(&target, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
}

Test(left, a_blocking_cancel_that_was_not_taken_is_asked_of_the_next_daemon) {
    struct rdmad_cqe cqe;
    pthread_t t;
    away_submit_recv(1);
    away_take();
    pthread_create(&t, NULL, cancel, &cqe);
    await_entry();
    leave(1);
    shutdown(away_newest()->wakeup,
             SHUT_RDWR); /* as with its process; the sleeper may see no more */
    fake_go(&fake);
    fake_come_back(&fake);
    away_await(&fake.nrings, 2);
    cr_assert_eq(away_take().opcode, RDMAD_OP_RECV);
    carry_out_cancel();
    pthread_join(t, NULL);
    cr_assert_eq(cqe.status, RDMAD_E_CANCELED);
    rig_expect_nothing();
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(left, a_blocking_cancel_that_is_over_cannot_be_left) {
    struct rdmad_cqe cqe;
    pthread_t t;
    away_submit_recv(1);
    away_take();
    pthread_create(&t, NULL, cancel, &cqe);
    carry_out_cancel();
    pthread_join(t, NULL);
    rig_submit_write(2);
    expect_refused(1);
    away_expect_end(2, RDMAD_E_DAEMON_LOST, RDMAD_UNKNOWN);
    rig_expect_nothing();
}

/* ---- its memory ----------------------------------------------------------------------------- */

/* The daemon has made the entries' memory, too. */
Test(left, what_was_left_is_not_read_in_memory_of_the_daemons) {
    rig_submit_write(1);
    rig_submit_write(2);
    away_newest()->sqe[0].user_data = RIG_ENTRIES - 1; /* a slot's, and nobody's */
    leave(0);
    away_go();
    away.refuse_session = RDMAD_E_PERM;
    fake_come_back(&fake);
    expect_lost("does not resume the session");
    expect_two_ends(1, 2, RDMAD_FAILED_UNTOUCHED);
}

/* ---- a daemon that is not known to have let go yet ------------------------------------------- */

static int lifeline[2];

static void slow_up(void) {
    cr_assert_eq(pipe(lifeline), 0);
    fake.lifeline = lifeline[0];
    away_set_up();
}

static void slow_down(void) {
    rig_tear_down();
    close(lifeline[0]);
    close(lifeline[1]);
}

TestSuite(left_slowly, .init = slow_up, .fini = slow_down, .timeout = 60);

Test(left_slowly, what_was_submitted_without_a_daemon_cannot_be_taken) {
    rig_submit_write(1);
    away_take();
    away_go();
    rig_submit_write(2);
    rig_submit_write(3);
    expect_refused(2);
    away_expect_end(1, RDMAD_E_DAEMON_LOST, RDMAD_UNKNOWN);
    expect_two_ends(2, 3, RDMAD_FAILED_UNTOUCHED);
}
