/* SPDX-License-Identifier: MIT */
/* SENDs and RECVs taken back at every stage: one outcome each, and the channel goes on. */
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>
#include <string.h>

#define POOL (4u << 20)
#define LARGE (1u << 20)
#define AT_ONCE_NS 1000u

static struct rig rig;
static struct chan c;

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 5);
    chan_remote_up(&rig, &c, POOL);
    for (size_t i = 0; i < POOL; i++)
        c.end[A].client.pool[i] = (uint8_t)(i * 13 + i / 257);
}

static void done(void) {
    chan_well(&c);
    chan_down(&c);
    rig_down(&rig);
}

TestSuite(channel_cancel, .init = setup, .timeout = 60);

/* The op's own completion; that of the CANCEL may come before or after. */
static struct rdmad_cqe own(int end) {
    struct rdmad_cqe cqe;
    do
        cqe = chan_wait(&c, end);
    while (cqe.opcode == RDMAD_OP_CANCEL);
    return cqe;
}

static void ended(int end, uint64_t data, int status, uint8_t outcome) {
    struct rdmad_cqe cqe = own(end);
    cr_assert_eq(cqe.user_data, data);
    cr_assert_eq(cqe.status, status, "%d", cqe.status);
    cr_assert_eq(cqe.outcome, outcome, "%u", cqe.outcome);
}

static void run(uint64_t ns) {
    rig_run_until(&rig, sim_now() + ns);
}

/* A message of either size still gets through, into the receive that is posted for it or was. */
static void goes_on(uint64_t recv_data) {
    if (recv_data == 0)
        chan_put(&c, B, RDMAD_OP_RECV, LARGE, LARGE, recv_data);
    chan_put(&c, A, RDMAD_OP_SEND, 5, LARGE, 50);
    ended(B, recv_data, RDMAD_OK, RDMAD_DONE);
    ended(A, 50, RDMAD_OK, RDMAD_DONE);
    cr_assert_arr_eq(c.end[B].client.pool + LARGE, c.end[A].client.pool + 5, LARGE);
}

Test(channel_cancel, a_send_that_waits_ends_at_once_untouched) {
    chan_put(&c, A, RDMAD_OP_SEND, 0, 10, 1);
    chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, 2);
    rig_settle(&rig);
    chan_cancel(&c, A, 2);
    ended(A, 2, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    chan_cancel(&c, A, 1);
    ended(A, 1, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    goes_on(0);
    done();
}

Test(channel_cancel, a_send_without_a_receive_ends_at_its_deadline) {
    struct rdmad_sqe sqe = chan_sqe(RDMAD_OP_SEND, 0, 10, 1);
    sqe.timeout_ns = NSEC_PER_MSEC;
    uint64_t before = sim_now();
    rig_put(&c.end[A].client, &sqe);
    ended(A, 1, RDMAD_E_TIMEOUT, RDMAD_FAILED_UNTOUCHED);
    cr_assert_leq(sim_now() - before, NSEC_PER_MSEC + AT_ONCE_NS);
    goes_on(0);
    done();
}

/* It is asked back while it is READ: its receive stays for the next. */
static void withdrawn_after(uint64_t ns, bool lazy) {
    sim_script()->lazy_windows = sim_script()->lazy_cancel = lazy;
    chan_put(&c, B, RDMAD_OP_RECV, LARGE, LARGE, 7);
    rig_settle(&rig);
    chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, 1);
    run(ns);
    uint64_t before = sim_now();
    chan_cancel(&c, A, 1);
    ended(A, 1, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    cr_assert_lt(sim_now() - before, CHANNEL_SETTLE_NS);
    memset(c.end[A].client.pool, 0xee, 5);
    goes_on(7);
}

Test(channel_cancel, a_large_send_under_way_is_asked_back) {
    const uint64_t after[] = {0, 1000, 3000, 5000, 9000, 20000, 40000};
    for (size_t i = 0; i < sizeof(after) / sizeof(*after); i++)
        for (int lazy = 0; lazy < 2; lazy++)
            withdrawn_after(after[i], lazy);
    done();
}

/* The message is taken back while it is READ, and then its receive, too. */
Test(channel_cancel, a_receive_with_bytes_of_a_message_that_was_taken_back_is_not_untouched) {
    static const uint8_t none[LARGE];
    chan_put(&c, B, RDMAD_OP_RECV, LARGE, LARGE, 7);
    rig_settle(&rig);
    chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, 1);
    while (!memcmp(c.end[B].client.pool + LARGE, none, LARGE))
        cr_assert(rig_step(&rig, sim_now() + NSEC_PER_MSEC), "nothing is READ");
    chan_cancel(&c, A, 1);
    ended(A, 1, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    chan_cancel(&c, B, 7);
    ended(B, 7, RDMAD_E_CANCELED, RDMAD_FAILED_PARTIAL);
    goes_on(0);
    done();
}

/* Nobody answers: it ends UNKNOWN within its bound, and what the other end has of it is void. */
static void without_an_answer(uint64_t length) {
    chan_put(&c, B, RDMAD_OP_RECV, LARGE, LARGE, 7);
    run(100000);
    chan_put(&c, A, RDMAD_OP_SEND, 0, length, 1);
    run(4000);
    chan_break(&c, A);
    chan_break(&c, B);
    uint64_t before = sim_now();
    chan_cancel(&c, A, 1);
    ended(A, 1, RDMAD_E_CANCELED, RDMAD_UNKNOWN);
    cr_assert_leq(sim_now() - before, CHANNEL_SETTLE_NS + AT_ONCE_NS);
    memset(c.end[A].client.pool, 0xee, 5);
    chan_connect(&c, B);
    chan_connect(&c, A);
}

Test(channel_cancel, a_large_send_that_nobody_answers_for_is_unknown) {
    without_an_answer(LARGE);
    goes_on(7);
    done();
}

Test(channel_cancel, a_small_send_that_nobody_answers_for_is_unknown) {
    sim_script()->late_send_ppm = 0;
    without_an_answer(10);
    struct rdmad_cqe cqe;
    rig_settle(&rig);
    if (chan_take(&c, B, &cqe)) { /* it had come in time */
        cr_assert_eq(cqe.status, RDMAD_OK);
        goes_on(0);
    } else {
        goes_on(7);
    }
    done();
}

/* It is to end already, for there is no window for the peer's next link; and nobody answers. */
Test(channel_cancel, a_send_that_failed_on_its_way_still_ends_within_the_bound) {
    chan_put(&c, B, RDMAD_OP_RECV, LARGE, LARGE, 7);
    run(100000);
    chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, 1);
    run(20000);
    chan_break(&c, A);
    chan_break(&c, B);
    sim_script()->refuse_windows = true;
    chan_connect(&c, B);
    run(100000);
    const struct list *sent = &chan_of(&c, A)->out.sent;
    cr_assert_eq(list_entry(sent->next, struct op_send, node)->cancel, RDMAD_E_LIMIT);
    uint64_t before = sim_now();
    chan_cancel(&c, A, 1);
    ended(A, 1, RDMAD_E_LIMIT, RDMAD_UNKNOWN);
    cr_assert_leq(sim_now() - before, CHANNEL_SETTLE_NS + AT_ONCE_NS);
    sim_script()->refuse_windows = false;
    chan_connect(&c, A);
    goes_on(7);
    done();
}

/* The fabric has it and does not give it back: it is made to. */
Test(channel_cancel, a_small_send_that_the_fabric_holds_is_taken_from_it) {
    for (uint32_t late = 0; late <= 1000000; late += 1000000) {
        chan_put(&c, B, RDMAD_OP_RECV, LARGE, LARGE, 7);
        run(100000);
        sim_script()->late_send_ppm = late;
        sim_script()->hold_sends = true;
        chan_put(&c, A, RDMAD_OP_SEND, 0, 10, 1);
        run(4000);
        uint64_t before = sim_now();
        chan_cancel(&c, A, 1);
        ended(A, 1, RDMAD_E_CANCELED, RDMAD_UNKNOWN);
        cr_assert_leq(sim_now() - before, CHANNEL_SETTLE_NS + AT_ONCE_NS);
        sim_script()->hold_sends = false;
        goes_on(7);
    }
    done();
}

/* One end begins anew on the link that it has, and an offer of the other crosses that. */
Test(channel_cancel, a_large_message_that_crosses_the_cleaning_up_after_a_canceled_one_is_read) {
    chan_put(&c, A, RDMAD_OP_RECV, LARGE, LARGE, 7);
    chan_put(&c, B, RDMAD_OP_RECV, LARGE, LARGE, 8);
    run(100000);
    sim_script()->late_send_ppm = 0;
    sim_script()->hold_sends = true;
    chan_put(&c, B, RDMAD_OP_SEND, 0, 10, 1);
    run(4000);
    chan_cancel(&c, B, 1);
    ended(B, 1, RDMAD_E_CANCELED, RDMAD_UNKNOWN);
    run(4000);
    chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, 2);
    run(4000);
    uint64_t before = sim_now();
    sim_script()->hold_sends = false;
    ended(B, 8, RDMAD_OK, RDMAD_DONE);
    ended(A, 2, RDMAD_OK, RDMAD_DONE);
    cr_assert_leq(sim_now() - before, NSEC_PER_SEC);
    chan_put(&c, B, RDMAD_OP_SEND, 0, 10, 3);
    ended(A, 7, RDMAD_OK, RDMAD_DONE);
    ended(B, 3, RDMAD_OK, RDMAD_DONE);
    done();
}

Test(channel_cancel, a_receive_without_a_message_ends_at_once) {
    chan_put(&c, B, RDMAD_OP_RECV, 0, 10, 1);
    run(100000);
    chan_cancel(&c, B, 1);
    ended(B, 1, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    /* Its credit was told: the message is refused, and comes again. */
    chan_put(&c, A, RDMAD_OP_SEND, 0, 10, 2);
    run(100000);
    chan_put(&c, B, RDMAD_OP_RECV, 0, 10, 3);
    ended(B, 3, RDMAD_OK, RDMAD_DONE);
    ended(A, 2, RDMAD_OK, RDMAD_DONE);
    goes_on(0);
    done();
}

/* The first of three is cancelled while it is READ: all three messages come, in order. */
static void refilled(uint64_t ns, bool lazy) {
    sim_script()->lazy_windows = sim_script()->lazy_cancel = lazy;
    const uint64_t lengths[] = {LARGE, 10, 300000};
    for (unsigned i = 0; i < 3; i++)
        chan_put(&c, B, RDMAD_OP_RECV, LARGE, LARGE, i);
    rig_settle(&rig);
    for (unsigned i = 0; i < 3; i++)
        chan_put(&c, A, RDMAD_OP_SEND, 0, lengths[i], i);
    run(ns);
    chan_cancel(&c, B, 0);
    ended(B, 0, RDMAD_E_CANCELED, ns > 1000 ? RDMAD_FAILED_PARTIAL : RDMAD_FAILED_UNTOUCHED);
    chan_put(&c, B, RDMAD_OP_RECV, LARGE, LARGE, 3);
    for (unsigned i = 0; i < 3; i++) {
        struct rdmad_cqe cqe = own(B);
        cr_assert_eq(cqe.user_data, i + 1);
        cr_assert_eq(cqe.bytes, lengths[i]);
    }
    uint64_t sum = 0;
    for (unsigned i = 0; i < 3; i++) {
        struct rdmad_cqe cqe = own(A);
        cr_assert_eq(cqe.outcome, RDMAD_DONE);
        sum += 1u << cqe.user_data;
    }
    cr_assert_eq(sum, 7);
}

Test(channel_cancel, a_receive_under_way_gives_its_message_to_the_next) {
    const uint64_t after[] = {0, 12000, 20000, 40000};
    for (size_t i = 0; i < sizeof(after) / sizeof(*after); i++)
        for (int lazy = 0; lazy < 2; lazy++)
            refilled(after[i], lazy);
    goes_on(0);
    done();
}

Test(channel_cancel, a_receives_own_deadline) {
    struct rdmad_sqe sqe = chan_sqe(RDMAD_OP_RECV, 0, LARGE, 1);
    sqe.timeout_ns = 20000;
    rig_put(&c.end[B].client, &sqe);
    rig_settle(&rig);
    chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, 2);
    ended(B, 1, RDMAD_E_TIMEOUT, RDMAD_FAILED_PARTIAL);
    chan_put(&c, B, RDMAD_OP_RECV, 0, LARGE, 3);
    ended(B, 3, RDMAD_OK, RDMAD_DONE);
    ended(A, 2, RDMAD_OK, RDMAD_DONE);
    done();
}

/* Of a thousand receives: a bounded number ends a turn, and the answer comes after the last. */
static void end_in_turns(struct rig_client *ring, struct rig_answer *answer, const char *what) {
    const struct op_session *s = &ring->session->op;
    for (unsigned turns = 0; !answer->done; turns++) {
        uint32_t before = s->waits;
        worker_turn(s->worker, sim_now());
        mailbox_drain(&rig.control);
        cr_assert_leq(before - s->waits, 256, "%s: %u end in one turn", what, before - s->waits);
        cr_assert(!answer->done || s->waits == 0, "%s: answered with %u left", what, s->waits);
        cr_assert_leq(turns, 100, "%s: %u are left", what, s->waits);
    }
}

static void post_many(struct rig_client *ring) {
    struct rdmad_sqe sqe = chan_sqe(RDMAD_OP_RECV, 0, 8, 7);
    struct rdmad_cqe cqe;
    for (unsigned n = 0; n < 1000; n++) {
        rig_put(ring, &sqe);
        if (n % 100 == 0)
            rig_settle(&rig);
    }
    while (rig_take(ring, &cqe))
        ;
    rig_settle(&rig);
    cr_assert_eq(ring->session->op.waits, 1000);
}

Test(channel_cancel, a_pools_and_a_channels_end_end_a_bounded_number_a_turn) {
    struct rig_client many;
    struct rig_answer pool = {0}, channel = {0}, added = {0};
    struct rig_client *client = &c.end[B].client;
    rig_ring_up(client, &many, 1024, 1024);
    post_many(&many);
    plane_pool_drop(client->session, RIG_HANDLE(0), rig_done, &pool);
    end_in_turns(&many, &pool, "pool");
    plane_pool_add(client->session, RIG_HANDLE(0), client->pool, POOL, NULL, rig_done, &added);
    cr_assert_eq(rig_await(&rig, &added), 0);
    struct rdmad_cqe cqe;
    while (rig_take(&many, &cqe))
        cr_assert_eq(cqe.status, RDMAD_E_CANCELED);
    post_many(&many);
    plane_channel_end(client->session, CHAN_HANDLE, RDMAD_E_CLOSED, false, rig_done, &channel);
    end_in_turns(&many, &channel, "channel");
    chan_down(&c);
    rig_ring_free(&many);
    rig_down(&rig);
}

/* Whatever is under way, the pool is its owner's again when its drop is answered. */
Test(channel_cancel, a_pool_dropped_in_mid_message_at_either_end) {
    for (int end = A; end <= B; end++) {
        struct rig_answer dropped = {0}, added = {0};
        struct rig_client *client = &c.end[end].client;
        chan_put(&c, B, RDMAD_OP_RECV, LARGE, LARGE, 7);
        rig_settle(&rig);
        chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, 1);
        run(20000);
        plane_pool_drop(client->session, RIG_HANDLE(0), rig_done, &dropped);
        cr_assert_eq(rig_await(&rig, &dropped), 0);
        ended(end, end == A ? 1 : 7, RDMAD_E_CANCELED,
              end == A ? RDMAD_FAILED_UNTOUCHED : RDMAD_FAILED_PARTIAL);
        plane_pool_add(client->session, RIG_HANDLE(0), client->pool, POOL, NULL, rig_done, &added);
        cr_assert_eq(rig_await(&rig, &added), 0);
        if (end == B) {
            chan_put(&c, B, RDMAD_OP_RECV, LARGE, LARGE, 8);
            ended(B, 8, RDMAD_OK, RDMAD_DONE);
            ended(A, 1, RDMAD_OK, RDMAD_DONE);
        }
        goes_on(end == A ? 7 : 0);
    }
    done();
}

/* A SEND behind a fence is made anew when its turn has come; for the moment between, its ring has
 * no op in flight and its batch is still among the ring's names. */
Test(channel_cancel, a_batch_whose_last_send_waited_behind_a_fence_is_forgotten_once) {
    struct op_session *session = chan_of(&c, A)->session;
    for (unsigned round = 0; round < 40; round++) {
        struct rdmad_sqe first = chan_sqe(RDMAD_OP_SEND, 0, 8, 1);
        struct rdmad_sqe last = chan_sqe(RDMAD_OP_SEND, 8, 8, 2);
        first.flags = RDMAD_SQE_MORE;
        last.flags = RDMAD_SQE_FENCE;
        rig_put(&c.end[A].client, &first);
        rig_put(&c.end[A].client, &last);
        chan_cancel(&c, A, 999); /* there is none: but from now on all have names */
        run(NSEC_PER_MSEC);
        chan_put(&c, B, RDMAD_OP_RECV, LARGE, 8, 3);
        chan_put(&c, B, RDMAD_OP_RECV, LARGE, 8, 4);
        ended(B, 3, RDMAD_OK, RDMAD_DONE);
        ended(B, 4, RDMAD_OK, RDMAD_DONE);
        ended(A, 2, RDMAD_OK, RDMAD_DONE);
        const struct op_ring *r;
        uint32_t cursor = 0;
        uint64_t handle;
        while ((r = slots_next(&session->rings, &cursor, &handle))) {
            cr_assert_eq(r->batch_tags.used, 0, "%u batches are left", r->batch_tags.used);
            cr_assert_eq(r->batch_tags.buckets, TAGS_LEAST, "%u", r->batch_tags.buckets);
        }
    }
    done();
}
