/* SPDX-License-Identifier: MIT */
/* Channels within one daemon: boundaries, order, credits, both ends' news of what goes wrong. */
#include "daemon/op/channel/sends.h"
#include "daemon/op/engine/admit.h"
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define POOL (4u << 20)
#define LARGE (1u << 20)

static struct rig rig;
static struct chan c;

static void start(unsigned workers) {
    struct plane_settings settings;
    rig_defaults(&settings);
    settings.workers = workers;
    rig_up(&rig, &settings, 5);
    chan_local_up(&rig, &c, POOL);
    for (size_t i = 0; i < POOL; i++)
        c.end[A].client.pool[i] = (uint8_t)(i * 13 + i / 257);
}

static void setup(void) {
    start(1);
}

static void done(void) {
    chan_down(&c);
    rig_down(&rig);
}

TestSuite(channel_local, .init = setup, .timeout = 60);
TestSuite(channel_workers, .timeout = 60);

/* One message from A's buffer to B's receive, both of these bytes. */
static void one(uint64_t at, uint64_t length) {
    chan_put(&c, B, RDMAD_OP_RECV, at, length, 1);
    rig_settle(&rig);
    chan_put(&c, A, RDMAD_OP_SEND, at, length, 2);
    ASSERT_CQE(chan_wait(&c, B), 1, RDMAD_OK, RDMAD_DONE, length);
    ASSERT_CQE(chan_wait(&c, A), 2, RDMAD_OK, RDMAD_DONE, length);
    cr_assert_arr_eq(c.end[B].client.pool + at, c.end[A].client.pool + at, length);
}

static void any_size(void) {
    const uint64_t sizes[] = {0, 1, 64, 4095, CHANNEL_COPY_MAX, CHANNEL_COPY_MAX + 1, LARGE};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        one(77 * i, sizes[i]);
    cr_assert_eq(c.end[A].stats.messages_sent, 7);
    cr_assert_eq(c.end[B].stats.messages_received, 7);
    cr_assert_eq(c.end[A].stats.bytes_sent, c.end[B].stats.bytes_received);
    cr_assert_eq(c.end[A].stats.stalls, 0);
}

Test(channel_local, a_message_of_any_size_arrives_whole) {
    any_size();
    done();
}

Test(channel_workers, a_message_of_any_size_crosses_to_another_worker) {
    start(2);
    cr_assert_neq(plane_worker_of_session(c.end[A].client.session),
                  plane_worker_of_session(c.end[B].client.session));
    any_size();
    done();
}

Test(channel_local, a_send_waits_for_a_receive_and_counts_as_a_stall) {
    struct rdmad_cqe cqe;
    chan_put(&c, A, RDMAD_OP_SEND, 0, 100, 1);
    rig_settle(&rig);
    cr_assert(!chan_take(&c, A, &cqe));
    cr_assert_eq(c.end[A].stats.stalls, 1);
    cr_assert_eq(c.end[A].stats.sends_waiting, 1);
    chan_put(&c, B, RDMAD_OP_RECV, 0, 100, 2);
    ASSERT_CQE(chan_wait(&c, A), 1, RDMAD_OK, RDMAD_DONE, 100);
    cr_assert_eq(c.end[A].stats.sends_waiting, 0);
    cr_assert_eq(c.end[B].stats.receives_posted, 0);
    done();
}

Test(channel_local, small_messages_do_not_overtake_a_large_one) {
    const uint64_t sizes[] = {100, LARGE, 200, 300000, 0};
    for (unsigned i = 0; i < 5; i++)
        chan_put(&c, B, RDMAD_OP_RECV, 0, LARGE, i);
    for (unsigned i = 0; i < 5; i++)
        chan_put(&c, A, RDMAD_OP_SEND, 0, sizes[i], i);
    for (unsigned i = 0; i < 5; i++) {
        ASSERT_CQE(chan_wait(&c, B), i, RDMAD_OK, RDMAD_DONE, sizes[i]);
        ASSERT_CQE(chan_wait(&c, A), i, RDMAD_OK, RDMAD_DONE, sizes[i]);
    }
    done();
}

Test(channel_local, immediate_data_and_the_mark_of_a_lease_go_with_the_message) {
    struct rdmad_sqe sqe = chan_sqe(RDMAD_OP_SEND, 0, 10, 1);
    sqe.flags = RDMAD_SQE_IMM | RDMAD_SQE_LEASE;
    sqe.imm = 0xfedcba98;
    chan_put(&c, B, RDMAD_OP_RECV, 0, 10, 2);
    chan_put(&c, B, RDMAD_OP_RECV, 0, 10, 3);
    rig_put(&c.end[A].client, &sqe);
    chan_put(&c, A, RDMAD_OP_SEND, 0, 10, 4);
    struct rdmad_cqe cqe = chan_wait(&c, B);
    cr_assert_eq(cqe.flags, RDMAD_CQE_IMM | RDMAD_CQE_LEASE);
    cr_assert_eq(cqe.imm, 0xfedcba98);
    cqe = chan_wait(&c, B);
    cr_assert_eq(cqe.flags, 0);
    cr_assert_eq(cqe.imm, 0);
    done();
}

Test(channel_local, a_receive_too_small_is_told_at_both_ends_and_the_channel_goes_on) {
    const uint64_t sizes[] = {101, CHANNEL_COPY_MAX + 1};
    memset(c.end[B].client.pool, 'b', 1000);
    for (unsigned i = 0; i < 200; i++) { /* more than 64 of them, too */
        uint64_t size = sizes[i % 2];
        chan_put(&c, B, RDMAD_OP_RECV, 0, 100, 1);
        chan_put(&c, A, RDMAD_OP_SEND, 0, size, 2);
        ASSERT_CQE(chan_wait(&c, B), 1, RDMAD_E_TOO_SMALL, RDMAD_FAILED_UNTOUCHED, size);
        ASSERT_CQE(chan_wait(&c, A), 2, RDMAD_E_TOO_SMALL, RDMAD_FAILED_UNTOUCHED, 0);
    }
    cr_assert_eq(c.end[B].client.pool[0], 'b');
    one(5, 100);
    done();
}

/* So many that the other end reads them in more turns than one. */
static void many_in_order(void) {
    for (unsigned i = 0; i < 200; i++)
        chan_put(&c, B, RDMAD_OP_RECV, i, 1, i);
    rig_settle(&rig);
    for (unsigned i = 0; i < 200; i++)
        chan_put(&c, A, RDMAD_OP_SEND, i, 1, i);
    for (unsigned i = 0; i < 200; i++) {
        ASSERT_CQE(chan_wait(&c, B), i, RDMAD_OK, RDMAD_DONE, 1);
        ASSERT_CQE(chan_wait(&c, A), i, RDMAD_OK, RDMAD_DONE, 1);
    }
    cr_assert_arr_eq(c.end[B].client.pool, c.end[A].client.pool, 200);
    done();
}

Test(channel_local, many_messages_at_once_stay_in_order) {
    many_in_order();
}

Test(channel_workers, many_messages_at_once_cross_to_another_worker_in_order) {
    start(2);
    many_in_order();
}

/* A's message leaves, for a receive that B has posted; B has had no turn since. */
static void send_without_a_turn(void) {
    struct op_channel *from = chan_of(&c, A);
    bool again = false;
    chan_put(&c, B, RDMAD_OP_RECV, 0, 10, 1);
    rig_settle(&rig);
    chan_put(&c, A, RDMAD_OP_SEND, 0, 10, 2);
    cr_assert_eq(rings_serve(from->worker), 1);
    cr_assert_eq(sends_run(from, &again), 1);
}

/* Neither end's code runs while the other's does: each has its own turn. */
Test(channel_local, what_one_end_says_waits_for_the_turn_of_the_other) {
    struct op_channel *to = chan_of(&c, B);
    send_without_a_turn();
    cr_assert(!list_empty(&to->inbox));
    cr_assert_eq(c.end[B].stats.receives_posted, 1, "it was received on the sender's stack");
    cr_assert_eq(c.end[A].stats.messages_sent, 0);
    ASSERT_CQE(chan_wait(&c, B), 1, RDMAD_OK, RDMAD_DONE, 10);
    ASSERT_CQE(chan_wait(&c, A), 2, RDMAD_OK, RDMAD_DONE, 10);
    cr_assert(list_empty(&to->inbox));
    done();
}

/* What is on its way then is never read: its sender's buffer is its client's again. */
Test(channel_local, an_end_that_is_told_reads_no_more) {
    struct op_channel *to = chan_of(&c, B);
    send_without_a_turn();
    uint64_t expect = to->in.state.expect;
    to->end.fin = FIN_TOLD;
    rig_settle(&rig);
    cr_assert(list_empty(&to->inbox));
    cr_assert_eq(to->in.state.expect, expect, "it was received");
    to->end.fin = FIN_UNTOLD;
    chan_cancel(&c, A, 2);
    chan_end(&c, B, RDMAD_E_CLOSED, false);
    done();
}

Test(channel_local, both_ways_at_once) {
    for (unsigned i = 0; i < 10; i++) {
        for (int end = A; end <= B; end++) {
            chan_put(&c, end, RDMAD_OP_RECV, 0, 1000, 1);
            chan_put(&c, end, RDMAD_OP_SEND, 2000, 1000, 2);
        }
        for (int end = A; end <= B; end++) {
            uint64_t sum = chan_wait(&c, end).user_data;
            sum += chan_wait(&c, end).user_data;
            cr_assert_eq(sum, 3);
        }
    }
    done();
}

Test(channel_local, an_orderly_end_delivers_first_and_is_told_once) {
    for (unsigned i = 0; i < 3; i++)
        chan_put(&c, A, RDMAD_OP_SEND, 0, 50000, i);
    rig_settle(&rig);
    struct rig_answer ended = {0};
    plane_channel_end(c.end[A].client.session, CHAN_HANDLE, RDMAD_E_CLOSED, true, rig_done, &ended);
    chan_put(&c, A, RDMAD_OP_SEND, 0, 1, 9);
    ASSERT_CQE(chan_wait(&c, A), 9, RDMAD_E_CLOSED, RDMAD_FAILED_UNTOUCHED, 0);
    cr_assert(!ended.done);
    for (unsigned i = 0; i < 4; i++)
        chan_put(&c, B, RDMAD_OP_RECV, 0, 50000, i);
    for (unsigned i = 0; i < 3; i++)
        ASSERT_CQE(chan_wait(&c, B), i, RDMAD_OK, RDMAD_DONE, 50000);
    cr_assert_eq(rig_await(&rig, &ended), 0);
    ASSERT_CQE(chan_wait(&c, B), 3, RDMAD_E_CLOSED, RDMAD_FAILED_UNTOUCHED, 0);
    cr_assert_eq(c.end[B].closed, 1);
    cr_assert_eq(c.end[B].why.code, RDMAD_E_CLOSED);
    cr_assert_eq(c.end[A].closed, 0);
    chan_put(&c, B, RDMAD_OP_SEND, 0, 1, 9);
    ASSERT_CQE(chan_wait(&c, B), 9, RDMAD_E_CLOSED, RDMAD_FAILED_UNTOUCHED, 0);
    plane_channel_forget(c.end[A].client.session, CHAN_HANDLE);
    rig_settle(&rig);
    cr_assert_null(chan_of(&c, A));
    for (unsigned i = 0; i < 3; i++)
        ASSERT_CQE(chan_wait(&c, A), i, RDMAD_OK, RDMAD_DONE, 50000);
    done();
}

Test(channel_local, an_abrupt_end_ends_everything_at_both_ends) {
    chan_put(&c, A, RDMAD_OP_SEND, 0, 10, 1);
    chan_put(&c, A, RDMAD_OP_RECV, 0, 10, 2);
    chan_put(&c, B, RDMAD_OP_SEND, 0, 10, 3);
    rig_settle(&rig);
    ASSERT_CQE(chan_wait(&c, A), 2, RDMAD_OK, RDMAD_DONE, 10);
    ASSERT_CQE(chan_wait(&c, B), 3, RDMAD_OK, RDMAD_DONE, 10);
    chan_put(&c, A, RDMAD_OP_RECV, 0, 10, 2);
    rig_settle(&rig);
    chan_end(&c, A, RDMAD_E_CLOSED, false);
    uint64_t sum = chan_wait(&c, A).user_data;
    sum += chan_wait(&c, A).user_data;
    cr_assert_eq(sum, 3);
    cr_assert_eq(c.end[B].closed, 1);
    done();
}

/* The sender's session goes while the other worker copies; then the receiver's. */
static void dropped_in_mid_copy(int end, unsigned workers) {
    start(workers);
    for (unsigned i = 0; i < 3; i++) {
        chan_put(&c, B, RDMAD_OP_RECV, 0, 3 * LARGE, i);
        chan_put(&c, A, RDMAD_OP_SEND, 0, 3 * LARGE, i);
    }
    for (unsigned i = 0; i < 4; i++) /* not to the end */
        for (unsigned n = 0; n < workers; n++)
            worker_turn(&rig.plane[HERE]->worker[n], sim_now());
    rig_client_down(&c.end[end].client);
    c.end[end].client.session = NULL;
    cr_assert_eq(c.end[!end].closed, 1);
    for (unsigned i = 0; i < 3; i++) {
        struct rdmad_cqe cqe = chan_wait(&c, !end);
        cr_assert(cqe.status == RDMAD_OK || cqe.status == RDMAD_E_CANCELED, "%d", cqe.status);
    }
    done();
}

Test(channel_workers, a_sender_dropped_in_mid_copy) {
    dropped_in_mid_copy(A, 1);
}
Test(channel_workers, a_receiver_dropped_in_mid_copy) {
    dropped_in_mid_copy(B, 1);
}
Test(channel_workers, a_sender_dropped_while_another_worker_copies) {
    dropped_in_mid_copy(A, 2);
}
Test(channel_workers, a_receiver_dropped_while_it_copies_from_another_worker) {
    dropped_in_mid_copy(B, 2);
}

Test(channel_local, a_pool_dropped_at_either_end_ends_its_ops_and_the_channel_goes_on) {
    struct rig_answer dropped = {0}, added = {0};
    chan_put(&c, B, RDMAD_OP_RECV, 0, 10, 1);
    rig_settle(&rig);
    plane_pool_drop(c.end[B].client.session, RIG_HANDLE(0), rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    ASSERT_CQE(chan_wait(&c, B), 1, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED, 0);
    plane_pool_add(c.end[B].client.session, RIG_HANDLE(0), c.end[B].client.pool, POOL, NULL,
                   rig_done, &added);
    cr_assert_eq(rig_await(&rig, &added), 0);
    /* The credit of the receive that is gone is good for nothing: refused, and sent again. */
    chan_put(&c, A, RDMAD_OP_SEND, 0, 10, 2);
    rig_settle(&rig);
    chan_put(&c, B, RDMAD_OP_RECV, 0, 10, 3);
    ASSERT_CQE(chan_wait(&c, A), 2, RDMAD_OK, RDMAD_DONE, 10);
    ASSERT_CQE(chan_wait(&c, B), 3, RDMAD_OK, RDMAD_DONE, 10);
    one(0, 10);
    done();
}

Test(channel_local, a_handle_that_is_none_is_refused) {
    struct rdmad_sqe sqe = chan_sqe(RDMAD_OP_SEND, 0, 1, 1);
    sqe.lease = RIG_HANDLE(10);
    ASSERT_CQE(rig_do(&c.end[A].client, &sqe), 1, RDMAD_E_HANDLE, RDMAD_FAILED_UNTOUCHED, 0);
    done();
}

/* The client's pool is still mapped, but there is nothing behind it. */
static void vanish(int end) {
    int fd = memfd_create("nothing", MFD_CLOEXEC);
    void *at =
        mmap(c.end[end].client.pool, POOL, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    cr_assert(fd >= 0 && at == c.end[end].client.pool);
    close(fd);
}

static void sender_vanished(uint64_t length) {
    chan_put(&c, B, RDMAD_OP_RECV, 0, LARGE, 1);
    chan_put(&c, A, RDMAD_OP_SEND, 0, length, 2);
    vanish(A);
    ASSERT_CQE(chan_wait(&c, A), 2, RDMAD_E_FAULT, RDMAD_FAILED_UNTOUCHED, 0);
    cr_assert_eq(rig.violated, 1);
    cr_assert_eq(rig.cookie, &c.end[A].client);
    cr_assert_eq(c.end[B].stats.receives_posted, 1, "the receive was used up");
    done();
}

Test(channel_local, the_memory_of_a_sender_vanishes_under_a_small_message) {
    sender_vanished(100);
}
Test(channel_local, the_memory_of_a_sender_vanishes_under_a_large_message) {
    sender_vanished(LARGE);
}

static void receiver_vanished(uint64_t length) {
    chan_put(&c, B, RDMAD_OP_RECV, 0, LARGE, 1);
    chan_put(&c, A, RDMAD_OP_SEND, 0, length, 2);
    vanish(B);
    rig_settle(&rig);
    cr_assert_eq(rig.violated, 1);
    cr_assert_eq(rig.cookie, &c.end[B].client);
    rig_client_down(&c.end[B].client);
    c.end[B].client.session = NULL;
    struct rdmad_cqe cqe = chan_wait(&c, A);
    cr_assert_eq(cqe.user_data, 2);
    cr_assert_eq(cqe.outcome, RDMAD_FAILED_UNTOUCHED);
    done();
}

Test(channel_local, the_memory_of_a_receiver_vanishes_under_a_small_message) {
    receiver_vanished(100);
}
Test(channel_local, the_memory_of_a_receiver_vanishes_under_a_large_message) {
    receiver_vanished(LARGE);
}

static unsigned letters_at(struct worker *w) {
    unsigned n = 0;
    pthread_mutex_lock(&w->mailbox.lock);
    for (const struct mail *m = w->mailbox.head; m; m = m->next)
        n++;
    pthread_mutex_unlock(&w->mailbox.lock);
    return n;
}

/* Of receives that come and go the other end is told when it is about to run out of them. So what a
 * worker that is busy has not read is bounded, and in the end it knows. */
Test(channel_workers, what_a_busy_worker_has_not_read_is_bounded) {
    struct worker *mine, *busy;
    struct rdmad_cqe cqe;
    start(2);
    mine = &rig.plane[HERE]->worker[plane_worker_of_session(c.end[A].client.session)];
    busy = &rig.plane[HERE]->worker[plane_worker_of_session(c.end[B].client.session)];
    rig_settle(&rig);
    for (uint64_t i = 0; i < RIG_COUNT(20000); i++) {
        chan_put(&c, A, RDMAD_OP_RECV, 0, 64, i);
        worker_turn(mine, sim_now());
        chan_cancel(&c, A, i);
        for (unsigned took = 0; took < 2;) {
            worker_turn(mine, sim_now());
            while (chan_take(&c, A, &cqe))
                took++;
        }
    }
    cr_expect_leq(letters_at(busy), 64, "%u letters wait", letters_at(busy));
    cr_expect_gt(letters_at(busy), 0);
    rig_settle(&rig);
    chan_put(&c, A, RDMAD_OP_RECV, 0, 100, 7);
    rig_settle(&rig);
    chan_put(&c, B, RDMAD_OP_SEND, 0, 100, 8);
    ASSERT_CQE(chan_wait(&c, A), 7, RDMAD_OK, RDMAD_DONE, 100);
    ASSERT_CQE(chan_wait(&c, B), 8, RDMAD_OK, RDMAD_DONE, 100);
    cr_assert_eq(letters_at(busy), 0);
    done();
}

/* ---- what a turn, and a rate, allow ------------------------------------------------------ */

#define COPIED 16384u /* of each message: within the daemon the longest that is copied at once */

static void many_wait_for_receives(unsigned count) {
    for (unsigned n = 0; n < count; n++)
        chan_put(&c, A, RDMAD_OP_SEND, 0, COPIED, n);
    rig_settle(&rig);
}

static unsigned arrived(void) {
    struct rdmad_cqe cqe;
    unsigned n = 0;
    for (; chan_take(&c, B, &cqe); n++)
        cr_assert_eq(cqe.bytes, COPIED);
    return n;
}

/* So who has something short to do waits for no more than those. */
Test(channel_local, some_messages_are_copied_in_a_turn) {
    enum { COUNT = 60 };
    unsigned all = 0, most = 0;
    many_wait_for_receives(COUNT);
    for (unsigned n = 0; n < COUNT; n++)
        chan_put(&c, B, RDMAD_OP_RECV, 0, COPIED, n);
    for (unsigned n = 0; n < 100 && all < COUNT; n++) {
        worker_turn(&rig.plane[HERE]->worker[0], sim_now());
        unsigned now = arrived();
        most = now > most ? now : most;
        all += now;
    }
    cr_expect_eq(all, COUNT, "%u came", all);
    cr_expect_leq(most, 20, "%u were copied in a turn", most);
    done();
}

/* Though they were taken from their ring before their user was beyond it. */
Test(channel_local, messages_that_wait_are_held_to_a_rate_of_bytes) {
    enum { COUNT = 60, RATE = 1000 * 1000 };
    const struct plane_share share = {.weight = 100, .bytes_per_second = RATE};
    unsigned all = 0;
    cr_assert_eq(plane_user_share(rig.plane[HERE], (struct user_id){.uid = rig.uid}, &share), 0);
    many_wait_for_receives(COUNT);
    for (unsigned n = 0; n < COUNT; n++)
        chan_put(&c, B, RDMAD_OP_RECV, 0, COPIED, n);
    const uint64_t began = sim_now();
    for (unsigned n = 1; n <= 10; n++) {
        rig_run_until(&rig, began + n * 50 * NSEC_PER_MSEC);
        all += arrived();
        double may = RATE * (0.025 + n * 0.05) + COPIED;
        cr_assert(all * COPIED <= 1.03 * may, "%u messages in %u ms", all, 50 * n);
        cr_assert(all * COPIED >= 0.9 * (may - COPIED) - COPIED, "only %u in %u ms", all, 50 * n);
    }
    rig_run_until(&rig, began + NSEC_PER_SEC);
    cr_expect_eq(all + arrived(), COUNT);
    done();
}

/* It was paid for when it was taken; what its user asks for besides must not keep it. */
Test(channel_local, a_message_is_not_held_to_a_rate_of_ops) {
    enum { NOPS = 32 };
    const struct plane_share share = {.weight = 100, .ops_per_second = 100};
    const struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP};
    struct rig_client other;
    struct rdmad_cqe cqe;
    rig_ring_up(&c.end[A].client, &other, NOPS, 2 * NOPS);
    chan_put(&c, B, RDMAD_OP_RECV, 0, COPIED, 1);
    rig_settle(&rig);
    cr_assert_eq(plane_user_share(rig.plane[HERE], (struct user_id){.uid = rig.uid}, &share), 0);
    for (unsigned n = 0; n < NOPS; n++)
        rig_put(&other, &nop);
    for (unsigned n = 0; n < 500; n++) {
        if (n == 200)
            chan_put(&c, A, RDMAD_OP_SEND, 0, COPIED, 2);
        rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
        while (rig_take(&other, &cqe))
            rig_put(&other, &nop);
    }
    cr_expect(chan_take(&c, B, &cqe), "it is held for as long as there are others");
    done();
    rig_ring_free(&other);
}

/* Nor by what its user has on routes, which takes all that he may have whenever he may; though the
 * worker looks there all the time. */
Test(channel_local, a_message_is_not_held_behind_its_users_long_ops_for_ever) {
    enum { RATE = 20 * 1000 * 1000, WRITES = 8 };
    const struct plane_share share = {.weight = 100, .bytes_per_second = RATE};
    static uint8_t leased[POOL];
    struct fabric_audit audit = {0};
    struct rdmad_sqe write = chan_sqe(RDMAD_OP_WRITE, 0, POOL, 7);
    struct rdmad_cqe cqe;
    bool came = false;
    write.lease = RIG_HANDLE(3);
    rig_lease_local(&c.end[A].client, write.lease, 1, leased, POOL, RDMAD_RIGHT_WRITE, CLOCK_NEVER,
                    &audit);
    chan_put(&c, B, RDMAD_OP_RECV, 0, COPIED, 1);
    rig_settle(&rig);
    cr_assert_eq(plane_user_share(rig.plane[HERE], (struct user_id){.uid = rig.uid}, &share), 0);
    for (unsigned n = 0; n < WRITES; n++)
        rig_put(&c.end[A].client, &write);
    rig_run_until(&rig, sim_now() + 100 * NSEC_PER_MSEC);
    chan_put(&c, A, RDMAD_OP_SEND, 0, COPIED, 2);
    for (unsigned n = 0; n < 3000 && !came; n++) {
        rig_run_until(&rig, sim_now() + NSEC_PER_MSEC / 10);
        came = chan_take(&c, B, &cqe);
    }
    cr_expect(came, "it is held for as long as there are others");
    done();
}

/* Whoever has something to send whenever a user may send again is not always the first. */
Test(channel_local, channels_that_a_rate_holds_up_take_turns) {
    enum { COUNT = 60, RATE = 1000 * 1000 };
    const struct plane_share share = {.weight = 100, .bytes_per_second = RATE};
    struct chan second;
    struct rdmad_cqe cqe;
    chan_local_up(&rig, &second, POOL);
    for (unsigned n = 0; n < COUNT; n++)
        chan_put(&c, B, RDMAD_OP_RECV, 0, COPIED, n);
    chan_put(&second, B, RDMAD_OP_RECV, 0, COPIED, 1);
    rig_settle(&rig);
    cr_assert_eq(plane_user_share(rig.plane[HERE], (struct user_id){.uid = rig.uid}, &share), 0);
    many_wait_for_receives(COUNT / 2);
    chan_put(&second, A, RDMAD_OP_SEND, 0, COPIED, 1);
    for (unsigned n = 0; n < 8; n++) { /* a message takes 16 ms */
        rig_run_until(&rig, sim_now() + 10 * NSEC_PER_MSEC);
        chan_put(&c, A, RDMAD_OP_SEND, 0, COPIED, 0);
    }
    cr_expect(chan_take(&second, B, &cqe), "the other channel is always before it");
    chan_down(&second);
    done();
}
