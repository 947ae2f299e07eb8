/* SPDX-License-Identifier: MIT */
/* librdmad's rings against a daemon's end that the test plays itself. */
#include "tests/unit/fake_daemon.h"

#include "common/ringword.h"
#include <criterion/criterion.h>
#include <poll.h>
#include <rdmad/rdmad.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static struct fake_daemon fake;
static rdmad_session *s;
static rdmad_ring *ring;
static rdmad_pool *pool;
static rdmad_lease *lease;

static void set_up(void) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;

    fake_start(&fake);
    o.runtime_dir = fake.dir;
    o.spin_us = 20;
    cr_assert_eq(rdmad_open(&o, &s), 0, "%s", rdmad_last_error(NULL));
    cr_assert_eq(rdmad_pool_create(s, 1 << 16, 0, &pool), 0);
    cr_assert_eq(rdmad_lease_attach(s, "name", 0, &lease), 0);
    cr_assert_eq(rdmad_ring_create(s, 4, &ring), 0);
}

static void tear_down(void) {
    rdmad_close(s);
    fake_stop(&fake);
}

TestSuite(ring, .init = set_up, .fini = tear_down, .timeout = 20);

static void submit_write(uint64_t user_data) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);

    cr_assert_not_null(sqe);
    cr_assert_eq(
        rdmad_prep_write(ring, sqe, lease, 8, (char *)rdmad_pool_base(pool) + 128, 64, user_data),
        0);
    cr_assert_eq(rdmad_ring_submit(ring), 1);
}

static struct rdmad_sqe take(void) {
    struct rdmad_sqe sqe;

    cr_assert(fake_ring_take(fake.ring, &sqe));
    return sqe;
}

static bool complete(const struct rdmad_sqe *sqe, int status) {
    struct rdmad_cqe cqe = {.user_data = sqe->user_data,
                            .bytes = status ? 0 : sqe->length,
                            .status = status,
                            .outcome = status ? RDMAD_FAILED_UNTOUCHED : RDMAD_DONE,
                            .opcode = sqe->opcode,
                            .lease_id = status ? 7 : 0};

    return fake_ring_complete(fake.ring, &cqe);
}

static bool readable(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

static uint64_t reap(void) {
    const struct rdmad_cqe *cqe;
    uint64_t user_data;

    cr_assert_eq(rdmad_ring_wait(ring, 10000, &cqe), 0, "%s", rdmad_last_error(s));
    user_data = cqe->user_data;
    rdmad_ring_seen(ring, cqe);
    return user_data;
}

Test(ring, an_entry_says_pool_offset_and_handle_and_user_data_comes_back) {
    submit_write(UINT64_MAX - 1);
    struct rdmad_sqe sqe = take();
    cr_assert_eq(sqe.opcode, RDMAD_OP_WRITE);
    cr_assert_eq(sqe.pool, 11);
    cr_assert_eq(sqe.pool_offset, 128);
    cr_assert_eq(sqe.length, 64);
    cr_assert_eq(sqe.lease, 31);
    cr_assert_eq(sqe.lease_offset, 8);
    complete(&sqe, 0);
    cr_assert_eq(reap(), UINT64_MAX - 1);
}

Test(ring, no_more_are_in_flight_than_there_are_entries_until_seen) {
    const struct rdmad_cqe *cqe;

    for (unsigned i = 0; i < 4; i++)
        submit_write(i);
    cr_assert_null(rdmad_ring_reserve(ring));
    struct rdmad_sqe sqe = take();
    complete(&sqe, 0);
    cr_assert_eq(rdmad_ring_peek(ring, &cqe), 0);
    cr_assert_null(rdmad_ring_reserve(ring), "its completion is still being read");
    rdmad_ring_seen(ring, cqe);
    cr_assert_not_null(rdmad_ring_reserve(ring));
}

Test(ring, thousands_of_ops_out_of_order_each_complete_as_themselves) {
    struct rdmad_sqe sqe[4];
    uint64_t next = 1, sum = 0, expected = 0;

    for (unsigned round = 0; round < 2000; round++) {
        unsigned n = 1 + round % 4;
        for (unsigned i = 0; i < n; i++) {
            expected += next;
            submit_write(next++);
        }
        for (unsigned i = 0; i < n; i++)
            sqe[i] = take();
        for (unsigned i = n; i-- > 0;)
            complete(&sqe[i], 0);
        for (unsigned i = 0; i < n; i++)
            sum += reap();
    }
    cr_assert_eq(sum, expected);
}

Test(ring, the_daemon_is_rung_only_when_it_says_that_it_sleeps) {
    eventfd_t rung;

    submit_write(1);
    cr_assert_lt(eventfd_read(fake.ring->doorbell, &rung), 0);
    __atomic_store_n(&fake.ring->daemon->sq_wait, 1, __ATOMIC_SEQ_CST);
    submit_write(2);
    cr_assert_eq(eventfd_read(fake.ring->doorbell, &rung), 0);
    cr_assert_eq(rung, 1);
}

static unsigned yields;

int sched_yield(void) {
    yields++;
    return 0;
}

Test(ring, who_is_not_realtime_does_not_spin_where_the_daemon_says_that_it_is_crowded) {
    const struct rdmad_cqe *cqe;

    submit_write(1);
    fake.ring->daemon->crowded = 1;
    yields = 0;
    cr_assert_eq(rdmad_ring_wait(ring, 5, &cqe), RDMAD_E_TIMEOUT);
    cr_assert_eq(yields, 0u, "%u", yields);
    fake.ring->daemon->crowded = 0;
    for (int i = 0; i < 100 && yields == 0; i++) /* this thread may be off its CPU meanwhile */
        cr_assert_eq(rdmad_ring_wait(ring, 5, &cqe), RDMAD_E_TIMEOUT);
    cr_assert_gt(yields, 0u, "and they do when it does not");
}

static int policy = SCHED_OTHER;

int sched_getscheduler(pid_t pid) {
    (void)pid;
    return policy;
}

Test(ring, a_realtime_thread_spins_where_it_is_crowded_and_no_other_does) {
    static const struct {
        int policy;
        bool spins;
    } all[] = {{SCHED_FIFO, true},
               {SCHED_RR, true},
               {SCHED_FIFO | SCHED_RESET_ON_FORK, true},
               {SCHED_RR | SCHED_RESET_ON_FORK, true},
               {SCHED_OTHER | SCHED_RESET_ON_FORK, false},
               {SCHED_BATCH, false},
               {SCHED_IDLE, false},
               {SCHED_DEADLINE, false},
               {-1, false}};
    const struct rdmad_cqe *cqe;

    submit_write(1);
    fake.ring->daemon->crowded = 1;
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        policy = all[i].policy;
        yields = 0;
        for (int k = 0; k < 100 && (k == 0 || (all[i].spins && yields == 0)); k++)
            cr_assert_eq(rdmad_ring_wait(ring, 5, &cqe), RDMAD_E_TIMEOUT);
        cr_assert_eq(yields > 0, all[i].spins, "policy %#x: %u yields", (unsigned)policy, yields);
    }
}

/* How many of 256 waits in vain spin in full (10 to 20 yields), after 16 to learn from. */
static unsigned spins_in_full(void) {
    const struct rdmad_cqe *cqe;
    unsigned full = 0;

    for (unsigned i = 0; i < 16 + 256; i++) {
        yields = 0;
        cr_assert_eq(rdmad_ring_wait(ring, 1, &cqe), RDMAD_E_TIMEOUT);
        full += i >= 16 && yields > 5;
    }
    return full;
}

Test(ring, a_realtime_thread_spins_in_full_more_seldom_where_it_is_crowded) {
    unsigned full = 0;

    submit_write(1);
    policy = SCHED_FIFO;
    fake.ring->daemon->crowded = 1;
    for (int i = 0; i < 20 && full < 2; i++) /* this thread may be off its CPU meanwhile */
        cr_assert_leq(full = spins_in_full(), 2u, "%u", full);
    cr_assert_eq(full, 2u, "%u", full);
    fake.ring->daemon->crowded = 0;
    for (int i = 0; i < 20 && full <= 2; i++)
        full = spins_in_full();
    cr_assert_gt(full, 2u, "%u", full);
}

static void *complete_later(void *arg) {
    struct rdmad_sqe *sqe = arg;

    while (!__atomic_load_n(&fake.ring->client->cq_wait, __ATOMIC_SEQ_CST))
        usleep(1000);
    usleep(1000);
    cr_assert(complete(sqe, 0));
    return NULL;
}

Test(ring, a_client_that_sleeps_is_woken) {
    pthread_t t;

    for (unsigned i = 0; i < 20; i++) {
        submit_write(i);
        struct rdmad_sqe sqe = take();
        pthread_create(&t, NULL, complete_later, &sqe);
        cr_assert_eq(reap(), i);
        cr_assert_eq(__atomic_load_n(&fake.ring->client->cq_wait, __ATOMIC_SEQ_CST), 0);
        pthread_join(t, NULL);
    }
}

Test(ring, waiting_ends_in_time_and_waiting_for_nothing_is_an_error) {
    const struct rdmad_cqe *cqe;

    cr_assert_eq(rdmad_ring_wait(ring, -1, &cqe), RDMAD_E_INVAL);
    cr_assert_not_null(strstr(rdmad_last_error(s), "nothing is in flight"));
    submit_write(1);
    cr_assert_eq(rdmad_ring_wait(ring, 0, &cqe), RDMAD_E_TIMEOUT);
    cr_assert_eq(rdmad_ring_wait(ring, 5, &cqe), RDMAD_E_TIMEOUT);
}

/* ---- event loops ---------------------------------------------------------------------------- */

Test(ring, an_armed_ring_makes_the_descriptor_readable_and_peeking_clears_it) {
    const struct rdmad_cqe *cqe;
    int fd = rdmad_session_fd(s);

    submit_write(1);
    struct rdmad_sqe sqe = take();
    cr_assert_eq(rdmad_ring_arm(ring), 0);
    cr_assert_not(readable(fd));
    cr_assert(complete(&sqe, 0));
    cr_assert(readable(fd));
    cr_assert(readable(rdmad_ring_fd(ring)));
    cr_assert_eq(rdmad_ring_peek(ring, &cqe), 0);
    cr_assert_eq(cqe->user_data, 1);
    rdmad_ring_seen(ring, cqe);
    cr_assert_eq(rdmad_ring_peek(ring, &cqe), RDMAD_E_AGAIN);
    cr_assert_not(readable(fd), "or the event loop would spin");
}

Test(ring, a_byte_that_comes_late_does_not_keep_the_descriptor_readable) {
    const struct rdmad_cqe *cqe;
    int fd = rdmad_session_fd(s);

    submit_write(1);
    struct rdmad_sqe sqe = take();
    cr_assert_eq(rdmad_ring_arm(ring), 0);
    __atomic_store_n(&fake.ring->client->cq_wait, 0, __ATOMIC_SEQ_CST); /* no byte yet */
    complete(&sqe, 0);
    cr_assert_eq(rdmad_ring_peek(ring, &cqe), 0);
    rdmad_ring_seen(ring, cqe);
    cr_assert_eq(send(fake.ring->wakeup, "", 1, 0), 1);
    cr_assert(readable(fd));
    cr_assert_eq(rdmad_ring_peek(ring, &cqe), RDMAD_E_AGAIN);
    cr_assert_not(readable(fd));
}

Test(ring, arming_too_late_says_so) {
    submit_write(1);
    struct rdmad_sqe sqe = take();
    complete(&sqe, 0);
    cr_assert_eq(rdmad_ring_arm(ring), RDMAD_E_AGAIN);
    cr_assert_eq(reap(), 1);
}

/* ---- failures ------------------------------------------------------------------------------- */

Test(ring, a_failed_op_is_explained_with_the_lease_and_what_became_of_it) {
    const struct rdmad_cqe *cqe;
    char text[300], tiny[8];

    submit_write(1);
    struct rdmad_sqe sqe = take();
    complete(&sqe, RDMAD_E_LEASE_EXPIRED);
    cr_assert_eq(rdmad_ring_wait(ring, 1000, &cqe), 0);
    rdmad_ring_explain(ring, cqe, text, sizeof(text));
    cr_assert_not_null(strstr(text, "write of 64 bytes to lease 7 failed: lease expired"), "%s",
                       text);
    cr_assert_not_null(strstr(text, "nothing was changed"), "%s", text);
    rdmad_ring_explain(ring, cqe, tiny, sizeof(tiny));
    cr_assert_str_eq(tiny, "write o");
}

Test(ring, of_two_ranges_the_one_that_does_not_fit_is_named) {
    const struct rdmad_cqe *cqe;
    struct rdmad_sqe *sqe;
    char text[300];

    for (unsigned i = 0; i < 2; i++) {
        sqe = rdmad_ring_reserve(ring);
        rdmad_prep_write(ring, sqe, lease, i ? 8 : 4095, rdmad_pool_base(pool), 64, 1);
        rdmad_ring_submit(ring);
        struct rdmad_sqe sent = take();
        complete(&sent, RDMAD_E_RANGE);
        cr_assert_eq(rdmad_ring_wait(ring, 1000, &cqe), 0);
        rdmad_ring_explain(ring, cqe, text, sizeof(text));
        cr_assert_not_null(strstr(text, i ? "beyond its pool" : "offset 4095 in a lease of 4096"),
                           "%s", text);
        rdmad_ring_seen(ring, cqe);
    }
}

Test(ring, a_lease_that_the_daemon_forgot_fails_with_why_it_ended) {
    const struct rdmad_cqe *cqe;
    struct rdmad_event e = RDMAD_EVENT_INIT;

    fake_lease_ended(&fake, 7, 31, RDMAD_E_LEASE_REVOKED);
    cr_assert_eq(rdmad_next_event(s, 1000, &e), 0);
    submit_write(1);
    struct rdmad_sqe sqe = take();
    complete(&sqe, RDMAD_E_NO_LEASE);
    cr_assert_eq(rdmad_ring_wait(ring, 1000, &cqe), 0);
    cr_assert_eq(cqe->status, RDMAD_E_LEASE_REVOKED);
    cr_assert_eq(cqe->lease_id, 7);
}

Test(ring, waiting_on_a_lease_that_has_ended_says_why_it_ended) {
    const struct rdmad_cqe *cqe;
    rdmad_lease *granted;
    char text[300];

    cr_assert_eq(rdmad_lease_grant(s, rdmad_pool_base(pool), 64, NULL, &granted), 0);
    cr_assert_eq(rdmad_lease_revoke(granted), 0);
    cr_assert_eq(rdmad_prep_notified(ring, rdmad_ring_reserve(ring), granted, 1), 0);
    cr_assert_eq(rdmad_ring_submit(ring), 1);
    struct rdmad_sqe sqe = take();
    complete(&sqe, RDMAD_E_NO_LEASE);
    cr_assert_eq(rdmad_ring_wait(ring, 1000, &cqe), 0);
    cr_assert_eq(cqe->status, RDMAD_E_LEASE_REVOKED);
    rdmad_ring_explain(ring, cqe, text, sizeof(text));
    cr_assert_not_null(strstr(text, "lease 7 failed: lease revoked"), "%s", text);
    cr_assert_not_null(strstr(text, "grant a new one"), "%s", text);
}

Test(ring, an_unknown_flag_does_not_make_an_entry_part_of_a_batch) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);

    rdmad_prep_nop(ring, sqe, 5);
    rdmad_sqe_set_flags(sqe, 0x8000);
    cr_assert_eq(rdmad_ring_submit(ring), 1);
    struct rdmad_sqe sent = take();
    cr_assert(sent.flags & ~RDMAD_SQE_FLAGS, "the daemon cannot see it: %#x", sent.flags);
    complete(&sent, RDMAD_E_RESERVED);
    cr_assert_eq(reap(), 5);
}

Test(ring, what_cannot_be_prepared_is_said_and_refused_by_the_daemon) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    char mine[8];

    cr_assert_eq(rdmad_prep_write(ring, sqe, lease, 0, mine, 8, 5), RDMAD_E_RANGE);
    cr_assert_eq(rdmad_ring_submit(ring), 1);
    struct rdmad_sqe sent = take();
    cr_assert_geq(sent.opcode, RDMAD_OP_COUNT);
    complete(&sent, RDMAD_E_OPCODE);
    cr_assert_eq(reap(), 5);
}

static void expect_lost(uint64_t user_data, int outcome) {
    const struct rdmad_cqe *cqe;

    cr_assert_eq(rdmad_ring_wait(ring, -1, &cqe), 0);
    cr_assert_eq(cqe->user_data, user_data);
    cr_assert_eq(cqe->status, RDMAD_E_DAEMON_LOST);
    cr_assert_eq(cqe->outcome, outcome);
    rdmad_ring_seen(ring, cqe);
}

Test(ring, when_the_daemon_dies_every_op_ends_with_what_is_known_of_it) {
    const struct rdmad_cqe *cqe;
    struct rdmad_sqe *sqe;

    submit_write(1);
    submit_write(2);
    sqe = rdmad_ring_reserve(ring);
    rdmad_prep_read(ring, sqe, lease, 0, rdmad_pool_base(pool), 64, 3);
    cr_assert_eq(rdmad_ring_submit(ring), 1);
    struct rdmad_sqe first = take();
    complete(&first, 0);
    fake_hang_up(&fake);
    cr_assert_eq(reap(), 1, "what it had published counts");
    expect_lost(2, RDMAD_UNKNOWN);
    expect_lost(3, RDMAD_FAILED_PARTIAL);
    sqe = rdmad_ring_reserve(ring);
    rdmad_prep_write(ring, sqe, lease, 0, rdmad_pool_base(pool), 64, 4);
    cr_assert_eq(rdmad_ring_submit(ring), RDMAD_E_DAEMON_LOST);
    expect_lost(4, RDMAD_FAILED_UNTOUCHED);
    cr_assert_eq(rdmad_ring_peek(ring, &cqe), RDMAD_E_AGAIN);
    cr_assert_eq(rdmad_ring_wait(ring, -1, &cqe), RDMAD_E_DAEMON_LOST);
    cr_assert_eq(rdmad_ring_arm(ring), RDMAD_E_DAEMON_LOST, "or an event loop would not end");
}

Test(ring, a_program_that_only_peeks_hears_of_the_daemons_death) {
    const struct rdmad_cqe *cqe;

    submit_write(1);
    fake_hang_up(&fake);
    while (rdmad_ring_peek(ring, &cqe) == RDMAD_E_AGAIN)
        ;
    cr_assert_eq(cqe->status, RDMAD_E_DAEMON_LOST);
}

Test(ring, a_closed_wakeup_socket_wakes_a_sleeper) {
    submit_write(1);
    shutdown(fake.ring->wakeup, SHUT_RDWR);
    expect_lost(1, RDMAD_UNKNOWN);
}

Test(ring, completions_that_nobody_asked_for_end_the_session_not_the_program) {
    struct rdmad_cqe forged = {.user_data = 3};

    submit_write(1);
    fake_ring_complete(fake.ring, &forged);
    expect_lost(1, RDMAD_UNKNOWN);
}

Test(ring, a_wild_tail_ends_the_session_not_the_program) {
    submit_write(1);
    ringword_publish(&fake.ring->daemon->cq_tail, 0x80000000u);
    expect_lost(1, RDMAD_UNKNOWN);
}

/* ---- blocking transfers --------------------------------------------------------------------- */

static bool stop_serving;

static void *serve_ring(void *arg) {
    int status = *(int *)arg;
    struct rdmad_sqe sqe;

    fake_await_ring(&fake);
    while (!__atomic_load_n(&stop_serving, __ATOMIC_ACQUIRE)) {
        if (ringword_peek(&fake.ring->client->sq_tail) == fake.ring->sq_head)
            continue;
        sqe = take();
        complete(&sqe, status);
    }
    return NULL;
}

static void *write_often(void *arg) {
    (void)arg;
    for (unsigned i = 0; i < 500; i++)
        cr_assert_eq(rdmad_write(lease, 0, rdmad_pool_base(pool), 64), 0);
    return NULL;
}

/* The blocking ring is made by the first transfer, so that the fake's ring is that one. */
static void first_transfer(pthread_t *server, int *status) {
    rdmad_ring_destroy(ring);
    fake.have_ring = false;
    pthread_create(server, NULL, serve_ring, status);
}

static void stop_server(pthread_t server) {
    __atomic_store_n(&stop_serving, true, __ATOMIC_RELEASE);
    pthread_join(server, NULL);
}

Test(ring, blocking_transfers_of_many_threads_share_a_ring) {
    pthread_t server, writer[4];
    int status = 0;

    first_transfer(&server, &status);
    for (unsigned i = 0; i < 4; i++)
        pthread_create(&writer[i], NULL, write_often, NULL);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(writer[i], NULL);
    cr_assert_eq(rdmad_last_outcome(), RDMAD_DONE);
    stop_server(server);
}

Test(ring, a_blocking_transfer_that_fails_says_why_and_what_became_of_it) {
    pthread_t server;
    int status = RDMAD_E_LEASE_REVOKED;

    first_transfer(&server, &status);
    cr_assert_eq(rdmad_read(lease, 0, rdmad_pool_base(pool), 64), RDMAD_E_LEASE_REVOKED);
    cr_assert_eq(rdmad_last_outcome(), RDMAD_FAILED_UNTOUCHED);
    cr_assert_not_null(strstr(rdmad_last_error(s), "read of 64 bytes from lease 7"), "%s",
                       rdmad_last_error(s));
    cr_assert_not_null(strstr(rdmad_last_error(s), "revoked"));
    stop_server(server);
}

static void *hang_up_soon(void *arg) {
    (void)arg;
    fake_await_ring(&fake);
    while (ringword_peek(&fake.ring->client->sq_tail) == 0)
        usleep(1000);
    usleep(5000);
    fake_hang_up(&fake);
    return NULL;
}

Test(ring, a_blocking_transfer_ends_when_the_daemon_dies) {
    pthread_t t;

    rdmad_ring_destroy(ring);
    fake.have_ring = false;
    pthread_create(&t, NULL, hang_up_soon, NULL);
    cr_assert_eq(rdmad_write(lease, 0, rdmad_pool_base(pool), 64), RDMAD_E_DAEMON_LOST);
    cr_assert_eq(rdmad_last_outcome(), RDMAD_UNKNOWN);
    pthread_join(t, NULL);
}
