/* SPDX-License-Identifier: MIT */
/*
 * Channels with a peer that was lost: which of the two ends asks, what it is answered, and that
 * nobody else gets the end.
 */
#include "daemon/state/channel_away.h"
#include "tests/unit/chan_steps.h"
#include <poll.h>
#include <sys/socket.h>

static void up_returning(void) {
    up();
    rig.config.peer_return_ms = 5000;
    s->origin.life = 1;
}

TestSuite(peer_chan_return, .init = up_returning, .fini = down, .timeout = 60);

#define KEY 0xa5

static struct peer_msg asks(uint16_t type, uint64_t ref) {
    struct peer_msg m = {.type = type};
    m.chan_req = (struct peer_chan_req){
        .ref = ref, .uid = 42, .worker = THERE, .port = uri.port, .service = "rpc"};
    memset(m.chan_req.token, KEY, sizeof(m.chan_req.token));
    return m;
}

/* An open channel that the peer has connected to us. */
static void accepted(void) {
    struct peer_msg m = asks(PEER_MSG_CHAN_REQ, REF);
    in = raw_greet();
    raw_send(in, &m);
    AWAIT(sv->waiting == 1);
    ch = end_of(s, &done);
    ch->accepted = true;
    incoming_accept(waiting(sv), ch, 1000 * MS);
    out = answer_dial(2);
    AWAIT(fake_pending(FAKE_CHANNEL_ADD) == 1);
    fake_answer(fake_call(FAKE_CHANNEL_ADD, 0), 0);
    raw_expect(out, PEER_MSG_CHAN_BIND);
    open_lane();
    m = (struct peer_msg){.type = PEER_MSG_CHAN_OPEN, .chan_open.ref = ch->number};
    raw_send(in, &m);
    AWAIT(done.calls == 1);
    cr_assert_eq(done.code, 0, "%s", done.text);
}

static void answer_what_follows(void) {
    for (int i = 0; i < 5; i++) {
        fake_answer_all();
        settle();
    }
}

static void lose_both(void) {
    raw_close(in);
    raw_close(out);
    AWAIT(fake_pending(FAKE_CHANNEL_REST) == 1);
    cr_expect_eq(ch->way, CHANNEL_RESTING);
    answer_what_follows();
    cr_assert_eq(ch->way, CHANNEL_AWAY);
}

static void expect_refused(struct peer_msg *m, int status) {
    raw_send(in, m);
    struct peer_msg is = raw_expect(in, PEER_MSG_CHAN_REFUSE);
    cr_expect_eq(is.chan_refuse.ref, m->chan_req.ref);
    cr_expect_eq(is.chan_refuse.status, status, "%d: %s", is.chan_refuse.status,
                 is.chan_refuse.text);
    cr_expect_neq(ch->way, CHANNEL_COMING);
}

Test(peer_chan_return, an_end_waits_for_its_other_end_and_is_bound_again) {
    accepted();
    lose_both();
    cr_expect_eq(rig_events(s, RDMAD_EV_CHANNEL_CLOSED), 0);
    struct peer_msg m = asks(PEER_MSG_CHAN_AGAIN, REF + 1);
    in = raw_greet();
    raw_send(in, &m);
    out = answer_dial(2);
    AWAIT(fake_pending(FAKE_CHANNEL_WAY) == 1);
    cr_expect_eq(ch->way, CHANNEL_COMING);
    fake_answer(fake_call(FAKE_CHANNEL_WAY, 0), 0);
    struct peer_msg bind = raw_expect(out, PEER_MSG_CHAN_BIND);
    cr_expect_eq(bind.chan_bind.ref, REF + 1);
    cr_expect_eq(bind.chan_bind.number, ch->number);
    open_lane();
    m = (struct peer_msg){.type = PEER_MSG_CHAN_OPEN, .chan_open.ref = ch->number};
    raw_send(in, &m);
    AWAIT(ch->way == CHANNEL_THERE);
    cr_expect_eq(fake_call(FAKE_CHANNEL_OPEN, -1)->peer_number, REF + 1);
    cr_expect_eq(done.calls, 1, "it was opened once");
}

/* The peer's word that the channel is open was on its way, so it is no lie. */
Test(peer_chan_return, what_was_on_its_way_when_one_connection_was_lost_costs_the_other_nothing) {
    accepted();
    lose_both();
    struct peer_msg m = asks(PEER_MSG_CHAN_AGAIN, REF + 1);
    in = raw_greet();
    raw_send(in, &m);
    out = answer_dial(2);
    AWAIT(fake_pending(FAKE_CHANNEL_WAY) == 1);
    fake_answer(fake_call(FAKE_CHANNEL_WAY, 0), 0);
    raw_expect(out, PEER_MSG_CHAN_BIND);
    raw_close(out);
    AWAIT(ch->way == CHANNEL_RESTING);
    m = (struct peer_msg){.type = PEER_MSG_CHAN_OPEN, .chan_open.ref = ch->number};
    raw_send(in, &m);
    quiet();
    fake_answer_all();
    expect_end(in, REF + 1, false, RDMAD_E_PEER_LOST); /* of the channel, not of the connection */
    cr_expect_eq(ch->way, CHANNEL_AWAY);
}

Test(peer_chan_return, nobody_else_gets_the_end) {
    accepted();
    struct peer_msg m = asks(PEER_MSG_CHAN_AGAIN, REF + 1);
    expect_refused(&m, RDMAD_E_NO_LEASE); /* it is not away */
    lose_both();
    in = raw_greet();
    m.chan_req.token[15] ^= 1;
    expect_refused(&m, RDMAD_E_NO_LEASE);
    m.chan_req.token[15] ^= 1;
    m.chan_req.uid++;
    expect_refused(&m, RDMAD_E_PERM);
    m.chan_req.uid--;
    ch->peer_proven = true; /* and this connection is not */
    expect_refused(&m, RDMAD_E_PERM);
    ch->peer_proven = false;
    strcpy(ch->peer_node, "someone");
    expect_refused(&m, RDMAD_E_PERM);
    cr_expect_eq(ch->way, CHANNEL_AWAY);
    cr_expect_eq(channel_away_find(&rig.st, ch->key, true), ch);
}

Test(peer_chan_return, who_asks_for_an_end_that_was_closed_meanwhile_hears_that_and_nobody_else) {
    struct rig_done let_go = {0};
    struct peer_msg m = asks(PEER_MSG_CHAN_AGAIN, REF + 1);
    accepted();
    lose_both();
    channel_close(ch, false, rig_done, &let_go);
    fake_answer_all();
    cr_assert_eq(let_go.calls, 1);
    in = raw_greet();
    m.chan_req.uid++;
    expect_refused(&m, RDMAD_E_NO_LEASE);
    m.chan_req.uid--;
    expect_refused(&m, RDMAD_E_CANCELED);
}

/* Its worker knows of the other end's end, and we do not yet. */
Test(peer_chan_return, an_end_that_is_being_closed_and_whose_other_end_is_over_is_found_no_more) {
    struct rig_done let_go = {0};
    struct peer_msg m = asks(PEER_MSG_CHAN_AGAIN, REF + 1);
    accepted();
    channel_close(ch, true, rig_done, &let_go);
    AWAIT(fake_pending(FAKE_CHANNEL_END) == 1);
    say_end(in, ch->number, false, RDMAD_E_TIMEOUT);
    AWAIT(fake_pending(FAKE_CHANNEL_REST) == 1);
    fake_answer(fake_call(FAKE_CHANNEL_REST, -1), RDMAD_E_PEER_LOST);
    expect_refused(&m, RDMAD_E_NO_LEASE);
    cr_expect_neq(ch->way, CHANNEL_AWAY);
    fake_answer_all();
    cr_expect_eq(let_go.calls, 1);
}

Test(peer_chan_return, keys_that_are_made_up_leave_nothing) {
    accepted();
    lose_both();
    in = raw_greet();
    for (uint64_t i = 0; i < 300; i++) {
        struct peer_msg m = asks(PEER_MSG_CHAN_AGAIN, REF + i);
        memcpy(m.chan_req.token, &i, sizeof(i));
        expect_refused(&m, RDMAD_E_NO_LEASE);
    }
    cr_expect_eq(fake_count(FAKE_CHANNEL_WAY), 0);
}

Test(peer_chan_return, the_loss_of_one_connection_is_told_by_the_other) {
    accepted();
    raw_close(in);
    AWAIT(fake_pending(FAKE_CHANNEL_REST) == 1);
    fake_answer_all();
    expect_end(out, REF, false, RDMAD_E_PEER_LOST);
    cr_expect_eq(ch->way, CHANNEL_AWAY);
}

Test(peer_chan_return, an_end_that_the_peer_has_lost_is_lost) {
    accepted();
    say_end(in, ch->number, false, RDMAD_E_PEER_LOST);
    AWAIT(ch->way == CHANNEL_RESTING);
    fake_answer_all();
    cr_expect_eq(ch->way, CHANNEL_AWAY);
    cr_expect_eq(rig_events(s, RDMAD_EV_CHANNEL_CLOSED), 0);
}

Test(peer_chan_return, an_end_that_the_peer_has_closed_is_closed) {
    accepted();
    say_end(in, ch->number, false, RDMAD_E_CLOSED);
    AWAIT(fake_pending(FAKE_CHANNEL_END) == 1);
    fake_answer_all();
    cr_expect_eq(rig_last_event(s)->reason, RDMAD_E_CLOSED);
}

/* ---- we have connected, and ask ---- */

static void say_bind(uint64_t ref, uint64_t number, uint32_t uid) {
    struct peer_msg m = {.type = PEER_MSG_CHAN_BIND};
    m.chan_bind =
        (struct peer_chan_bind){.ref = ref, .number = number, .uid = uid, .worker = THERE};
    memcpy(m.chan_bind.token, ch->key, sizeof(m.chan_bind.token));
    raw_send(in, &m);
}

static uint32_t asked_as = RDMAD_CHANNEL_RELIABLE;

static void connected(void) {
    ch = end_of(s, &done);
    ch->asked = asked_as;
    peer_connect(rig.st.peers, ch, &uri, 1000 * MS);
    out = answer_dial(2);
    struct peer_msg m = raw_expect(out, PEER_MSG_CHAN_REQ);
    in = raw_greet();
    say_bind(m.chan_req.ref, REF, 42);
    AWAIT(fake_pending(FAKE_CHANNEL_ADD) == 1);
    fake_answer(fake_call(FAKE_CHANNEL_ADD, 0), 0);
    raw_expect(out, PEER_MSG_CHAN_OPEN);
    open_lane();
    AWAIT(done.calls == 1);
    cr_assert_eq(done.code, 0, "%s", done.text);
}

static struct peer_msg asked_again(void) {
    for (int i = 0; i < 50; i++) { /* the pauses are short at first */
        rig_advance(5 * MS);
        settle();
    }
    out = answer_dial(2);
    return raw_expect(out, PEER_MSG_CHAN_AGAIN);
}

Test(peer_chan_return, whoever_connected_asks_with_the_key_until_it_is_there) {
    connected();
    lose_both();
    struct peer_msg m = asked_again();
    cr_expect_eq(m.chan_req.ref, ch->number);
    cr_expect_eq(memcmp(m.chan_req.token, ch->key, sizeof(m.chan_req.token)), 0);
    struct peer_msg no = {.type = PEER_MSG_CHAN_REFUSE,
                          .chan_refuse = {m.chan_req.ref, RDMAD_E_NO_LEASE, "not yet"}};
    raw_send(out, &no);
    AWAIT(ch->way == CHANNEL_AWAY);
    for (int i = 0; i < 50; i++) {
        rig_advance(5 * MS);
        settle();
    }
    m = raw_expect(out, PEER_MSG_CHAN_AGAIN);
    in = raw_greet();
    say_bind(m.chan_req.ref, REF + 1, 42);
    AWAIT(fake_pending(FAKE_CHANNEL_WAY) == 1);
    fake_answer(fake_call(FAKE_CHANNEL_WAY, 0), 0);
    raw_expect(out, PEER_MSG_CHAN_OPEN);
    open_lane();
    AWAIT(ch->way == CHANNEL_THERE);
    cr_expect_eq(rig_events(s, RDMAD_EV_CHANNEL_CLOSED), 0);
}

static void advance_ms(uint64_t ms) {
    for (uint64_t i = 0; i < ms; i += 100) {
        rig_advance(100 * MS);
        settle();
        fake_answer_all();
    }
}

static void advance_until_dialled(uint64_t most_ms) {
    struct pollfd dialled = {.fd = listener->fd, .events = POLLIN};
    for (uint64_t i = 0; i < most_ms && poll(&dialled, 1, 0) == 0; i += 100)
        advance_ms(100);
}

/* The network takes what the peer says on one connection, then on both; as it is set. */
static void lose_one_then_the_other(void) {
    const uint64_t dead_ms = rig.config.peer_dead_ms;
    struct config defaults;
    config_defaults(&defaults);
    rig.config.peer_return_ms = defaults.peer_return_ms;
    connected();
    cr_assert_eq(dead_ms, defaults.peer_dead_ms);
    advance_ms(dead_ms / 2);
    struct peer_msg alive = {.type = PEER_MSG_PONG};
    raw_send(out, &alive);
    advance_ms(dead_ms / 2 - 1000);
    raw_send(out, &alive); /* the last that it says, as the other connection is given up */
    advance_ms(1000);
    cr_expect_eq(ch->way, CHANNEL_AWAY); /* it asks by that one, gives up, and asks again */
    advance_until_dialled(dead_ms + 2000);
    struct raw *next = answer_dial(2);
    struct peer_msg m = raw_expect(next, PEER_MSG_CHAN_AGAIN);
    cr_expect_eq(m.chan_req.ref, ch->number);
    cr_expect_eq(rig_events(s, RDMAD_EV_CHANNEL_CLOSED), 0);
}

Test(peer_chan_return, a_loss_that_two_connections_notice_apart_is_waited_for) {
    lose_one_then_the_other();
}

/* The connection that is left is needed for moments only. */
Test(peer_chan_return, a_loss_is_noticed_by_who_asks_often_and_for_a_short_time) {
    rig.config.attach_timeout_ms = 100;
    lose_one_then_the_other();
}

/* Its daemon stood still, and the question was over before the peer could be pinged. */
Test(peer_chan_return, a_peer_that_nobody_has_pinged_has_time_to_answer) {
    const struct peer_msg alive = {.type = PEER_MSG_PONG};
    const uint64_t ping_ms = rig.config.peer_ping_ms, dead_ms = rig.config.peer_dead_ms;
    rig.config.peer_return_ms = 600000;
    connected();
    raw_close(in);
    AWAIT(ch->way == CHANNEL_RESTING);
    fake_answer_all();
    for (int i = 0; i < 2; i++) {
        advance_ms(ping_ms - 100);
        raw_send(out, &alive);
    }
    advance_ms(200);
    cr_assert_eq(ch->way, CHANNEL_COMING);
    rig_advance(60000 * MS);
    settle();
    cr_assert_eq(ch->way, CHANNEL_AWAY, "it has not given up asking");
    advance_ms(500);
    cr_expect_eq(ch->way, CHANNEL_COMING);
    advance_ms(dead_ms - ping_ms - 600);
    cr_expect_lt(accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC), 0, "it is dialled anew");
}

Test(peer_chan_return, a_refusal_that_no_time_mends_ends_it) {
    connected();
    lose_both();
    struct peer_msg m = asked_again();
    struct peer_msg no = {.type = PEER_MSG_CHAN_REFUSE,
                          .chan_refuse = {m.chan_req.ref, RDMAD_E_PERM, "not you"}};
    raw_send(out, &no);
    AWAIT(fake_pending(FAKE_CHANNEL_END) == 1);
    fake_answer_all();
    cr_expect_eq(rig_last_event(s)->reason, RDMAD_E_PERM);
}

Test(peer_chan_return, an_end_that_comes_back_as_somebody_else_is_none) {
    connected();
    lose_both();
    struct peer_msg m = asked_again();
    in = raw_greet();
    say_bind(m.chan_req.ref, REF + 1, 43);
    AWAIT(fake_pending(FAKE_CHANNEL_END) == 1);
    fake_answer_all();
    cr_expect_eq(rig_last_event(s)->reason, RDMAD_E_PROTOCOL);
    cr_expect_eq(fake_count(FAKE_CHANNEL_WAY), 0);
}

/* Our connection has ended by that, and with it the channel; its worker has not answered yet. */
Test(peer_chan_return, an_end_whose_way_to_ask_is_gone_is_bound_no_more) {
    const uint8_t no_frame[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    connected();
    lose_both();
    struct peer_msg m = asked_again();
    in = raw_greet();
    raw_bytes(out, no_frame, sizeof(no_frame));
    AWAIT(fake_pending(FAKE_CHANNEL_END) == 1);
    say_bind(m.chan_req.ref, REF + 1, 42);
    expect_end(in, REF + 1, false, RDMAD_E_PEER_LOST);
    cr_expect_eq(fake_count(FAKE_CHANNEL_WAY), 0);
    fake_answer_all();
}

/* What it is depends on the fabric, and only a reliable one comes back. */
Test(peer_chan_return, one_that_was_asked_for_as_another_kind_comes_back_as_what_it_is) {
    asked_as = RDMAD_CHANNEL_DATAGRAM;
    connected();
    cr_assert_eq(ch->kind, RDMAD_CHANNEL_RELIABLE);
    lose_both();
    struct peer_msg m = asked_again();
    cr_expect_eq(m.chan_req.asked, RDMAD_CHANNEL_RELIABLE);
    cr_expect_eq(m.chan_req.kind, RDMAD_CHANNEL_RELIABLE);
    in = raw_greet();
    say_bind(m.chan_req.ref, REF + 1, 42);
    AWAIT(fake_pending(FAKE_CHANNEL_WAY) == 1);
    fake_answer(fake_call(FAKE_CHANNEL_WAY, 0), 0);
    raw_expect(out, PEER_MSG_CHAN_OPEN);
}

/* ---- the session goes while its end comes back ---- */

/* Until the data plane has let go of the session. */
static void goes(void) {
    rig_close(s);
    cr_assert_eq(fake_pending(FAKE_SESSION_DROP), 1);
}

/* Nothing was made for it, and what is said by the number that the peer knows ends the way. */
static void expect_no_way(void) {
    quiet();
    cr_expect_eq(fake_count(FAKE_CHANNEL_WAY), 0);
    cr_expect_eq(fake_pending(FAKE_SESSION_DROP), 1);
}

Test(peer_chan_return, an_end_whose_session_goes_is_bound_no_more) {
    connected();
    lose_both();
    struct peer_msg m = asked_again();
    in = raw_greet();
    goes();
    say_bind(m.chan_req.ref, REF + 1, 42);
    expect_no_way();
    fake_answer_all();
    expect_end(out, m.chan_req.ref, true, RDMAD_E_CANCELED);
}

Test(peer_chan_return, an_end_whose_session_goes_is_bound_once_however_often_that_is_said) {
    connected();
    lose_both();
    struct peer_msg m = asked_again();
    in = raw_greet();
    goes();
    for (unsigned i = 0; i < 2; i++)
        say_bind(m.chan_req.ref, REF + 1, 42);
    expect_end(in, REF + 1, false, RDMAD_E_PEER_LOST); /* the second is told so */
    expect_no_way();
    fake_answer_all();
    expect_end(out, m.chan_req.ref, true, RDMAD_E_CANCELED);
}

Test(peer_chan_return, an_end_whose_session_goes_is_asked_for_no_more) {
    connected();
    lose_both();
    for (int i = 0; i < 50; i++) {
        rig_advance(5 * MS);
        settle();
    }
    goes();
    out = answer_dial(2);
    expect_no_way();
    cr_expect(raw_silent(out));
}

Test(peer_chan_return, an_end_whose_session_goes_is_not_dialled_back_for) {
    accepted();
    lose_both();
    struct peer_msg m = asks(PEER_MSG_CHAN_AGAIN, REF + 1);
    in = raw_greet();
    raw_send(in, &m);
    AWAIT(ch->way == CHANNEL_COMING);
    goes();
    out = answer_dial(2);
    expect_no_way();
    fake_answer_all();
    m = raw_expect(in, PEER_MSG_CHAN_REFUSE);
    cr_expect_eq(m.chan_refuse.ref, REF + 1);
}

/* The daemon stops. If the session goes on with the next one, the other end waits for it. */
static void stops(bool goes_on) {
    accepted();
    rig.st.stopping = true;
    s->goes_on = goes_on;
    goes();
    answer_what_follows();
    if (goes_on) {
        quiet();
        cr_expect(raw_silent(out) && raw_silent(in), "the other end is told that it is gone");
    } else {
        expect_end(out, REF, false, RDMAD_E_CANCELED);
    }
    rig.st.stopping = false;
}

Test(peer_chan_return, an_end_that_moves_to_the_next_daemon_is_not_told_to_be_gone) {
    stops(true);
}

Test(peer_chan_return, an_end_whose_program_went_meanwhile_is) {
    stops(false);
}
