/* SPDX-License-Identifier: MIT */
/*
 * The other end's daemon lies. Its channel ends with a sentence, at once; whatever else the worker
 * serves goes on; and what names a channel that is not that daemon's is as if it had not come.
 */
#include "daemon/op/channel/entry.h"
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define POOL (1u << 18)
#define LARGE 100000u
#define RANDOM_ROUNDS 60u

static struct rig rig;
static struct chan c, witness;

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 5);
    chan_remote_up(&rig, &c, POOL);
    chan_remote_up(&rig, &witness, POOL);
}

static void exchange(struct chan *w, uint64_t length) {
    chan_put(w, B, RDMAD_OP_RECV, 0, length, 1);
    chan_put(w, A, RDMAD_OP_SEND, 0, length, 2);
    cr_assert_eq(chan_wait(w, B).status, RDMAD_OK);
    cr_assert_eq(chan_wait(w, A).status, RDMAD_OK);
}

static void done(void) {
    exchange(&witness, 10);
    exchange(&witness, LARGE);
    cr_assert_eq(witness.end[A].closed + witness.end[B].closed, 0);
    chan_down(&c);
    chan_down(&witness);
    rig_down(&rig);
}

TestSuite(channel_hostile, .init = setup, .timeout = 120);

static const uint8_t some_key[FABRIC_BLOB_MAX] = {1};

/* What A might say to B now, if it were honest. */
static struct channel_message honest(uint8_t type) {
    struct channel_message m;
    channel_message_init(chan_of(&c, A), &m, type);
    if (type == CHANNEL_DATA || type == CHANNEL_OFFER)
        m.seq = chan_of(&c, B)->in.state.expect;
    if (type == CHANNEL_OFFER || type == CHANNEL_KEY)
        m.key = (struct channel_key){.size = 8, .bytes = some_key};
    if (type == CHANNEL_OFFER)
        m.length = 5;
    return m;
}

static void arrive_from(uint64_t peer, uint64_t number, const uint8_t *bytes, size_t size) {
    uint8_t *exact = malloc(size ? size : 1); /* so that reading on shows */
    memcpy(exact, bytes, size);
    channel_received(&rig.plane[THERE]->worker[0], peer, number, exact, size);
    free(exact);
    rig_settle(&rig);
}

static void arrive(const uint8_t *bytes, size_t size) {
    const struct op_channel *to = chan_of(&c, B);
    arrive_from(c.end[B].peer_in, to->via, bytes, size);
}

static size_t bytes_of(const struct channel_message *m, uint8_t *out) {
    size_t size = channel_encode(m, out);
    size_t payload = channel_has_payload(m->type) && m->length <= 1000 ? m->length : 0;
    memset(out + size, 'x', payload);
    return size + payload;
}

static void say(const struct channel_message *m) {
    uint8_t bytes[FABRIC_HEAD_MAX + 1024];
    arrive(bytes, bytes_of(m, bytes));
}

static void is_lie(void) {
    struct rdmad_cqe cqe;
    cr_assert_eq(c.end[B].closed, 1, "nobody noticed");
    cr_assert_eq(c.end[B].why.code, RDMAD_E_PROTOCOL);
    cr_assert(strstr(c.end[B].why.text, "breaks the protocol"), "%s", c.end[B].why.text);
    cr_assert(chan_take(&c, B, &cqe), "its receive goes on");
    cr_assert_eq(cqe.status, RDMAD_E_PROTOCOL);
    chan_put(&c, B, RDMAD_OP_SEND, 0, 1, 9);
    cr_assert_eq(chan_wait(&c, B).status, RDMAD_E_PROTOCOL);
    done();
}

static void receive_posted(uint64_t length) {
    chan_put(&c, B, RDMAD_OP_RECV, 0, length, 1);
    rig_run_until(&rig, sim_now() + 100000);
}

#define LIE(name, kind, statement)               \
    Test(channel_hostile, name) {                \
        exchange(&c, 10);                        \
        receive_posted(100);                     \
        struct channel_message m = honest(kind); \
        statement;                               \
        say(&m);                                 \
        is_lie();                                \
    }

LIE(an_acknowledgement_of_what_was_not_sent, CHANNEL_STATE,
    m.state.next = m.state.expect = m.state.limit = 7)
LIE(an_expectation_beyond_what_was_sent, CHANNEL_STATE, m.state.expect = m.state.limit = 7)
LIE(a_limit_below_what_is_expected, CHANNEL_STATE, m.state.expect = 1)
LIE(an_absurd_limit, CHANNEL_STATE, m.state.limit = UINT64_MAX)
LIE(hearing_of_what_was_not_said, CHANNEL_STATE, m.state.heard = 5)
LIE(unhearing_what_was_said, CHANNEL_STATE, (say(&m), m.state.heard = 0))
LIE(a_message_that_is_both_gone_and_too_long, CHANNEL_STATE, m.state.gone = m.state.small = 1)
LIE(more_than_there_are_receives_for, CHANNEL_DATA,
    (chan_of(&c, B)->in.state.limit = chan_of(&c, B)->in.state.expect))
LIE(more_on_their_way_than_there_may_be, CHANNEL_DATA,
    (chan_of(&c, B)->in.state.expect += CHANNEL_WINDOW, m.seq = chan_of(&c, B)->in.state.expect,
     chan_of(&c, B)->in.state.limit = m.seq + 1))
LIE(a_message_again, CHANNEL_DATA, m.seq = 0)
LIE(a_message_of_another_length, CHANNEL_DATA, m.length = 5000)
LIE(an_offer_of_nothing, CHANNEL_OFFER, m.length = 0)
LIE(an_offer_without_a_key, CHANNEL_OFFER, m.key.size = 0)
LIE(a_kind_that_is_none, CHANNEL_STATE, m.type = CHANNEL_TYPES)
LIE(a_flag_that_is_none, CHANNEL_DATA, m.flags = 8)
LIE(immediate_data_unflagged, CHANNEL_DATA, m.imm = 1)
LIE(a_number_where_none_belongs, CHANNEL_STATE, m.seq = 1)
LIE(a_length_where_none_belongs, CHANNEL_FIN, m.length = 1)
LIE(a_piece_where_messages_are_acknowledged, CHANNEL_PIECE, m.piece.whole = m.length = 5)
LIE(an_end_without_a_state, CHANNEL_TOTAL, m.total = 1)

Test(channel_hostile, a_limit_that_runs_back) {
    chan_put(&c, A, RDMAD_OP_RECV, 0, 10, 1);
    receive_posted(10);
    cr_assert_eq(chan_of(&c, B)->out.limit, 1);
    struct channel_message m = honest(CHANNEL_STATE);
    m.state.limit = 0;
    say(&m);
    is_lie();
}

Test(channel_hostile, a_key_longer_than_its_message) {
    uint8_t bytes[FABRIC_HEAD_MAX];
    receive_posted(10);
    struct channel_message m = honest(CHANNEL_OFFER);
    size_t size = channel_encode(&m, bytes);
    arrive(bytes, size - 1);
    is_lie();
}

Test(channel_hostile, a_message_cut_short_anywhere) {
    uint8_t bytes[FABRIC_HEAD_MAX];
    for (size_t size = 0; size < CHANNEL_HEAD; size += 5) {
        receive_posted(10);
        struct channel_message m = honest(CHANNEL_STATE);
        channel_encode(&m, bytes);
        arrive(bytes, size);
        cr_assert_eq(c.end[B].closed, size >= 16, "of %zu bytes", size);
        done();
        setup();
    }
    done();
}

/* A window that the sender does not have: its message is gone, and the receive stays. */
Test(channel_hostile, an_offer_whose_key_is_good_for_nothing) {
    receive_posted(LARGE);
    struct channel_message m = honest(CHANNEL_OFFER);
    m.length = LARGE;
    say(&m);
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
    cr_assert_eq(c.end[B].stats.receives_posted, 1);
    cr_assert_eq(chan_of(&c, B)->in.state.next, 1);
    done();
}

/* Nothing of these is for B's channel: it lives on, and so does its receive. */
Test(channel_hostile, what_is_not_from_its_other_end_is_ignored) {
    uint8_t bytes[FABRIC_HEAD_MAX + 1024];
    struct rdmad_cqe cqe;
    receive_posted(1000);
    const uint64_t via = chan_of(&c, B)->via, peer = c.end[B].peer_in;
    for (unsigned kind = CHANNEL_STATE; kind < CHANNEL_TYPES; kind++) {
        struct channel_message m = honest((uint8_t)kind);
        size_t size = bytes_of(&m, bytes);
        arrive_from(peer + 1, via, bytes, size);
        arrive_from(peer, via + 100, bytes, size); /* also a SYNC: of an epoch that was */
        m.channel = 12345;
        arrive(bytes, bytes_of(&m, bytes));
    }
    cr_assert_eq(c.end[B].closed, 0);
    cr_assert(!chan_take(&c, B, &cqe));
    chan_put(&c, A, RDMAD_OP_SEND, 0, 1000, 2);
    cr_assert_eq(chan_wait(&c, B).status, RDMAD_OK);
    done();
}

Test(channel_hostile, messages_for_a_channel_that_is_gone_are_ignored) {
    struct channel_message m = honest(CHANNEL_DATA);
    uint8_t bytes[FABRIC_HEAD_MAX];
    size_t size = bytes_of(&m, bytes);
    chan_end(&c, B, RDMAD_E_CLOSED, false);
    plane_channel_forget(c.end[B].client.session, CHAN_HANDLE);
    rig_settle(&rig);
    cr_assert_null(chan_of(&c, B));
    arrive_from(c.end[B].peer_in, 1, bytes, size);
    done();
}

/* ---- at random --------------------------------------------------------------------------- */

static uint64_t some(uint64_t around) {
    switch (sim_random(8)) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX - sim_random(3);
    case 2:
        return sim_random(UINT64_MAX);
    default:
        return around + sim_random(5) - 2;
    }
}

static void change(struct channel_message *m) {
    struct channel_state *st = &m->state;
    uint64_t *const words[] = {&st->next, &st->expect, &st->limit, &st->small,
                               &st->gone, &st->heard,  &m->length, &m->seq};
    for (uint64_t n = sim_random(3); n > 0; n--) {
        uint64_t which = sim_random(10);
        if (which < 8)
            *words[which] = some(*words[which]);
        else if (which == 8)
            st->refusals += (uint32_t)sim_random(3);
        else
            st->epoch += (uint32_t)sim_random(3);
    }
    if (m->key.size > FABRIC_BLOB_MAX)
        m->key.size = FABRIC_BLOB_MAX;
}

static void traffic(void) {
    for (int end = A; end <= B; end++) {
        uint64_t length = sim_random(3) ? sim_random(2000) : LARGE;
        chan_put(&c, end, RDMAD_OP_RECV, 0, sim_random(20) ? LARGE : 1, 1);
        chan_put(&c, end, RDMAD_OP_SEND, 0, length, 2);
        if (sim_random(10) == 0)
            chan_cancel(&c, end, 1 + sim_random(2));
    }
}

static void attack(void) {
    uint8_t bytes[FABRIC_HEAD_MAX + 1024];
    struct rdmad_cqe cqe;
    for (unsigned n = 0; n < 300 && !c.end[B].closed && !c.end[A].closed; n++) {
        if (sim_random(4) == 0)
            traffic();
        rig_step(&rig, sim_now() + sim_random(5000));
        struct channel_message m = honest((uint8_t)(1 + sim_random(CHANNEL_FIN)));
        if (m.type == CHANNEL_DATA)
            m.length = sim_random(1000);
        change(&m);
        size_t size = bytes_of(&m, bytes);
        if (sim_random(8) == 0)
            bytes[sim_random(size)] ^= (uint8_t)(1u << sim_random(8));
        arrive(bytes, size);
        for (int end = A; end <= B; end++)
            while (chan_take(&c, end, &cqe))
                ;
    }
}

Test(channel_hostile, whatever_it_says_at_random_the_rest_goes_on) {
    unsigned lies = 0;
    for (unsigned round = 0; round < RANDOM_ROUNDS; round++) {
        attack();
        lies += c.end[B].closed;
        rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
        done();
        struct plane_settings settings;
        rig_defaults(&settings);
        rig_up(&rig, &settings, 100 + round);
        chan_remote_up(&rig, &c, POOL);
        chan_remote_up(&rig, &witness, POOL);
    }
    cr_assert_gt(lies, RANDOM_ROUNDS / 2);
    done();
}
