/* SPDX-License-Identifier: MIT */
/* librdmad's entries that do not complete one by one: batches and silent ops. */
#include "tests/unit/client_rig.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(batch, .init = rig_set_up, .fini = rig_tear_down, .timeout = 20);
TestSuite(silent, .init = rig_set_up, .fini = rig_tear_down, .timeout = 20);

static void submit(int count) {
    cr_assert_eq(rdmad_ring_submit(ring), count, "%s", rdmad_last_error(s));
}

/* Three writes, one completion: 1, 2 and 3. */
static void submit_batch(struct rdmad_sqe taken[3]) {
    rdmad_sqe_set_flags(rig_prep_write(1), RDMAD_SQE_MORE);
    rdmad_sqe_set_flags(rig_prep_write(2), RDMAD_SQE_MORE | RDMAD_SQE_FENCE);
    rig_prep_write(3);
    submit(3);
    for (unsigned i = 0; i < 3; i++)
        taken[i] = rig_take();
}

Test(batch, has_one_completion_with_the_last_entrys_user_data) {
    struct rdmad_sqe sqe[3];

    submit_batch(sqe);
    cr_assert_eq(sqe[0].flags, RDMAD_SQE_MORE);
    cr_assert_eq(sqe[1].flags, RDMAD_SQE_MORE | RDMAD_SQE_FENCE);
    cr_assert_eq(sqe[2].flags, 0);
    rig_complete(&sqe[2], 0);
    cr_assert_eq(rig_reap().user_data, 3);
    rig_expect_nothing();
}

Test(batch, keeps_its_entries_until_it_completes_and_no_longer) {
    struct rdmad_sqe sqe[3];

    for (unsigned round = 0; round < 100; round++) {
        submit_batch(sqe);
        cr_assert_eq(rig_free_entries(), 1);
        rig_complete(&sqe[2], round % 2 ? RDMAD_E_TIMEOUT : 0);
        rig_reap();
        cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
    }
}

Test(batch, may_be_submitted_piece_by_piece) {
    struct rdmad_sqe sqe;

    rdmad_sqe_set_flags(rig_prep_write(1), RDMAD_SQE_MORE);
    submit(1);
    rig_take();
    rdmad_sqe_set_flags(rig_prep_write(2), RDMAD_SQE_MORE);
    rig_prep_write(3);
    submit(2);
    rig_take();
    sqe = rig_take();
    rig_complete(&sqe, 0);
    cr_assert_eq(rig_reap().user_data, 3);
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(batch, that_failed_is_explained_as_one) {
    const struct rdmad_cqe *cqe;
    struct rdmad_sqe sqe[3];
    char text[300];

    submit_batch(sqe);
    rig_complete(&sqe[2], RDMAD_E_TIMEOUT);
    cr_assert_eq(rdmad_ring_wait(ring, 1000, &cqe), 0);
    rdmad_ring_explain(ring, cqe, text, sizeof(text));
    cr_assert_not_null(strstr(text, "batch of 3 ops, the last a write of 64 bytes to lease 7, "
                                    "failed: deadline passed"),
                       "%s", text);
}

Test(batch, whose_member_completes_alone_ends_the_session_not_the_program) {
    struct rdmad_sqe sqe[3];
    struct rdmad_cqe cqe;

    submit_batch(sqe);
    rig_complete(&sqe[0], 0);
    cqe = rig_reap();
    cr_assert_eq(cqe.user_data, 3);
    cr_assert_eq(cqe.status, RDMAD_E_DAEMON_LOST);
}

Test(batch, of_which_the_dead_daemon_had_seen_a_part_has_an_unknown_end) {
    struct rdmad_cqe cqe;

    rdmad_sqe_set_flags(rig_prep_write(1), RDMAD_SQE_MORE);
    submit(1);
    fake_hang_up(&fake);
    while (rdmad_ring_arm(ring) == 0)
        ;
    rig_prep_write(2);
    cr_assert_eq(rdmad_ring_submit(ring), RDMAD_E_DAEMON_LOST);
    cqe = rig_reap();
    cr_assert_eq(cqe.user_data, 2);
    cr_assert_eq(cqe.outcome, RDMAD_UNKNOWN, "the first may have been done");
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

/* ---- segments ------------------------------------------------------------------------------- */

Test(batch, segments_become_one) {
    struct rdmad_segment segments[3] = {
        {memory, 10, 100}, {memory + 64, 20, 200}, {memory + 128, 30, 300}};
    struct rdmad_sqe sqe;

    cr_assert_eq(rdmad_ring_readv(ring, lease, segments, 3, 77), 0);
    submit(3);
    for (unsigned i = 0; i < 3; i++) {
        sqe = rig_take();
        cr_assert_eq(sqe.opcode, RDMAD_OP_READ);
        cr_assert_eq(sqe.pool_offset, i * 64);
        cr_assert_eq(sqe.length, (i + 1) * 10);
        cr_assert_eq(sqe.lease_offset, (i + 1) * 100);
        cr_assert_eq(sqe.flags, i < 2 ? RDMAD_SQE_MORE : 0);
    }
    rig_complete(&sqe, 0);
    cr_assert_eq(rig_reap().user_data, 77);
}

Test(batch, segments_are_all_prepared_or_none) {
    char mine[8];
    struct rdmad_segment segments[5] = {{memory, 8, 0}, {memory + 8, 8, 0}, {mine, 8, 0}};

    cr_assert_eq(rdmad_ring_writev(ring, lease, segments, 3, 1), RDMAD_E_RANGE);
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
    cr_assert_eq(rdmad_ring_submit(ring), 0);
    cr_assert_eq(rdmad_ring_writev(ring, lease, segments, 0, 1), RDMAD_E_INVAL);
    cr_assert_eq(rdmad_ring_writev(ring, lease, segments, 5, 1), RDMAD_E_INVAL);
    cr_assert_not_null(strstr(rdmad_last_error(s), "5 segments"), "%s", rdmad_last_error(s));
    for (unsigned i = 0; i < 3; i++)
        rig_submit_write(i);
    cr_assert_eq(rdmad_ring_writev(ring, lease, segments, 2, 1), RDMAD_E_AGAIN);
    cr_assert_eq(rig_free_entries(), 1);
}

static unsigned batches, members;

static bool count_batches(struct fake_ring *r, const struct rdmad_sqe *sqe) {
    (void)r;
    members++;
    batches += !(sqe->flags & RDMAD_SQE_MORE);
    return sqe->flags & RDMAD_SQE_MORE; /* no completion of their own */
}

Test(batch, blocking_segments_beyond_the_ring_are_several) {
    struct rdmad_segment segments[30];

    for (unsigned i = 0; i < 30; i++)
        segments[i] = (struct rdmad_segment){memory + i * 64, 64, i * 64};
    rig_play(count_batches);
    cr_assert_eq(rdmad_writev(lease, segments, 30), 0, "%s", rdmad_last_error(s));
    cr_assert_eq(rdmad_last_outcome(), RDMAD_DONE);
    cr_assert_eq(__atomic_load_n(&members, __ATOMIC_ACQUIRE), 30);
    cr_assert_eq(batches, 8, "of 4 on a ring of 8");
}

static bool fail_the_second_batch(struct fake_ring *r, const struct rdmad_sqe *sqe) {
    struct rdmad_cqe cqe = {.user_data = sqe->user_data,
                            .status = RDMAD_E_RANGE,
                            .outcome = RDMAD_FAILED_UNTOUCHED,
                            .opcode = sqe->opcode};

    if (sqe->flags & RDMAD_SQE_MORE)
        return true;
    if (batches++ == 0)
        return false;
    fake_ring_complete(r, &cqe);
    return true;
}

Test(batch, blocking_segments_of_which_some_were_done_are_partly_written) {
    struct rdmad_segment segments[6];

    for (unsigned i = 0; i < 6; i++)
        segments[i] = (struct rdmad_segment){memory + i * 64, 64, i * 64};
    rig_play(fail_the_second_batch);
    cr_assert_eq(rdmad_readv(lease, segments, 6), RDMAD_E_RANGE);
    cr_assert_eq(rdmad_last_outcome(), RDMAD_FAILED_PARTIAL);
}

/* ---- silent ops ----------------------------------------------------------------------------- */

static struct rdmad_sqe submit_silent(uint64_t user_data) {
    rdmad_sqe_set_flags(rig_prep_write(user_data), RDMAD_SQE_SILENT);
    submit(1);
    return rig_take();
}

Test(silent, an_op_that_is_done_is_not_seen_and_its_entry_is_free) {
    struct rdmad_sqe silent = submit_silent(1);

    rig_submit_write(2);
    struct rdmad_sqe loud = rig_take();
    rig_complete(&silent, 0);
    rig_complete(&loud, 0);
    cr_assert_eq(rig_reap().user_data, 2);
    rig_expect_nothing();
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(silent, an_op_that_failed_is_seen) {
    struct rdmad_sqe silent = submit_silent(1);
    struct rdmad_cqe cqe;

    rig_complete(&silent, RDMAD_E_RIGHTS);
    cqe = rig_reap();
    cr_assert_eq(cqe.user_data, 1);
    cr_assert_eq(cqe.status, RDMAD_E_RIGHTS);
}

Test(silent, a_program_that_never_looks_does_not_run_out_of_entries) {
    for (unsigned i = 0; i < 1000; i++) {
        struct rdmad_sqe sqe = submit_silent(i);
        rig_complete(&sqe, 0);
    }
}

Test(silent, a_completion_that_others_wait_for_survives_the_search_for_free_entries) {
    struct rdmad_sqe sqe;

    rig_submit_write(1);
    sqe = rig_take();
    rig_complete(&sqe, 0);
    for (unsigned i = 0; i < 3; i++) {
        sqe = submit_silent(2);
        rig_complete(&sqe, 0);
    }
    rdmad_sqe_set_flags(rig_prep_write(3), RDMAD_SQE_SILENT); /* looks through the queue */
    cr_assert_eq(rig_reap().user_data, 1);
}

Test(silent, waiting_ends_when_the_last_one_is_done) {
    const struct rdmad_cqe *cqe;
    struct rdmad_sqe silent = submit_silent(1);

    cr_assert_eq(rdmad_ring_wait(ring, 5, &cqe), RDMAD_E_TIMEOUT);
    rig_complete(&silent, 0);
    cr_assert_eq(rdmad_ring_wait(ring, -1, &cqe), RDMAD_E_INVAL);
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(silent, a_batch_is_silent_by_its_last_entry) {
    struct rdmad_sqe sqe;

    rdmad_sqe_set_flags(rig_prep_write(1), RDMAD_SQE_MORE);
    rdmad_sqe_set_flags(rig_prep_write(2), RDMAD_SQE_SILENT);
    submit(2);
    rig_take();
    sqe = rig_take();
    rig_complete(&sqe, 0);
    rig_expect_nothing();
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(silent, what_may_not_be_silent_goes_to_the_daemon_as_it_is_to_be_refused) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);

    rdmad_prep_nop(ring, sqe, 1);
    rdmad_sqe_set_flags(sqe, RDMAD_SQE_SILENT);
    rdmad_sqe_set_flags(rig_prep_write(2), RDMAD_SQE_SILENT | RDMAD_SQE_MORE);
    rdmad_sqe_set_flags(rig_prep_write(3), 0x100); /* no flag at all */
    submit(3);
    cr_assert_eq(rig_take().flags, RDMAD_SQE_SILENT);
    cr_assert_eq(rig_take().flags, RDMAD_SQE_SILENT | RDMAD_SQE_MORE);
    cr_assert(rig_take().flags & (uint8_t)~RDMAD_SQE_FLAGS);
}

Test(silent, ops_that_a_dead_daemon_took_along_are_seen) {
    struct rdmad_cqe cqe;

    submit_silent(1);
    fake_hang_up(&fake);
    cqe = rig_reap();
    cr_assert_eq(cqe.user_data, 1);
    cr_assert_eq(cqe.status, RDMAD_E_DAEMON_LOST);
}
