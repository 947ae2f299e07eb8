/* SPDX-License-Identifier: MIT */
/* Many SENDs or RECVs end, a bounded number a turn: meanwhile none of them sends or receives. */
#include "daemon/op/seam/call.h"
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>

#define POOL (1u << 20)
#define ABOVE_COPY (CHANNEL_COPY_MAX + 1)

enum { MANY = 1000, FIRST = 10, MORE = 100 };

static struct rig rig;
static struct chan c;
static struct rig_client many; /* a second ring of one end's */

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    settings.max_session_ops = 2 * MANY;
    rig_up(&rig, &settings, 5);
    chan_local_up(&rig, &c, POOL);
}

static void done(void) {
    chan_down(&c);
    rig_ring_free(&many);
    rig_down(&rig);
}

TestSuite(channel_ends, .init = setup, .timeout = 60);

static void turn(void) {
    worker_turn(c.end[A].client.session->worker, sim_now());
    mailbox_drain(&rig.control);
}

static void put(struct rig_client *ring, uint8_t opcode, unsigned count) {
    struct rdmad_sqe sqe = chan_sqe(opcode, 0, 8, 7);
    sqe.flags = opcode == RDMAD_OP_SEND ? RDMAD_SQE_IMM : 0;
    for (uint32_t n = 0; n < count; n++) {
        sqe.imm = opcode == RDMAD_OP_SEND ? n : 0;
        rig_put(ring, &sqe);
    }
}

/* ---- SENDs ---- */

/* A thousand SENDs in a ring of A's wait behind FIRST that were received, and for those that wait
 * there is credit in the same turn in which they are about to end. */
static void queue_sends(void) {
    rig_ring_up(&c.end[A].client, &many, 1024, 2048);
    put(&c.end[B].client, RDMAD_OP_RECV, FIRST);
    put(&many, RDMAD_OP_SEND, MANY);
    rig_settle(&rig);
    cr_assert_eq(chan_of(&c, A)->out.waits, MANY - FIRST, "%u", chan_of(&c, A)->out.waits);
    put(&c.end[B].client, RDMAD_OP_RECV, MORE);
}

/* Returns how many messages B has, and that they are the first. The last may be another ring's. */
static unsigned receives_a_prefix(uint32_t last) {
    struct rdmad_cqe cqe;
    unsigned count = 0;
    while (chan_take(&c, B, &cqe)) {
        if (cqe.status != RDMAD_OK)
            continue;
        if (cqe.imm != last || count < FIRST)
            cr_assert_eq(cqe.imm, count, "message %lu comes after %u", (unsigned long)cqe.imm,
                         count);
        count++;
    }
    return count;
}

Test(channel_ends, of_the_sends_of_a_session_that_goes_the_other_end_has_a_prefix) {
    struct rig_answer dropped = {0};
    queue_sends();
    plane_session_drop(c.end[A].client.session, rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    cr_assert_eq(receives_a_prefix(MANY), FIRST);
    c.end[A].client.session = NULL;
    rig_client_free(&c.end[A].client);
    done();
}

Test(channel_ends, of_the_sends_of_a_channel_that_goes_the_other_end_has_a_prefix) {
    queue_sends();
    chan_end(&c, A, RDMAD_E_CLOSED, false);
    cr_assert_eq(receives_a_prefix(MANY), FIRST);
    done();
}

/* And then what another ring sent behind them. */
Test(channel_ends, of_the_sends_of_a_ring_that_goes_the_other_end_has_a_prefix) {
    struct rig_answer dropped = {0};
    struct rdmad_sqe behind = chan_sqe(RDMAD_OP_SEND, 0, 8, 9);
    queue_sends();
    behind.flags = RDMAD_SQE_IMM;
    behind.imm = MANY;
    rig_put(&c.end[A].client, &behind);
    plane_ring_drop(c.end[A].client.session, RIG_HANDLE(1), rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    rig_settle(&rig);
    cr_assert_eq(receives_a_prefix(MANY), FIRST + 1, "what is behind them is not sent");
    ASSERT_CQE(chan_wait(&c, A), 9, RDMAD_OK, RDMAD_DONE, 8);
    chan_well(&c);
    done();
}

static void setup_weak(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    settings.max_session_ops = 2 * MANY;
    rig_up(&rig, &settings, 5);
    sim_script()->services = 1u << RDMAD_CHANNEL_UNACKED;
    chan_weak_up(&rig, &c, POOL, RDMAD_CHANNEL_UNACKED);
    rig_run_until(&rig, sim_now() + 100000);
}

TestSuite(channel_ends_weak, .init = setup_weak, .timeout = 60);

/* What is not acknowledged is not sent either, once its session goes. */
Test(channel_ends_weak, none_leaves_after_one_was_canceled) {
    struct rig_answer dropped = {0};
    rig_ring_up(&c.end[A].client, &many, 1024, 2048);
    put(&many, RDMAD_OP_SEND, MANY);
    sim_script()->max_inflight = 0;
    unsigned turns = 0;
    while (chan_of(&c, A)->out.waits < MANY) {
        turn();
        cr_assert_lt(turns++, 1000u, "%u wait", chan_of(&c, A)->out.waits);
    }
    plane_session_drop(c.end[A].client.session, rig_done, &dropped);
    turn();
    uint64_t sent = chan_of(&c, A)->out.next_seq;
    sim_script()->max_inflight = MANY; /* there is room for those that are left */
    turn();
    cr_assert_eq(chan_of(&c, A)->out.next_seq, sent, "%lu more are sent",
                 (unsigned long)(chan_of(&c, A)->out.next_seq - sent));
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    c.end[A].client.session = NULL;
    rig_client_free(&c.end[A].client);
    done();
}

/* ---- RECVs ---- */

static void queue_receives(void) {
    rig_ring_up(&c.end[B].client, &many, 1024, 2048);
    put(&many, RDMAD_OP_RECV, MANY);
    rig_settle(&rig);
    cr_assert_eq(chan_of(&c, B)->in.posted, MANY, "%u", chan_of(&c, B)->in.posted);
    put(&c.end[A].client, RDMAD_OP_SEND, 1);
}

/* The SEND was not received by any of those that went, but is by the next. */
static void next_receives(void) {
    struct rdmad_cqe cqe;
    rig_settle(&rig);
    cr_assert(!chan_take(&c, A, &cqe), "a message is received by what was about to end");
    while (rig_take(&many, &cqe))
        cr_assert_eq(cqe.status, RDMAD_E_CANCELED);
    chan_put(&c, B, RDMAD_OP_RECV, 0, ABOVE_COPY, 8);
    cqe = chan_wait(&c, B);
    cr_assert(cqe.user_data == 8 && cqe.status == RDMAD_OK);
    cr_assert_eq(chan_wait(&c, A).status, RDMAD_OK);
    chan_well(&c);
}

Test(channel_ends, the_receives_of_a_ring_that_goes_take_no_message) {
    struct rig_answer dropped = {0};
    queue_receives();
    plane_ring_drop(c.end[B].client.session, RIG_HANDLE(1), rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    next_receives();
    done();
}

Test(channel_ends, the_receives_in_a_pool_that_goes_take_no_message) {
    struct rig_answer dropped = {0}, added = {0};
    struct rig_client *client = &c.end[B].client;
    queue_receives();
    plane_pool_drop(client->session, RIG_HANDLE(0), rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    plane_pool_add(client->session, RIG_HANDLE(0), client->pool, POOL, NULL, rig_done, &added);
    cr_assert_eq(rig_await(&rig, &added), 0);
    next_receives();
    done();
}

/* The message is there, but not told of when the ring goes; its RECV ends after many SENDs. */
Test(channel_ends, a_message_that_came_for_a_ring_that_goes_is_not_acknowledged) {
    struct rig_answer dropped = {0};
    struct rdmad_sqe recv = chan_sqe(RDMAD_OP_RECV, 0, ABOVE_COPY, 7);
    rig_ring_up(&c.end[B].client, &many, 1024, 2048);
    put(&many, RDMAD_OP_SEND, 300);
    rig_put(&many, &recv);
    rig_settle(&rig);
    chan_put(&c, A, RDMAD_OP_SEND, 0, ABOVE_COPY, 1);
    turn();
    cr_assert(!list_empty(&chan_of(&c, B)->in.arrivals), "it is not under way");
    plane_ring_drop(c.end[B].client.session, RIG_HANDLE(1), rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    next_receives();
    done();
}

Test(channel_ends, a_sender_is_not_asked_for_messages_by_a_channel_that_goes) {
    queue_receives();
    chan_end(&c, B, RDMAD_E_CLOSED, false);
    uint32_t refusals = chan_of(&c, B)->in.state.refusals;
    cr_assert_leq(refusals, 1, "it is refused %u times", refusals);
    done();
}

/* ---- calls that wait for ends ---- */

static unsigned looks, answers;
static bool all_over;

static bool look(struct call *call) {
    (void)call;
    looks++;
    return all_over;
}

static void answered(void *arg, const struct error *result) {
    (void)arg;
    (void)result;
    answers++;
}

Test(channel_ends, a_call_that_waits_does_not_look_at_all_others) {
    struct plane_session *sessions[2] = {c.end[A].client.session, c.end[B].client.session};
    rig_ring_up(&c.end[A].client, &many, 64, 64);
    for (unsigned n = 0; n < MANY; n++) {
        struct plane_session *s = sessions[n % 2];
        call_wait(call_prepare_of(s, CALL_SESSION, NULL, answered, NULL), look);
    }
    cr_assert_leq(looks, MANY, "%u looks at %u calls", looks, MANY);
    all_over = true;
    rig_settle(&rig);
    cr_assert_eq(answers, MANY);
    cr_assert_eq(sessions[0]->op.calls + sessions[1]->op.calls, 0);
    done();
}
