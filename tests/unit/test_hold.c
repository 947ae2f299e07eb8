/* SPDX-License-Identifier: MIT */
/* Who may touch a buffer: ops and locks that conflict are refused with the holder's name, freed
 * buffers wait for their last holder. The daemon's end of the rings is played by the test. */
#include "daemon/base/clock.h"
#include "tests/unit/child.h"
#include "tests/unit/fake_daemon.h"

#include <criterion/criterion.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct fake_daemon fake;
static rdmad_session *s;
static rdmad_ring *ring;
static rdmad_pool *pool;
static rdmad_lease *lease;
static char *base;

static void set_up(void) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;

    unsetenv("RDMAD_GUARD");
    fake_start(&fake);
    o.runtime_dir = fake.dir;
    o.spin_us = 20;
    cr_assert_eq(rdmad_open(&o, &s), 0, "%s", rdmad_last_error(NULL));
    cr_assert_eq(rdmad_pool_create(s, 1 << 16, 0, &pool), 0);
    cr_assert_eq(rdmad_lease_attach(s, "name", 0, &lease), 0);
    cr_assert_eq(rdmad_ring_create(s, 16, &ring), 0);
    base = rdmad_pool_base(pool);
}

static void tear_down(void) {
    rdmad_close(s);
    fake_stop(&fake);
}

TestSuite(hold, .init = set_up, .fini = tear_down, .timeout = 20);
TestSuite(hold_abort, .timeout = 20); /* children set up for themselves */

static int prepare(enum rdmad_opcode opcode, void *buffer, size_t length, uint64_t user_data) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);

    cr_assert_not_null(sqe);
    return opcode == RDMAD_OP_READ
               ? rdmad_prep_read(ring, sqe, lease, 0, buffer, length, user_data)
               : rdmad_prep_write(ring, sqe, lease, 0, buffer, length, user_data);
}

/* Prepared, submitted, and taken by the daemon. */
static struct rdmad_sqe start(enum rdmad_opcode opcode, void *buffer, size_t length,
                              uint64_t user_data) {
    struct rdmad_sqe sqe;

    cr_assert_eq(prepare(opcode, buffer, length, user_data), 0, "%s", rdmad_last_error(s));
    cr_assert_eq(rdmad_ring_submit(ring), 1);
    cr_assert(fake_ring_take(fake.ring, &sqe));
    return sqe;
}

static void complete(const struct rdmad_sqe *sqe) {
    struct rdmad_cqe cqe = {.user_data = sqe->user_data, .opcode = sqe->opcode};

    fake_ring_complete(fake.ring, &cqe);
}

static void reap(void) {
    const struct rdmad_cqe *cqe;

    cr_assert_eq(rdmad_ring_wait(ring, 10000, &cqe), 0, "%s", rdmad_last_error(s));
    rdmad_ring_seen(ring, cqe);
}

static void says(const char *words) {
    cr_assert_not_null(strstr(rdmad_last_error(s), words), "\"%s\" lacks \"%s\"",
                       rdmad_last_error(s), words);
}

/* Takes back what a refused prepare has reserved. */
static void nop_instead(void) {
    struct rdmad_sqe sqe;

    cr_assert_eq(rdmad_ring_submit(ring), 1);
    cr_assert(fake_ring_take(fake.ring, &sqe));
    complete(&sqe);
    reap();
}

static void refused(enum rdmad_opcode opcode, void *buffer, size_t length) {
    cr_assert_eq(prepare(opcode, buffer, length, 99), RDMAD_E_BUSY);
    nop_instead();
}

/* ---- ops ----------------------------------------------------------------------------------- */

Test(hold, an_op_that_would_conflict_is_refused_and_told_which_op_holds_the_buffer) {
    start(RDMAD_OP_READ, base + 64, 4096, 5);
    cr_assert_eq(prepare(RDMAD_OP_WRITE, base + 64, 64, 6), RDMAD_E_BUSY);
    says("WRITE of lease 7 cannot read 64 bytes at offset 64 of pool 11");
    says("held by op READ of lease 7 (user_data 5, 4096 bytes at buffer+0) on ring 21");
    nop_instead();
    cr_assert_eq(prepare(RDMAD_OP_READ, base + 128, 8, 6), RDMAD_E_BUSY);
    says("4096 bytes at buffer-64");
}

Test(hold, many_ops_read_a_buffer_and_none_fills_it_until_the_last_has_ended) {
    struct rdmad_sqe a = start(RDMAD_OP_WRITE, base, 1000, 1);
    struct rdmad_sqe b = start(RDMAD_OP_WRITE, base + 500, 1000, 2);

    refused(RDMAD_OP_READ, base + 999, 1);
    complete(&a);
    reap();
    refused(RDMAD_OP_READ, base + 500, 1);
    start(RDMAD_OP_READ, base, 500, 3);
    complete(&b);
    reap();
    start(RDMAD_OP_READ, base + 500, 1000, 4);
}

Test(hold, neighbours_in_one_granule_do_not_conflict) {
    for (unsigned i = 0; i < 8; i++)
        start(i % 2 ? RDMAD_OP_READ : RDMAD_OP_WRITE, base + 8 * i, 8, i);
    refused(RDMAD_OP_READ, base + 7, 2);
    refused(RDMAD_OP_WRITE, base + 15, 1);
}

Test(hold, an_op_of_no_bytes_holds_nothing) {
    start(RDMAD_OP_READ, base, 64, 1);
    start(RDMAD_OP_READ, base, 0, 2);
    start(RDMAD_OP_WRITE, base + 10, 0, 3);
}

Test(hold, an_entry_that_is_prepared_again_gives_up_what_it_held) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);

    cr_assert_eq(rdmad_prep_read(ring, sqe, lease, 0, base, 64, 1), 0);
    cr_assert_eq(prepare(RDMAD_OP_READ, base, 64, 2), RDMAD_E_BUSY);
    cr_assert_eq(rdmad_prep_read(ring, sqe, lease, 0, base + 64, 64, 1), 0);
    cr_assert_eq(prepare(RDMAD_OP_READ, base, 64, 3), 0);
    cr_assert_eq(prepare(RDMAD_OP_READ, base + 64, 64, 4), RDMAD_E_BUSY);
}

Test(hold, a_completion_that_was_peeked_at_has_given_its_buffer_back) {
    struct rdmad_sqe sqe = start(RDMAD_OP_READ, base, 64, 1);
    const struct rdmad_cqe *cqe;

    complete(&sqe);
    refused(RDMAD_OP_READ, base, 64);
    cr_assert_eq(rdmad_ring_peek(ring, &cqe), 0);
    cr_assert_eq(prepare(RDMAD_OP_READ, base, 64, 2), 0);
}

Test(hold, ops_that_were_lost_with_the_daemon_hold_nothing_once_they_are_taken) {
    start(RDMAD_OP_READ, base, 64, 1);
    fake_hang_up(&fake);
    reap();
    cr_assert_eq(rdmad_buf_lock_write(pool, base, 64, 0), 0);
    rdmad_buf_unlock_write(pool, base, 64);
}

Test(hold, a_ring_that_is_destroyed_gives_up_all_that_its_ops_held) {
    start(RDMAD_OP_READ, base, 64, 1);
    cr_assert_eq(prepare(RDMAD_OP_READ, base + 64, 64, 1), 0);
    cr_assert_eq(rdmad_buf_lock_write(pool, base, 128, 0), RDMAD_E_TIMEOUT);
    rdmad_ring_destroy(ring);
    cr_assert_eq(rdmad_buf_lock_write(pool, base, 128, 0), 0);
    rdmad_buf_unlock_write(pool, base, 128);
}

Test(hold, a_range_beyond_its_pool_is_held_as_far_as_the_pool_goes) {
    start(RDMAD_OP_READ, base + 65536 - 64, 1 << 20, 1);
    refused(RDMAD_OP_READ, base + 65535, 1);
}

Test(hold, each_member_of_a_batch_holds_its_buffer_until_the_batch_has_ended) {
    const struct rdmad_segment seg[] = {{base, 64, 0}, {base + 100, 64, 64}, {base + 200, 64, 128}};
    struct rdmad_sqe sqe;

    cr_assert_eq(rdmad_ring_readv(ring, lease, seg, 3, 1), 0, "%s", rdmad_last_error(s));
    cr_assert_eq(rdmad_ring_submit(ring), 3);
    for (unsigned i = 0; i < 3; i++)
        cr_assert(fake_ring_take(fake.ring, &sqe));
    refused(RDMAD_OP_WRITE, base + 63, 1);
    refused(RDMAD_OP_WRITE, base + 199, 2);
    cr_assert_eq(rdmad_buf_lock_write(pool, base + 64, 36, 0), 0, "between the members");
    complete(&sqe);
    reap();
    cr_assert_eq(rdmad_buf_lock_write(pool, base, 64, 0), 0);
    cr_assert_eq(rdmad_buf_lock_write(pool, base + 100, 200, 0), 0);
}

Test(hold, a_batch_whose_members_conflict_is_refused_as_a_whole) {
    const struct rdmad_segment seg[] = {{base, 64, 0}, {base + 100, 64, 64}, {base + 163, 2, 128}};

    cr_assert_eq(rdmad_ring_readv(ring, lease, seg, 3, 1), RDMAD_E_BUSY);
    cr_assert_eq(rdmad_ring_submit(ring), 0);
    cr_assert_eq(rdmad_buf_lock_write(pool, base, 1 << 16, 0), 0);
}

Test(hold, blocking_calls_are_refused_as_often_as_it_takes) {
    start(RDMAD_OP_READ, base, 64, 1);
    for (unsigned i = 0; i < 200; i++) /* more than their ring has entries */
        cr_assert_eq(rdmad_write(lease, 0, base + 10, 1), RDMAD_E_BUSY);
    says("held by op READ of lease 7");
    cr_assert_eq(rdmad_last_outcome(), RDMAD_FAILED_UNTOUCHED);
}

/* ---- locks --------------------------------------------------------------------------------- */

Test(hold, a_lock_is_one_of_many_readers_or_the_only_writer) {
    char by_me[64];

    cr_assert_eq(rdmad_buf_lock_read(pool, base, 64, 0), 0);
    cr_assert_eq(rdmad_buf_lock_read(pool, base + 32, 64, 0), 0);
    cr_assert_eq(rdmad_buf_lock_write(pool, base, 64, 0), RDMAD_E_TIMEOUT);
    says("a read lock");
    start(RDMAD_OP_WRITE, base, 64, 1);
    refused(RDMAD_OP_READ, base, 64);
    rdmad_buf_unlock_read(pool, base + 32, 64);
    rdmad_buf_unlock_read(pool, base, 64);
    cr_assert_eq(rdmad_buf_lock_write(pool, base, 64, 0), RDMAD_E_TIMEOUT);
    says("op WRITE of lease 7 (user_data 1, 64 bytes at buffer+0) on ring 21");
    cr_assert_eq(rdmad_buf_lock_write(pool, base + 64, 64, 0), 0);
    cr_assert_eq(rdmad_buf_lock_read(pool, base + 64, 1, 0), RDMAD_E_TIMEOUT);
    snprintf(by_me, sizeof(by_me), "a write lock (64 bytes at buffer+0) taken by thread %d",
             gettid());
    says(by_me);
    cr_assert_eq(prepare(RDMAD_OP_WRITE, base + 100, 64, 1), RDMAD_E_BUSY);
    says("held by a write lock (64 bytes at buffer-36) taken by thread");
}

Test(hold, a_range_outside_the_pool_cannot_be_locked) {
    cr_assert_eq(rdmad_buf_lock_read(pool, base + 65530, 7, 0), RDMAD_E_RANGE);
    cr_assert_eq(rdmad_buf_lock_read(pool, base - 1, 1, 0), RDMAD_E_RANGE);
    cr_assert_eq(rdmad_buf_lock_write(pool, base + 1, SIZE_MAX, 0), RDMAD_E_RANGE);
    cr_assert_eq(rdmad_buf_lock_write(pool, base, 0, 0), 0);
    rdmad_buf_unlock_write(pool, base, 0);
}

Test(hold, a_lock_waits_no_longer_than_it_was_told_to) {
    uint64_t start_ns = clock_now_ns();

    start(RDMAD_OP_READ, base, 64, 1);
    cr_assert_eq(rdmad_buf_lock_read(pool, base, 64, 50), RDMAD_E_TIMEOUT);
    says("within 50 ms");
    cr_assert_geq(clock_now_ns() - start_ns, 50 * NSEC_PER_MSEC);
}

static void *lock_for_ever(void *rc) {
    *(int *)rc = rdmad_buf_lock_write(pool, base, 64, -1);
    return NULL;
}

Test(hold, a_lock_waits_for_the_completion_that_another_thread_takes) {
    struct rdmad_sqe sqe = start(RDMAD_OP_WRITE, base + 63, 64, 1);
    pthread_t t;
    int rc = 1;

    pthread_create(&t, NULL, lock_for_ever, &rc);
    usleep(20000);
    complete(&sqe);
    reap();
    pthread_join(t, NULL);
    cr_assert_eq(rc, 0);
    refused(RDMAD_OP_WRITE, base, 1);
}

Test(hold, any_thread_may_unlock_and_wakes_who_waits) {
    pthread_t t;
    int rc = 1;

    cr_assert_eq(rdmad_buf_lock_read(pool, base, 64, 0), 0);
    pthread_create(&t, NULL, lock_for_ever, &rc);
    usleep(20000);
    rdmad_buf_unlock_read(pool, base, 64);
    pthread_join(t, NULL);
    cr_assert_eq(rc, 0);
    rdmad_buf_unlock_write(pool, base, 64);
    cr_assert_eq(rdmad_buf_lock_write(pool, base, 1 << 16, 0), 0);
}

static void unlock_what_is_not_locked(void) {
    set_up();
    cr_assert_eq(rdmad_buf_lock_read(pool, base, 64, 0), 0);
    rdmad_buf_unlock_read(pool, base, 63);
}

Test(hold_abort, to_unlock_what_is_not_locked_ends_the_program) {
    child_aborts(unlock_what_is_not_locked,
                 "rdmad_buf_unlock_read: no such lock is held: 63 bytes");
}

/* ---- free and destroy ---------------------------------------------------------------------- */

static unsigned fill_pool(size_t size, const char *not_this) {
    static char *piece[1024];
    unsigned n = 0, count;

    while ((piece[n] = rdmad_alloc(pool, size))) {
        cr_assert_neq(piece[n], not_this);
        n++;
    }
    count = n;
    while (n)
        rdmad_free(pool, piece[--n]);
    return count;
}

Test(hold, a_buffer_that_is_freed_in_flight_is_not_handed_out_before_its_last_op_has_ended) {
    static const size_t size[] = {3 * 4096, 100};

    for (unsigned i = 0; i < 2; i++) {
        unsigned room = fill_pool(size[i], NULL);
        char *piece = rdmad_alloc(pool, size[i]);
        struct rdmad_sqe a = start(RDMAD_OP_WRITE, piece, size[i], 1);
        struct rdmad_sqe b = start(RDMAD_OP_WRITE, piece + size[i] - 1, 1, 2);
        rdmad_free(pool, piece);
        cr_assert_eq(fill_pool(size[i], piece), room - 1);
        complete(&a);
        reap();
        cr_assert_eq(fill_pool(size[i], piece), room - 1);
        complete(&b);
        reap();
        cr_assert_eq(fill_pool(size[i], NULL), room);
    }
}

static void free_twice_in_flight(void) {
    set_up();
    char *piece = rdmad_alloc(pool, 64);
    start(RDMAD_OP_WRITE, piece, 64, 1);
    rdmad_free(pool, piece);
    rdmad_free(pool, piece);
}

Test(hold_abort, a_second_free_while_the_first_waits_ends_the_program) {
    child_aborts(free_twice_in_flight, "was freed before, while ops or locks still hold it");
}

Test(hold, a_pool_in_use_is_not_destroyed_and_the_users_are_listed) {
    struct rdmad_sqe sqe[5];

    for (unsigned i = 0; i < 5; i++)
        sqe[i] = start(RDMAD_OP_WRITE, base, 64, i);
    cr_assert_eq(rdmad_buf_lock_read(pool, base, 8, 0), 0);
    cr_assert_eq(rdmad_pool_destroy(pool), RDMAD_E_BUSY);
    says("pool 11 is in use, by 6 holders: op WRITE of lease 7 (user_data 0, 64 bytes at");
    says("; and 2 more");
    for (unsigned i = 0; i < 5; i++) {
        complete(&sqe[i]);
        reap();
    }
    cr_assert_eq(rdmad_pool_destroy(pool), RDMAD_E_BUSY);
    says("by 1 holder: a read lock (8 bytes");
    rdmad_buf_unlock_read(pool, base, 8);
    cr_assert_eq(rdmad_pool_destroy(pool), 0, "%s", rdmad_last_error(s));
}

static bool refuse_destroy(struct fake_daemon *f, const struct rdmad_msg_header *h,
                           const void *body) {
    (void)body;
    if (h->type != RDMAD_MSG_POOL_DESTROY)
        return false;
    fake_refuse(f, h, RDMAD_E_BUSY, "2 leases on it");
    return true;
}

Test(hold, a_pool_with_live_leases_is_not_destroyed_and_the_leases_are_listed) {
    rdmad_lease *own;

    cr_assert_eq(rdmad_lease_grant(s, base, 64, NULL, &own), 0);
    fake.hook = refuse_destroy;
    cr_assert_eq(rdmad_pool_destroy(pool), RDMAD_E_BUSY);
    says("1 lease on pool 11 is alive: 7; revoke them first");
    cr_assert_eq(prepare(RDMAD_OP_READ, base, 64, 1), 0, "the pool is as it was before");
}
