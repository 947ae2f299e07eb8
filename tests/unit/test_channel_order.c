/* SPDX-License-Identifier: MIT */
/* SENDs with fences, in batches and silent, on one daemon and between two. */
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>
#include <string.h>

#define POOL 65536u

static struct rig rig;
static struct chan c;

static void up(bool remote) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 41);
    if (remote)
        chan_remote_up(&rig, &c, POOL);
    else
        chan_local_up(&rig, &c, POOL);
    for (size_t i = 0; i < POOL; i++)
        c.end[A].client.pool[i] = (uint8_t)(i * 13 + i / 257);
}

static void done(void) {
    chan_down(&c);
    rig_down(&rig);
}

TestSuite(channel_order, .timeout = 60);

/* A message whose only content is its imm. */
static void put_send(uint64_t tag, uint8_t flags) {
    struct rdmad_sqe sqe = chan_sqe(RDMAD_OP_SEND, 0, 10, tag);
    sqe.flags = flags | RDMAD_SQE_IMM;
    sqe.imm = (uint32_t)tag;
    rig_put(&c.end[A].client, &sqe);
    rig_settle(&rig);
}

static void receive(uint64_t imm) {
    chan_put(&c, B, RDMAD_OP_RECV, 0, 10, imm);
    struct rdmad_cqe cqe = chan_wait(&c, B);
    cr_assert_eq(cqe.status, 0);
    cr_assert_eq(cqe.imm, imm);
    cr_assert_eq(cqe.flags, RDMAD_CQE_IMM);
    cr_assert_arr_eq(c.end[A].client.pool, c.end[B].client.pool, 10);
}

static void sent(uint64_t tag, int status, uint64_t bytes) {
    struct rdmad_cqe cqe = chan_wait(&c, A);
    cr_assert_eq(cqe.user_data, tag, "%lu instead of %lu", (unsigned long)cqe.user_data,
                 (unsigned long)tag);
    cr_assert_eq(cqe.status, status, "%d", cqe.status);
    cr_assert_eq(cqe.bytes, bytes);
}

static void nothing_sent(void) {
    struct rdmad_cqe cqe;
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
    cr_assert_not(chan_take(&c, A, &cqe), "%lu: %d", (unsigned long)cqe.user_data, cqe.status);
}

static void fences(void) {
    put_send(1, 0);
    put_send(2, RDMAD_SQE_FENCE);
    put_send(3, 0);
    nothing_sent();
    receive(1);
    sent(1, 0, 10);
    for (uint64_t n = 2; n <= 3; n++) {
        receive(n);
        sent(n, 0, 10);
    }
}

Test(channel_order, a_fenced_message_goes_when_those_before_it_arrived) {
    up(false);
    fences();
    done();
}
Test(channel_order, a_fenced_message_goes_when_those_before_it_arrived_there) {
    up(true);
    fences();
    done();
}

static void batches(void) {
    for (uint64_t n = 1; n <= 5; n++)
        put_send(n, n < 5 ? RDMAD_SQE_MORE : 0);
    for (uint64_t n = 1; n <= 5; n++) {
        nothing_sent();
        receive(n);
    }
    sent(5, 0, 50);
    for (uint64_t n = 1; n <= 5; n++) /* and with fences between */
        put_send(n, (uint8_t)((n < 5 ? RDMAD_SQE_MORE : 0) | RDMAD_SQE_FENCE));
    for (uint64_t n = 1; n <= 5; n++) {
        nothing_sent();
        receive(n);
    }
    sent(5, 0, 50);
    nothing_sent();
}

Test(channel_order, a_batch_of_messages_has_one_completion) {
    up(false);
    batches();
    done();
}
Test(channel_order, a_batch_of_messages_to_a_peer_has_one_completion) {
    up(true);
    batches();
    done();
}

static void silence(void) {
    for (uint64_t n = 1; n <= 200; n++) {
        put_send(n, RDMAD_SQE_SILENT);
        receive(n);
    }
    nothing_sent();
    put_send(201, 0);
    receive(201);
    sent(201, 0, 10);
}

Test(channel_order, silent_messages_arrive_and_nothing_else) {
    up(false);
    silence();
    done();
}
Test(channel_order, silent_messages_arrive_at_a_peer_and_nothing_else) {
    up(true);
    silence();
    done();
}

Test(channel_order, a_message_behind_a_fence_can_be_canceled_and_leaves_no_gap) {
    up(true);
    put_send(1, 0);
    put_send(2, RDMAD_SQE_FENCE);
    put_send(3, 0);
    chan_cancel(&c, A, 2);
    sent(2, RDMAD_E_CANCELED, 0);
    while (chan_wait(&c, A).opcode != RDMAD_OP_CANCEL)
        ;
    receive(1);
    sent(1, 0, 10);
    receive(3);
    sent(3, 0, 10);
    done();
}

Test(channel_order, a_channel_that_ends_takes_what_waits_behind_a_fence_with_it) {
    up(false);
    put_send(1, 0);
    put_send(2, RDMAD_SQE_FENCE);
    put_send(3, RDMAD_SQE_MORE);
    put_send(4, 0);
    nothing_sent();
    chan_end(&c, A, RDMAD_E_CLOSED, false);
    sent(1, RDMAD_E_CLOSED, 0);
    sent(2, RDMAD_E_CLOSED, 0);
    sent(4, RDMAD_E_CLOSED, 0);
    nothing_sent();
    cr_assert_eq(c.end[A].client.session->op.inflight, 0);
    done();
}

/* The ring waits for room below the session's limit, and no op that ends makes it: those behind the
 * fence become refusals. */
Test(channel_order, what_is_refused_when_its_fence_lifts_leaves_room_for_the_ring) {
    up(false);
    const unsigned limit = rig.settings.max_session_ops;
    put_send(1, 0);
    for (unsigned n = 1; n < limit; n++)
        put_send(1, RDMAD_SQE_FENCE);
    cr_assert_eq(c.end[A].client.session->op.charged, limit);
    put_send(1, 0);
    struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP, .user_data = 2};
    rig_put(&c.end[A].client, &nop);
    nothing_sent();
    chan_end(&c, B, RDMAD_E_CLOSED, false);
    for (unsigned n = 0; n <= limit; n++)
        sent(1, RDMAD_E_CLOSED, 0);
    sent(2, 0, 0);
    done();
}
