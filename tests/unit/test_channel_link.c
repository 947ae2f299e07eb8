/* SPDX-License-Identifier: MIT */
/* Channels between two daemons, over links that behave. */
#include "daemon/op/channel/entry.h"
#include "daemon/op/channel/turn.h"
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>
#include <string.h>

#define POOL (4u << 20)
#define LARGE (1u << 20)
#define UID 1000u

static struct rig rig;
static struct chan c;

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 5);
    rig.uid = UID;
    chan_remote_up(&rig, &c, POOL);
    for (int end = A; end <= B; end++)
        for (size_t i = 0; i < POOL; i++)
            c.end[end].client.pool[i] = (uint8_t)(i * 13 + i / 257 + (unsigned)end);
}

static void done(void) {
    chan_down(&c);
    rig_down(&rig);
}

TestSuite(channel_link, .init = setup, .timeout = 60);

static void one(uint64_t at, uint64_t length) {
    chan_put(&c, B, RDMAD_OP_RECV, at, length, 1);
    chan_put(&c, A, RDMAD_OP_SEND, at, length, 2);
    ASSERT_CQE(chan_wait(&c, B), 1, RDMAD_OK, RDMAD_DONE, length);
    ASSERT_CQE(chan_wait(&c, A), 2, RDMAD_OK, RDMAD_DONE, length);
    cr_assert_arr_eq(c.end[B].client.pool + at, c.end[A].client.pool + at, length);
}

/* Nothing is on its way; quiet: and nobody ever talks. */
static void still(void) {
    rig_settle(&rig);
    while (rig_step(&rig, sim_now() + NSEC_PER_MSEC))
        ;
    cr_assert_eq(sim_inflight(), 0);
}

static void quiet(void) {
    still();
    cr_assert(!rig_step(&rig, sim_now() + 10 * NSEC_PER_SEC));
}

static void any_size(void) {
    const uint64_t eager = SIM_MAX_SEND - CHANNEL_HEAD;
    const uint64_t sizes[] = {0, 1, 64, eager, eager + 1, 5000, LARGE};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        one(77 * i, sizes[i]);
}

Test(channel_link, a_message_of_any_size_arrives_whole) {
    any_size();
    quiet();
    done();
}

Test(channel_link, also_where_windows_take_their_time) {
    sim_script()->lazy_windows = true;
    sim_script()->lazy_cancel = true;
    any_size();
    quiet();
    done();
}

Test(channel_link, also_where_a_link_takes_one_op_at_a_time) {
    sim_script()->max_inflight = 1;
    any_size();
    for (unsigned i = 0; i < 50; i++) {
        chan_put(&c, B, RDMAD_OP_RECV, 0, 10000, i);
        chan_put(&c, A, RDMAD_OP_SEND, 0, i * 100, i);
    }
    for (unsigned i = 0; i < 50; i++) {
        ASSERT_CQE(chan_wait(&c, B), i, RDMAD_OK, RDMAD_DONE, i * 100);
        ASSERT_CQE(chan_wait(&c, A), i, RDMAD_OK, RDMAD_DONE, i * 100);
    }
    quiet();
    done();
}

/* A stalled receiver takes nothing from anybody: no fabric op, no window, no memory. */
Test(channel_link, what_waits_for_a_receive_holds_nothing) {
    for (unsigned i = 0; i < 40; i++)
        chan_put(&c, A, RDMAD_OP_SEND, 0, i % 2 ? LARGE : 10, i);
    still();
    cr_assert_eq(c.end[A].stats.stalls, 40);
    cr_assert_eq(c.end[A].stats.sends_waiting, 40);
    const struct channels *there = rig.plane[THERE]->worker[0].channels;
    cr_assert_eq(there->arrivals.chunks, 0);
    for (unsigned i = 0; i < 40; i++)
        chan_put(&c, B, RDMAD_OP_RECV, 0, LARGE, i);
    for (unsigned i = 0; i < 40; i++) {
        ASSERT_CQE(chan_wait(&c, B), i, RDMAD_OK, RDMAD_DONE, i % 2 ? LARGE : 10);
        ASSERT_CQE(chan_wait(&c, A), i, RDMAD_OK, RDMAD_DONE, i % 2 ? LARGE : 10);
    }
    quiet();
    done();
}

/* Far more of them than an acknowledgement can tell of at once. */
Test(channel_link, receives_too_small_are_told_at_both_ends_however_many) {
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 50; i++) {
            chan_put(&c, B, RDMAD_OP_RECV, 0, 100, i);
            chan_put(&c, A, RDMAD_OP_SEND, 0, 100 + i % 3 * 1000, i);
        }
        for (unsigned i = 0; i < 50; i++) {
            int status = i % 3 ? RDMAD_E_TOO_SMALL : RDMAD_OK;
            uint8_t outcome = i % 3 ? RDMAD_FAILED_UNTOUCHED : RDMAD_DONE;
            ASSERT_CQE(chan_wait(&c, B), i, status, outcome, 100 + i % 3 * 1000);
            ASSERT_CQE(chan_wait(&c, A), i, status, outcome, i % 3 ? 0 : 100);
        }
    }
    quiet();
    done();
}

Test(channel_link, both_ways_at_once) {
    for (unsigned i = 0; i < 30; i++) {
        uint64_t length = i % 4 == 3 ? 60000 : 500;
        for (int end = A; end <= B; end++) {
            chan_put(&c, end, RDMAD_OP_RECV, 100000, length, 1);
            chan_put(&c, end, RDMAD_OP_SEND, 0, length, 2);
        }
        for (int end = A; end <= B; end++) {
            uint64_t sum = chan_wait(&c, end).user_data;
            sum += chan_wait(&c, end).user_data;
            cr_assert_eq(sum, 3);
        }
        for (int end = A; end <= B; end++)
            cr_assert_arr_eq(c.end[end].client.pool + 100000, c.end[!end].client.pool, length);
    }
    quiet();
    done();
}

/* A turn's acknowledgements are one message, whatever came in it. */
Test(channel_link, acknowledgements_and_credits_ride_together) {
    for (unsigned i = 0; i < 16; i++)
        chan_put(&c, B, RDMAD_OP_RECV, 0, 100, i);
    quiet();
    sim_script()->delay_min_ns = sim_script()->delay_max_ns = 1000;
    for (unsigned i = 0; i < 16; i++)
        chan_put(&c, A, RDMAD_OP_SEND, 0, 100, i);
    unsigned most = 0;
    while (c.end[A].stats.messages_sent < 16) {
        rig_step(&rig, sim_now() + 100);
        unsigned posted = chan_of(&c, B)->posted_sends;
        most = posted > most ? posted : most;
    }
    cr_assert_eq(most, 1);
    done();
}

static void turn_of(int end) {
    struct worker *w = chan_of(&c, end)->worker;
    op_fabric_wake(RIG_FABRIC(rig, w), sim_now());
    worker_turn(w, sim_now());
    sim_advance(100);
}

/* A message is in B's receive, and B's worker has not had a turn since. */
static void one_has_come(void) {
    struct rdmad_cqe cqe;
    chan_put(&c, B, RDMAD_OP_RECV, 0, 100, 1);
    chan_put(&c, A, RDMAD_OP_RECV, 200, 100, 2);
    quiet();
    sim_script()->delay_min_ns = sim_script()->delay_max_ns = 1000;
    chan_put(&c, A, RDMAD_OP_SEND, 0, 100, 3);
    for (unsigned n = 0; !chan_take(&c, B, &cqe); n++) {
        cr_assert_lt(n, 100u);
        turn_of(A);
        turn_of(B);
    }
}

Test(channel_link, an_answer_carries_the_acknowledgement_of_what_it_answers) {
    struct rdmad_cqe cqe;
    one_has_come();
    turn_of(B);
    turn_of(B);
    chan_put(&c, B, RDMAD_OP_SEND, 200, 100, 4);
    unsigned most = 0;
    for (unsigned n = 0, had = 0; had < 2; n++) { /* A's receive and its send */
        cr_assert_lt(n, 100u);
        turn_of(B);
        unsigned posted = chan_of(&c, B)->posted_sends;
        most = posted > most ? posted : most;
        turn_of(A);
        had += chan_take(&c, A, &cqe);
    }
    cr_assert_eq(most, 1);
    done();
}

Test(channel_link, an_acknowledgement_does_not_wait_long_for_an_answer) {
    one_has_come();
    unsigned n = 0;
    for (; !chan_of(&c, B)->posted_sends; n++)
        turn_of(B);
    cr_assert(n > 1 && n <= 5, "%u", n);
    ASSERT_CQE(chan_wait(&c, A), 3, RDMAD_OK, RDMAD_DONE, 100);
    one_has_come();
    turn_of(B);
    cr_assert_eq(chan_of(&c, B)->posted_sends, 1, "it waits again, after it was in vain");
    ASSERT_CQE(chan_wait(&c, A), 3, RDMAD_OK, RDMAD_DONE, 100);
    done();
}

Test(channel_link, a_worker_tells_of_what_came_before_it_sleeps) {
    one_has_come();
    struct worker *w = chan_of(&c, B)->worker;
    turn_of(B);
    cr_assert(channels_hurry(w), "it would sleep on it");
    turn_of(B);
    cr_assert_eq(chan_of(&c, B)->posted_sends, 1);
    cr_assert(!channels_hurry(w));
    ASSERT_CQE(chan_wait(&c, A), 3, RDMAD_OK, RDMAD_DONE, 100);
    done();
}

Test(channel_link, an_orderly_end_delivers_first_and_is_told_once) {
    for (unsigned i = 0; i < 3; i++)
        chan_put(&c, A, RDMAD_OP_SEND, 0, 50000, i);
    rig_settle(&rig);
    struct rig_answer ended = {0};
    plane_channel_end(c.end[A].client.session, CHAN_HANDLE, RDMAD_E_CLOSED, true, rig_done, &ended);
    for (unsigned i = 0; i < 4; i++)
        chan_put(&c, B, RDMAD_OP_RECV, 0, 50000, i);
    for (unsigned i = 0; i < 3; i++)
        ASSERT_CQE(chan_wait(&c, B), i, RDMAD_OK, RDMAD_DONE, 50000);
    cr_assert_eq(rig_await(&rig, &ended), 0);
    ASSERT_CQE(chan_wait(&c, B), 3, RDMAD_E_CLOSED, RDMAD_FAILED_UNTOUCHED, 0);
    cr_assert_eq(c.end[B].closed, 1);
    cr_assert_eq(c.end[B].why.code, RDMAD_E_CLOSED);
    plane_channel_forget(c.end[A].client.session, CHAN_HANDLE);
    quiet();
    cr_assert_null(chan_of(&c, A));
    done();
}

/* A closes it, and some turns later B's control thread ends it for another reason, of which it has
 * not heard from its worker: what both are told in the end is the same. */
static int ended_twice(unsigned turns) {
    struct rig_answer a = {0}, b = {0};
    chan_put(&c, B, RDMAD_OP_RECV, 0, 100, 1);
    rig_settle(&rig);
    plane_channel_end(c.end[A].client.session, CHAN_HANDLE, RDMAD_E_CANCELED, false, rig_done, &a);
    for (unsigned n = 0; n < turns; n++)
        turn_of(n % 2 ? B : A);
    plane_channel_end(c.end[B].client.session, CHAN_HANDLE, RDMAD_E_PEER_LOST, false, rig_done, &b);
    for (unsigned n = 0; n < turns; n++)
        turn_of(n % 2 ? A : B);
    cr_assert(rig_await(&rig, &b) == 0 && rig_await(&rig, &a) == 0);
    int told = chan_wait(&c, B).status;
    cr_assert_eq(c.end[B].closed, told == RDMAD_E_CANCELED, "%u turns: %d", turns, told);
    chan_put(&c, B, RDMAD_OP_SEND, 0, 1, 2);
    cr_assert_eq(chan_wait(&c, B).status, told, "%u turns", turns);
    return told;
}

Test(channel_link, the_first_reason_for_its_end_is_everybodys) {
    unsigned canceled = 0, lost = 0;
    for (unsigned turns = 0; turns < 40; turns++) {
        int told = ended_twice(turns);
        canceled += told == RDMAD_E_CANCELED;
        lost += told == RDMAD_E_PEER_LOST;
        done();
        setup();
    }
    done();
    cr_assert(canceled && lost && canceled + lost == 40, "%u, %u", canceled, lost);
}

/* What was not taken is untouched at the sender, large or small. */
Test(channel_link, an_abrupt_end_of_the_receiver) {
    for (unsigned i = 0; i < 4; i++)
        chan_put(&c, A, RDMAD_OP_SEND, 0, i % 2 ? LARGE : 10, i);
    chan_put(&c, B, RDMAD_OP_RECV, 0, LARGE, 1);
    chan_put(&c, B, RDMAD_OP_RECV, 0, LARGE, 2);
    rig_run_until(&rig, sim_now() + 30000); /* the second is being READ */
    chan_end(&c, B, RDMAD_E_CLOSED, false);
    ASSERT_CQE(chan_wait(&c, A), 0, RDMAD_OK, RDMAD_DONE, 10);
    for (unsigned i = 1; i < 4; i++)
        ASSERT_CQE(chan_wait(&c, A), i, RDMAD_E_CLOSED, RDMAD_FAILED_UNTOUCHED, 0);
    cr_assert_eq(c.end[A].closed, 1);
    quiet();
    done();
}

Test(channel_link, an_abrupt_end_of_the_sender) {
    for (unsigned i = 0; i < 4; i++) {
        chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, i);
        chan_put(&c, B, RDMAD_OP_RECV, 0, LARGE, i);
    }
    rig_run_until(&rig, sim_now() + 30000);
    chan_end(&c, A, RDMAD_E_CLOSED, false);
    memset(c.end[A].client.pool, 0, POOL); /* nothing of it is read any more */
    for (unsigned i = 0; i < 4; i++)
        cr_assert_eq(chan_wait(&c, A).status, RDMAD_E_CLOSED);
    for (unsigned i = 0; i < 4; i++)
        cr_assert_eq(chan_wait(&c, B).status, RDMAD_E_CLOSED);
    cr_assert_eq(c.end[B].closed, 1);
    quiet();
    done();
}

Test(channel_link, a_lane_that_is_dropped_ends_the_channel_on_it) {
    struct rig_answer dropped = {0};
    chan_put(&c, B, RDMAD_OP_RECV, 0, LARGE, 1);
    chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, 2);
    chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, 3);
    rig_run_until(&rig, sim_now() + 30000);
    plane_lane_drop(c.end[A].lane, rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    c.end[A].lane = NULL;
    uint64_t unknown = 0;
    for (unsigned i = 0; i < 2; i++) {
        struct rdmad_cqe cqe = chan_wait(&c, A);
        cr_assert_eq(cqe.status, RDMAD_E_PEER_LOST);
        cr_assert_eq(cqe.outcome, cqe.user_data == 2 ? RDMAD_UNKNOWN : RDMAD_FAILED_UNTOUCHED);
        unknown += cqe.user_data;
    }
    cr_assert_eq(unknown, 5);
    chan_put(&c, A, RDMAD_OP_SEND, 0, 1, 9);
    ASSERT_CQE(chan_wait(&c, A), 9, RDMAD_E_PEER_LOST, RDMAD_FAILED_UNTOUCHED, 0);
    done();
}

Test(channel_link, a_session_that_goes_in_mid_message_leaves_nothing) {
    for (int end = A; end <= B; end++) {
        for (unsigned i = 0; i < 4; i++) {
            chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, i);
            chan_put(&c, B, RDMAD_OP_RECV, 0, LARGE, i);
        }
        rig_run_until(&rig, sim_now() + 30000);
        rig_client_down(&c.end[end].client);
        c.end[end].client.session = NULL;
        for (unsigned i = 0; i < 4; i++)
            cr_assert_eq(chan_wait(&c, !end).status, RDMAD_E_CANCELED);
        quiet();
        done();
        if (end == A)
            setup();
    }
}

Test(channel_link, a_window_that_cannot_be_opened_fails_its_message_alone) {
    sim_script()->refuse_windows = true;
    chan_put(&c, B, RDMAD_OP_RECV, 0, LARGE, 1);
    rig_settle(&rig);
    chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, 2);
    ASSERT_CQE(chan_wait(&c, A), 2, RDMAD_E_LIMIT, RDMAD_FAILED_UNTOUCHED, 0);
    sim_script()->refuse_windows = false;
    chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, 3);
    ASSERT_CQE(chan_wait(&c, B), 1, RDMAD_OK, RDMAD_DONE, LARGE);
    ASSERT_CQE(chan_wait(&c, A), 3, RDMAD_OK, RDMAD_DONE, LARGE);
    done();
}

static const struct op_window *first_window(void) {
    struct list *first = list_first(&chan_of(&c, A)->out.waiting);
    cr_assert(first, "no message waits");
    return &list_entry(first, struct op_send, node)->window;
}

static bool window_is(int state) {
    return (int)first_window()->state == state;
}

/* A device may take long for it. */
Test(channel_link, a_window_says_whose_memory_it_is) {
    sim_script()->lazy_windows = true;
    chan_put(&c, B, RDMAD_OP_RECV, 0, LARGE, 1);
    still();
    chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, 2);
    rig_settle(&rig);
    cr_assert(window_is(OP_WINDOW_OPENING));
    cr_assert_eq(first_window()->spec.owner, user_id_number((struct user_id){.uid = UID}));
    ASSERT_CQE(chan_wait(&c, B), 1, RDMAD_OK, RDMAD_DONE, LARGE);
    ASSERT_CQE(chan_wait(&c, A), 2, RDMAD_OK, RDMAD_DONE, LARGE);
    done();
}

/* Their windows are there, but not the link that they would be offered on, as the peer comes back
 * by another, for which no window can be opened. */
static void no_window_anew(bool lazy) {
    sim_script()->lazy_windows = true;
    for (unsigned i = 0; i < 3; i++)
        chan_put(&c, B, RDMAD_OP_RECV, i * LARGE, LARGE, i);
    still();
    for (unsigned i = 0; i < 3; i++)
        chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, i);
    rig_settle(&rig);
    cr_assert(window_is(OP_WINDOW_OPENING));
    chan_break(&c, A);
    while (!window_is(OP_WINDOW_OPEN))
        cr_assert(rig_step(&rig, sim_now() + NSEC_PER_MSEC), "no window is being opened");
    rig_settle(&rig);
    sim_script()->lazy_windows = lazy;
    sim_script()->refuse_windows = !lazy;
    chan_break(&c, B);
    chan_connect(&c, B);
    while (lazy && !window_is(OP_WINDOW_CLOSING))
        cr_assert(rig_step(&rig, sim_now() + NSEC_PER_MSEC), "it did not hear of the new link");
    sim_script()->lazy_windows = false;
    sim_script()->refuse_windows = true;
    uint64_t sum = 0;
    for (unsigned i = 0; i < 3; i++) {
        struct rdmad_cqe cqe = chan_wait(&c, A);
        cr_assert_eq(cqe.status, RDMAD_E_LIMIT, "%d", cqe.status);
        cr_assert_eq(cqe.outcome, RDMAD_FAILED_UNTOUCHED);
        sum += 1u << cqe.user_data;
    }
    cr_assert_eq(sum, 7);
    sim_script()->refuse_windows = false;
    chan_connect(&c, A);
    chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, 9);
    ASSERT_CQE(chan_wait(&c, B), 0, RDMAD_OK, RDMAD_DONE, LARGE);
    ASSERT_CQE(chan_wait(&c, A), 9, RDMAD_OK, RDMAD_DONE, LARGE);
    done();
}

Test(channel_link, sends_that_wait_as_no_window_opens_for_a_new_link_all_end) {
    no_window_anew(false);
    setup();
    no_window_anew(true);
}

/* What the receiver's device or daemon could not do is no fault of the sender's memory: the receive
 * has the error, and the message takes the next one. */
static void read_fails_with(int status) {
    chan_put(&c, B, RDMAD_OP_RECV, 0, LARGE, 1);
    rig_settle(&rig);
    sim_script()->refuse_ppm = 1000000;
    sim_script()->refuse_status = status;
    chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, 2);
    ASSERT_CQE(chan_wait(&c, B), 1, status, RDMAD_FAILED_PARTIAL, 0);
    sim_script()->refuse_ppm = 0;
    chan_put(&c, B, RDMAD_OP_RECV, 0, LARGE, 3);
    ASSERT_CQE(chan_wait(&c, B), 3, RDMAD_OK, RDMAD_DONE, LARGE);
    ASSERT_CQE(chan_wait(&c, A), 2, RDMAD_OK, RDMAD_DONE, LARGE);
    cr_assert_arr_eq(c.end[B].client.pool, c.end[A].client.pool, LARGE);
    chan_well(&c);
    quiet();
    done();
}

Test(channel_link, a_receivers_device_that_fails_ends_the_receive_and_not_the_message) {
    read_fails_with(RDMAD_E_FABRIC);
}
Test(channel_link, a_receivers_daemon_without_memory_ends_the_receive_and_not_the_message) {
    read_fails_with(RDMAD_E_NOMEM);
}

/* Its window is gone: so is the message, and the receive waits for another. */
Test(channel_link, a_message_that_the_senders_side_refuses_to_give_is_gone) {
    chan_put(&c, B, RDMAD_OP_RECV, 0, LARGE, 1);
    rig_settle(&rig);
    sim_script()->refuse_ppm = 1000000;
    sim_script()->refuse_status = RDMAD_E_NO_LEASE;
    chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, 2);
    ASSERT_CQE(chan_wait(&c, A), 2, RDMAD_E_FAULT, RDMAD_FAILED_UNTOUCHED, 0);
    sim_script()->refuse_ppm = 0;
    chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, 3);
    ASSERT_CQE(chan_wait(&c, B), 1, RDMAD_OK, RDMAD_DONE, LARGE);
    ASSERT_CQE(chan_wait(&c, A), 3, RDMAD_OK, RDMAD_DONE, LARGE);
    done();
}

/* Though it is the other end that READs them. */
Test(channel_link, long_messages_are_held_to_their_senders_rate_of_bytes) {
    enum { RATE = 4 << 20 };
    const struct plane_share share = {.weight = 100, .bytes_per_second = RATE};
    struct plane *sender = rig.plane[c.end[A].where];
    cr_assert_eq(plane_user_share(sender, (struct user_id){.uid = rig.uid}, &share), 0);
    const uint64_t began = sim_now();
    for (unsigned n = 1; n <= 8; n++) {
        one(0, LARGE);
        uint64_t least = n * (NSEC_PER_SEC / 4) - 30 * NSEC_PER_MSEC;
        cr_assert(sim_now() - began >= least, "%u in %lu us", n, (sim_now() - began) / 1000);
    }
    cr_assert_leq(sim_now() - began, 2100 * NSEC_PER_MSEC);
    done();
}
