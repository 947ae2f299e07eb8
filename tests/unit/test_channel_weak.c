/* SPDX-License-Identifier: MIT */
/* Channels of the weaker kinds: what arrives is whole, what does not is counted, nobody waits. */
#include "daemon/op/channel/entry.h"
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>
#include <string.h>

#define POOL (1u << 20)
#define COUNT 200u
#define BIG 30000u

static struct rig rig;
static struct chan c;

static void start(uint32_t kind) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 7);
    sim_script()->services = 1u << RDMAD_CHANNEL_DATAGRAM | 1u << RDMAD_CHANNEL_UNACKED;
    chan_weak_up(&rig, &c, POOL, kind);
    rig_run_until(&rig, sim_now() + 100000);
    for (size_t i = 0; i < POOL; i++)
        c.end[A].client.pool[i] = (uint8_t)(i * 13 + i / 257);
}

static void done(void) {
    rig_run_until(&rig, sim_now() + 100000);
    cr_assert_eq(sim_inflight(), 0);
    chan_down(&c);
    rig_down(&rig);
}

TestSuite(channel_weak, .timeout = 60);

static void send_one(uint64_t length, uint32_t imm) {
    struct rdmad_sqe sqe = chan_sqe(RDMAD_OP_SEND, 0, length, 1);
    sqe.flags = RDMAD_SQE_IMM;
    sqe.imm = imm;
    rig_put(&c.end[A].client, &sqe);
    struct rdmad_cqe cqe = chan_wait(&c, A);
    cr_assert_eq(cqe.status, RDMAD_OK, "%d", cqe.status);
    cr_assert_eq(cqe.bytes, length);
}

/* COUNT messages, a receive for each: how many came, all of them whole and in order. */
static unsigned exchange(uint64_t length) {
    struct rdmad_cqe cqe;
    unsigned came = 0;
    uint64_t last = 0;
    for (uint32_t i = 1; i <= COUNT; i++) {
        chan_put(&c, B, RDMAD_OP_RECV, 0, BIG, 2);
        send_one(length, i);
        rig_run_until(&rig, sim_now() + 20000);
        while (chan_take(&c, B, &cqe)) {
            cr_assert_eq(cqe.status, RDMAD_OK);
            cr_assert_eq(cqe.bytes, length);
            cr_assert_gt(cqe.imm, last);
            last = cqe.imm;
            cr_assert_arr_eq(c.end[B].client.pool, c.end[A].client.pool, length);
            came++;
        }
    }
    return came;
}

static void lossy(uint32_t kind, uint64_t length) {
    start(kind);
    cr_assert_eq(exchange(length), COUNT);
    cr_assert_eq(c.end[B].stats.lost, 0);
    sim_script()->lose_weak_ppm = 20000;
    unsigned came = exchange(length);
    cr_assert_lt(came, COUNT);
    sim_script()->lose_weak_ppm = 0;
    exchange(length); /* whatever its beginning, the next is whole */
    cr_assert_eq(c.end[B].stats.lost + came, COUNT);
    cr_assert_eq(c.end[B].stats.messages_received, 2 * COUNT + came);
    done();
}

Test(channel_weak, datagrams_arrive_or_are_counted) {
    lossy(RDMAD_CHANNEL_DATAGRAM, SIM_MAX_DATAGRAM - CHANNEL_HEAD);
}

Test(channel_weak, unacknowledged_messages_of_any_size_arrive_whole_or_are_counted) {
    lossy(RDMAD_CHANNEL_UNACKED, 500);
    lossy(RDMAD_CHANNEL_UNACKED, BIG);
}

Test(channel_weak, a_message_without_a_receive_is_dropped_and_counted) {
    start(RDMAD_CHANNEL_DATAGRAM);
    for (unsigned i = 0; i < 5; i++)
        send_one(10, i);
    rig_run_until(&rig, sim_now() + 100000);
    cr_assert_eq(c.end[B].stats.lost, 5);
    cr_assert_eq(exchange(0), COUNT);
    done();
}

Test(channel_weak, a_datagram_longer_than_a_frame_is_refused) {
    start(RDMAD_CHANNEL_DATAGRAM);
    chan_put(&c, A, RDMAD_OP_SEND, 0, SIM_MAX_DATAGRAM - CHANNEL_HEAD + 1, 1);
    struct rdmad_cqe cqe = chan_wait(&c, A);
    cr_assert_eq(cqe.status, RDMAD_E_RANGE);
    cr_assert_eq(cqe.outcome, RDMAD_FAILED_UNTOUCHED);
    cr_assert_eq(exchange(100), COUNT);
    done();
}

Test(channel_weak, a_receive_too_small_is_told_to_who_posted_it) {
    start(RDMAD_CHANNEL_UNACKED);
    chan_put(&c, B, RDMAD_OP_RECV, 0, 100, 2);
    send_one(BIG, 1);
    struct rdmad_cqe cqe = chan_wait(&c, B);
    cr_assert_eq(cqe.status, RDMAD_E_TOO_SMALL);
    cr_assert_eq(cqe.bytes, BIG);
    rig_run_until(&rig, sim_now() + 100000);
    cr_assert_eq(exchange(BIG), COUNT);
    done();
}

Test(channel_weak, cancellation_links_that_break_and_the_end) {
    start(RDMAD_CHANNEL_UNACKED);
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < 4; i++) {
            chan_put(&c, A, RDMAD_OP_SEND, 0, BIG, i);
            chan_put(&c, B, RDMAD_OP_RECV, 0, BIG, i);
        }
        rig_run_until(&rig, sim_now() + round * 1000);
        if (round % 2)
            chan_break(&c, A);
        for (unsigned i = 0; i < 4; i++) {
            chan_cancel(&c, A, i);
            chan_cancel(&c, B, i);
        }
        for (unsigned n = 0; n < 8; n++) /* four ops, and whatever became of the cancels */
            chan_wait(&c, A);
        for (unsigned n = 0; n < 8; n++)
            chan_wait(&c, B);
        if (round % 2)
            chan_connect(&c, A);
    }
    chan_put(&c, B, RDMAD_OP_RECV, 0, BIG, 1);
    chan_put(&c, A, RDMAD_OP_SEND, 0, BIG, 2);
    rig_settle(&rig);
    chan_end(&c, A, RDMAD_E_CLOSED, true);
    cr_assert_eq(chan_wait(&c, A).status, RDMAD_OK);
    chan_put(&c, B, RDMAD_OP_RECV, 0, BIG, 2);
    chan_wait(&c, B);
    cr_assert_eq(chan_wait(&c, B).status, RDMAD_E_CLOSED);
    cr_assert_eq(c.end[B].closed, 1);
    done();
}

/* What was sent before the end is received or counted, though nothing comes after it. */
Test(channel_weak, the_end_tells_how_many_messages_there_were) {
    start(RDMAD_CHANNEL_DATAGRAM);
    cr_assert_eq(exchange(100), COUNT);
    sim_script()->lose_weak_ppm = 1000000;
    for (uint32_t i = 0; i < 7; i++)
        send_one(100, i);
    sim_script()->lose_weak_ppm = 0;
    rig_run_until(&rig, sim_now() + 100000);
    cr_expect_eq(c.end[B].stats.lost, 0, "nobody can know yet");
    chan_end(&c, A, RDMAD_E_CLOSED, true);
    rig_run_until(&rig, sim_now() + 100000);
    cr_assert_eq(c.end[B].closed, 1);
    cr_expect_eq(c.end[B].stats.lost, 7);
    done();
}

Test(channel_weak, who_has_received_closes_as_orderly_as_who_has_not) {
    start(RDMAD_CHANNEL_UNACKED);
    cr_assert_eq(exchange(BIG), COUNT);
    chan_end(&c, B, RDMAD_E_CLOSED, true);
    rig_run_until(&rig, sim_now() + 100000);
    cr_assert_eq(c.end[A].closed, 1);
    cr_expect_eq(c.end[A].why.code, RDMAD_E_CLOSED, "%s", c.end[A].why.text);
    done();
}

/* The control thread frees them with its end of the channel, perhaps before the worker has heard.
 */
Test(channel_weak, what_comes_after_the_end_is_done_touches_no_numbers_of_the_control_thread) {
    start(RDMAD_CHANNEL_DATAGRAM);
    send_one(100, 1);
    rig_run_until(&rig, sim_now() + 100000);
    cr_expect_eq(c.end[B].stats.lost, 1, "nobody had posted a receive");
    send_one(100, 2);
    chan_end(&c, B, RDMAD_E_CLOSED, true);
    struct plane_channel_stats before = c.end[B].stats;
    for (uint32_t i = 3; i < 6; i++)
        chan_put(&c, A, RDMAD_OP_SEND, 0, 100, i);
    rig_run_until(&rig, sim_now() + 100000);
    cr_expect_arr_eq(&c.end[B].stats, &before, sizeof(before));
    done();
}

/* ---- the other end's daemon lies ----------------------------------------------------------- */

/* spoiled: which byte of it says something; 0: none. */
static void arrive(struct channel_message *m, unsigned spoiled) {
    uint8_t bytes[FABRIC_HEAD_MAX + 1024];
    const struct op_channel *to = chan_of(&c, B);
    m->channel = to->number;
    size_t size = channel_encode(m, bytes), payload = channel_has_payload(m->type) ? m->length : 0;
    memset(bytes + size, 'x', payload);
    if (spoiled)
        bytes[spoiled] = 1;
    channel_received(&rig.plane[THERE]->worker[0], to->peer_in, to->via, bytes, size + payload);
    rig_settle(&rig);
}

static void numbered_piece(uint64_t seq, uint64_t at, uint64_t length, uint64_t whole) {
    struct channel_message m = {.type = CHANNEL_PIECE, .seq = seq, .length = length};
    m.piece = (struct channel_piece){.whole = whole, .at = at};
    arrive(&m, 0);
}

static void piece(uint64_t at, uint64_t length, uint64_t whole) {
    numbered_piece(0, at, length, whole);
}

/* The first tells a length that fits into the receive, the second another. */
Test(channel_weak, a_piece_that_does_not_fit_what_its_message_was_to_be_writes_nothing) {
    static const uint8_t clean[1000];
    start(RDMAD_CHANNEL_UNACKED);
    chan_put(&c, B, RDMAD_OP_RECV, 0, 10, 1);
    rig_settle(&rig);
    piece(0, 5, 10);
    piece(5, 1000, 1005);
    cr_assert_arr_eq(c.end[B].client.pool + 5, clean, sizeof(clean), "it wrote");
    struct rdmad_cqe cqe = chan_wait(&c, B);
    cr_assert_eq(cqe.status, RDMAD_E_PROTOCOL);
    cr_assert_eq(cqe.outcome, RDMAD_FAILED_PARTIAL);
    cr_assert_eq(c.end[B].closed, 1);
    cr_assert(strstr(c.end[B].why.text, "pieces"), "%s", c.end[B].why.text);
    done();
}

/* B's channel ends with a sentence; nothing of it was received. */
static void is_lie(const char *what) {
    cr_assert_eq(chan_wait(&c, B).status, RDMAD_E_PROTOCOL);
    cr_assert_eq(c.end[B].closed, 1);
    cr_assert(strstr(c.end[B].why.text, what), "%s", c.end[B].why.text);
    cr_assert_eq(c.end[B].stats.messages_received, 0);
    done();
}

static void receive_posted(void) {
    start(RDMAD_CHANNEL_UNACKED);
    chan_put(&c, B, RDMAD_OP_RECV, 0, 10, 1);
    rig_settle(&rig);
}

Test(channel_weak, messages_of_channels_with_acknowledgements_end_the_channel) {
    static const uint8_t key[8];
    for (unsigned kind = CHANNEL_STATE; kind <= CHANNEL_FIN; kind++) {
        struct channel_message m = {.type = (uint8_t)kind};
        m.length = kind == CHANNEL_DATA || kind == CHANNEL_OFFER ? 5 : 0;
        if (kind == CHANNEL_OFFER || kind == CHANNEL_KEY)
            m.key = (struct channel_key){.size = sizeof(key), .bytes = key};
        receive_posted();
        arrive(&m, 0);
        is_lie("with acknowledgements");
    }
}

Test(channel_weak, a_piece_outside_of_its_message_ends_the_channel) {
    receive_posted();
    piece(0, 11, 10);
    is_lie("not within its message");
    receive_posted();
    piece(UINT64_MAX - 1, 5, 10);
    is_lie("not within its message");
    receive_posted();
    piece(0, 0, 10);
    is_lie("a piece of no bytes");
}

Test(channel_weak, what_a_piece_has_no_use_for_is_zero) {
    const unsigned unused[] = {16, 27, 31, 48, 79};
    for (size_t i = 0; i < sizeof(unused) / sizeof(*unused); i++) {
        struct channel_message m = {.type = CHANNEL_PIECE, .length = 5, .piece.whole = 5};
        receive_posted();
        arrive(&m, unused[i]);
        is_lie("reserved bytes");
    }
    struct channel_message m = {.type = CHANNEL_TOTAL, .total = 5};
    receive_posted();
    arrive(&m, 40);
    is_lie("reserved bytes");
}

static uint64_t lost(void) {
    return c.end[B].stats.lost;
}

Test(channel_weak, a_receive_canceled_in_mid_message_loses_that_message) {
    start(RDMAD_CHANNEL_UNACKED);
    chan_put(&c, B, RDMAD_OP_RECV, 0, 10, 1);
    rig_settle(&rig);
    piece(0, 5, 10);
    chan_cancel(&c, B, 1);
    chan_wait(&c, B);
    chan_wait(&c, B);
    piece(5, 5, 10);
    cr_assert_eq(lost(), 1);
    cr_assert_eq(c.end[B].stats.messages_received, 0);
    done();
}

Test(channel_weak, a_datagram_that_the_network_doubles_is_received_once) {
    start(RDMAD_CHANNEL_DATAGRAM);
    for (unsigned i = 0; i < 4; i++)
        chan_put(&c, B, RDMAD_OP_RECV, 0, 10, i);
    rig_settle(&rig);
    numbered_piece(1, 0, 10, 10);
    cr_assert_eq(lost(), 1);
    numbered_piece(1, 0, 10, 10);
    numbered_piece(0, 0, 10, 10);
    cr_assert_eq(lost(), 0, "it was only late");
    numbered_piece(0, 0, 10, 10);
    numbered_piece(1, 0, 10, 10);
    cr_assert_eq(lost(), 0);
    cr_assert_eq(c.end[B].stats.messages_received, 2);
    numbered_piece(100, 0, 10, 10);
    numbered_piece(2, 0, 10, 10); /* so late that nobody knows whether it came before */
    cr_assert_eq(lost(), 98);
    cr_assert_eq(c.end[B].stats.messages_received, 3);
    done();
}

Test(channel_weak, an_unacknowledged_message_never_comes_after_a_later_one) {
    start(RDMAD_CHANNEL_UNACKED);
    for (unsigned i = 0; i < 2; i++)
        chan_put(&c, B, RDMAD_OP_RECV, 0, 10, i);
    rig_settle(&rig);
    numbered_piece(1, 0, 10, 10);
    numbered_piece(0, 0, 10, 10);
    cr_assert_eq(lost(), 1);
    cr_assert_eq(c.end[B].stats.messages_received, 1);
    done();
}

Test(channel_weak, numbers_beyond_all_that_can_be_lost_end_the_channel_and_count_nothing) {
    start(RDMAD_CHANNEL_DATAGRAM);
    numbered_piece(UINT64_MAX, 0, 10, 10);
    rig_run_until(&rig, sim_now() + 100000);
    cr_assert_eq(c.end[B].closed, 1);
    cr_assert_eq(c.end[B].why.code, RDMAD_E_PROTOCOL, "%s", c.end[B].why.text);
    cr_assert_eq(lost(), 0);
    done();
}
