/* SPDX-License-Identifier: MIT */
/* librdmad's cancel: it returns when the op is over, and takes nobody else's completion. */
#include "tests/unit/client_rig.h"

#include "common/ringword.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(cancel, .init = rig_set_up, .fini = rig_tear_down, .timeout = 20);

/* A daemon that lets WRITEs lie until a CANCEL names them. */
static struct rdmad_sqe lying[64];
static unsigned nlying;
static bool finish_instead; /* the op is done as the CANCEL comes */

static void answer(struct fake_ring *r, const struct rdmad_sqe *sqe, int status, int outcome) {
    struct rdmad_cqe cqe = {.user_data = sqe->user_data,
                            .status = status,
                            .outcome = (uint8_t)outcome,
                            .opcode = sqe->opcode};

    fake_ring_complete(r, &cqe);
}

static bool lie(struct fake_ring *r, const struct rdmad_sqe *sqe) {
    if (sqe->opcode != RDMAD_OP_CANCEL) {
        lying[nlying++] = *sqe;
        return true;
    }
    for (unsigned i = 0; i < nlying; i++) {
        struct rdmad_sqe op = lying[i];
        if (op.user_data != sqe->lease)
            continue;
        lying[i] = lying[--nlying];
        answer(r, sqe, 0, RDMAD_DONE);
        usleep(100); /* the op ends later than the CANCEL is answered */
        if (finish_instead)
            answer(r, &op, 0, RDMAD_DONE);
        else
            answer(r, &op, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
        return true;
    }
    answer(r, sqe, RDMAD_E_HANDLE, RDMAD_FAILED_UNTOUCHED);
    return true;
}

static void expect_canceled(uint64_t user_data) {
    struct rdmad_cqe cqe;

    cr_assert_eq(rdmad_ring_cancel(ring, user_data, &cqe), 0, "%s", rdmad_last_error(s));
    cr_assert_eq(cqe.user_data, user_data);
    cr_assert_eq(cqe.status, RDMAD_E_CANCELED);
    cr_assert_eq(cqe.outcome, RDMAD_FAILED_UNTOUCHED);
}

Test(cancel, ends_the_op_and_takes_its_completion) {
    rig_submit_write(5);
    rig_play(lie);
    expect_canceled(5);
    rig_expect_nothing();
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(cancel, works_on_a_full_ring_again_and_again) {
    rig_play(lie);
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < RIG_ENTRIES; i++)
            rig_submit_write(i);
        for (unsigned i = RIG_ENTRIES; i-- > 0;)
            expect_canceled(i);
    }
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(cancel, an_op_that_is_done_as_it_comes_is_done) {
    struct rdmad_cqe cqe;

    finish_instead = true;
    rig_submit_write(5);
    rig_play(lie);
    cr_assert_eq(rdmad_ring_cancel(ring, 5, &cqe), 0);
    cr_assert_eq(cqe.status, 0);
    cr_assert_eq(cqe.outcome, RDMAD_DONE);
}

Test(cancel, an_op_that_had_completed_needs_no_daemon) {
    struct rdmad_cqe cqe;
    struct rdmad_sqe sqe;

    rig_submit_write(5);
    sqe = rig_take();
    rig_complete(&sqe, RDMAD_E_RIGHTS);
    cr_assert_eq(rdmad_ring_cancel(ring, 5, &cqe), 0);
    cr_assert_eq(cqe.status, RDMAD_E_RIGHTS);
    cr_assert_not(fake_ring_has(fake.ring));
}

Test(cancel, leaves_the_completions_of_others_in_their_order) {
    struct rdmad_sqe sqe[3];

    for (unsigned i = 0; i < 3; i++)
        rig_submit_write(i);
    for (unsigned i = 0; i < 3; i++)
        sqe[i] = rig_take();
    rig_complete(&sqe[2], 0);
    rig_complete(&sqe[0], RDMAD_E_TIMEOUT);
    lying[nlying++] = sqe[1];
    rig_play(lie);
    expect_canceled(1);
    struct rdmad_cqe cqe = rig_reap();
    cr_assert_eq(cqe.user_data, 2);
    cr_assert_eq(cqe.status, 0);
    cqe = rig_reap();
    cr_assert_eq(cqe.user_data, 0);
    cr_assert_eq(cqe.status, RDMAD_E_TIMEOUT);
    rig_expect_nothing();
}

Test(cancel, leaves_a_completion_that_is_being_looked_at) {
    const struct rdmad_cqe *cqe;
    struct rdmad_sqe sqe;

    rig_submit_write(1);
    sqe = rig_take();
    rig_complete(&sqe, 0);
    cr_assert_eq(rdmad_ring_wait(ring, 1000, &cqe), 0);
    rig_submit_write(2);
    rig_play(lie);
    expect_canceled(2);
    cr_assert_eq(cqe->user_data, 1);
    cr_assert_eq(rdmad_ring_cancel(ring, 1, NULL), RDMAD_E_HANDLE, "it is the program's");
    rdmad_ring_seen(ring, cqe);
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(cancel, of_what_is_not_in_flight_is_an_error) {
    cr_assert_eq(rdmad_ring_cancel(ring, 9, NULL), RDMAD_E_HANDLE);
    cr_assert_not_null(strstr(rdmad_last_error(s), "user_data 9"));
}

Test(cancel, of_several_with_one_user_data_takes_the_first) {
    rig_submit_write(6);
    struct rdmad_sqe first = rig_take();
    rig_submit_write(6);
    struct rdmad_sqe second = rig_take();
    lying[0] = first;
    lying[1] = second;
    nlying = 2;
    rig_play(lie);
    expect_canceled(6);
    cr_assert_eq(lying[0].user_data, second.user_data);
    expect_canceled(6);
}

Test(cancel, submits_what_was_prepared_before) {
    rig_prep_write(1);
    rig_play(lie);
    expect_canceled(1);
}

/* The CANCEL would be taken for the batch's last entry. */
Test(cancel, does_not_cut_a_batch_that_is_not_complete) {
    rig_submit_write(5);
    lying[nlying++] = rig_take();
    rdmad_sqe_set_flags(rig_prep_write(1), RDMAD_SQE_MORE);
    cr_assert_eq(rdmad_ring_cancel(ring, 5, NULL), RDMAD_E_INVAL);
    cr_assert_not_null(strstr(rdmad_last_error(s), "a batch of 1 entries"), "%s",
                       rdmad_last_error(s));
    rig_prep_write(2);
    cr_assert_eq(rdmad_ring_submit(ring), 1);
    cr_assert_eq(rig_take().flags, RDMAD_SQE_MORE);
    struct rdmad_sqe last = rig_take();
    cr_assert_eq(last.opcode, RDMAD_OP_WRITE);
    rig_complete(&last, RDMAD_E_TIMEOUT);
    cr_assert_eq(rig_reap().user_data, 2);
    rig_play(lie);
    expect_canceled(5);
}

static void never(void *arg, const struct rdmad_cqe *cqe) {
    (void)arg, (void)cqe;
    cr_assert_fail("a canceled op's completion is the cancel's");
}

Test(cancel, an_op_with_a_callback_is_not_called_back) {
    struct rdmad_sqe *sqe = rig_prep_write(1);

    rdmad_sqe_set_callback(ring, sqe, never, NULL);
    rdmad_ring_submit(ring);
    rig_play(lie);
    expect_canceled(1);
    cr_assert_eq(rdmad_ring_dispatch(ring, 0, 0), RDMAD_E_INVAL, "nothing is in flight");
}

Test(cancel, a_silent_op_that_is_done_says_so) {
    struct rdmad_cqe cqe;

    finish_instead = true;
    rdmad_sqe_set_flags(rig_prep_write(1), RDMAD_SQE_SILENT);
    rdmad_ring_submit(ring);
    rig_play(lie);
    cr_assert_eq(rdmad_ring_cancel(ring, 1, &cqe), 0);
    cr_assert_eq(cqe.outcome, RDMAD_DONE);
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

static void *hang_up_after_the_cancel(void *unused) {
    (void)unused;
    rig_take();
    rig_take();
    fake_hang_up(&fake);
    return NULL;
}

Test(cancel, ends_when_the_daemon_dies) {
    struct rdmad_cqe cqe;
    pthread_t t;

    rig_submit_write(1);
    pthread_create(&t, NULL, hang_up_after_the_cancel, NULL);
    cr_assert_eq(rdmad_ring_cancel(ring, 1, &cqe), 0);
    cr_assert_eq(cqe.status, RDMAD_E_DAEMON_LOST);
    cr_assert_eq(cqe.outcome, RDMAD_UNKNOWN);
    pthread_join(t, NULL);
}

Test(cancel, waits_for_an_entry_while_the_daemon_has_taken_none) {
    for (unsigned i = 0; i < RIG_ENTRIES; i++)
        rig_submit_write(i); /* the submission queue is full */
    rig_play(lie);
    expect_canceled(3);
    for (unsigned i = 0; i < 3; i++)
        expect_canceled(i);
}

/* ---- without waiting ------------------------------------------------------------------------ */

Test(cancel, as_an_entry_names_the_op_or_one_that_cannot_be) {
    struct rdmad_sqe *sqe, op, sent;

    rig_submit_write(1);
    op = rig_take();
    sqe = rdmad_ring_reserve(ring);
    cr_assert_eq(rdmad_prep_cancel(ring, sqe, 1, 100), 0);
    sqe = rdmad_ring_reserve(ring);
    cr_assert_eq(rdmad_prep_cancel(ring, sqe, 2, 200), 0);
    rdmad_ring_submit(ring);
    sent = rig_take();
    cr_assert_eq(sent.opcode, RDMAD_OP_CANCEL);
    cr_assert_eq(sent.lease, op.user_data);
    rig_complete(&sent, 0);
    sent = rig_take();
    cr_assert_eq(sent.lease, UINT64_MAX);
    rig_complete(&sent, RDMAD_E_HANDLE);
    rig_complete(&op, RDMAD_E_CANCELED);
    cr_assert_eq(rig_reap().user_data, 100);
    cr_assert_eq(rig_reap().status, RDMAD_E_HANDLE);
    cr_assert_eq(rig_reap().user_data, 1);
}

/* ---- at random ------------------------------------------------------------------------------ */

static unsigned seed = 1;

static bool finish_or_lie(struct fake_ring *r, const struct rdmad_sqe *sqe) {
    if (sqe->opcode == RDMAD_OP_CANCEL || rand_r(&seed) % 2)
        return lie(r, sqe);
    answer(r, sqe, 0, RDMAD_DONE);
    return true;
}

Test(cancel, at_any_moment_every_op_has_exactly_one_end) {
    static unsigned char ends[4000];
    unsigned mine = 7, canceled = 0;
    uint64_t next = 0, over = 0, first = 0;

    rig_play(finish_or_lie);
    while (over < sizeof(ends)) {
        const struct rdmad_cqe *cqe;
        while (next < sizeof(ends) && next - over < RIG_ENTRIES)
            rig_submit_write(next++);
        for (unsigned spins = (unsigned)rand_r(&mine) % 300; spins > 0; spins--)
            ringword_pause();
        while (first < next && ends[first])
            first++;
        for (uint64_t i = first; i < next; i++) {
            struct rdmad_cqe one;
            if (ends[i] || rand_r(&mine) % 2 || rdmad_ring_cancel(ring, i, &one))
                continue;
            cr_assert_eq(one.user_data, i);
            ends[i]++;
            over++;
            canceled += one.status == RDMAD_E_CANCELED;
        }
        while (rdmad_ring_peek(ring, &cqe) == 0) {
            ends[cqe->user_data]++;
            over++;
            rdmad_ring_seen(ring, cqe);
        }
    }
    for (unsigned i = 0; i < sizeof(ends); i++)
        cr_assert_eq(ends[i], 1, "op %u ended %u times", i, ends[i]);
    cr_assert_gt(canceled, 100);
}
