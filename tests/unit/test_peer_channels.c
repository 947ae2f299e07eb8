/* SPDX-License-Identifier: MIT */
/*
 * Channels to peers, both ways round: each step of the handshake done well, refused, late, lost,
 * given up and lied about. The other daemon is the test, on raw sockets.
 */
#include "daemon/peer/internal.h"
#include "tests/unit/channel_steps.h"
#include "tests/unit/peer_rig.h"

#define THERE 3u /* the worker of the other end */
#define REF 77u  /* the other end's number */

static struct raw *listener, *in, *out; /* where we dial; it dials us, we dial it */
static struct rdmad_uri uri;
static struct session *s;
static struct service *sv;
static struct channel *ch;
static struct rig_done done, closed;

static void up(void) {
    peer_rig_up();
    memset(&uri, 0, sizeof(uri));
    strcpy(uri.host, "127.0.0.1");
    strcpy(uri.name, "far");
    listener = raw_listen(&uri.port);
    s = rig_session(1000);
    sv = service_up(s, "rpc", 2);
    done = closed = (struct rig_done){0};
    in = out = NULL;
}

static void down(void) {
    if (!s->closing)
        rig_close(s);
    for (int i = 0; i < 5; i++) {
        fake_answer_all();
        settle();
    }
    fake_answer_all();
    cr_expect(rig_closed(s));
    cr_expect_eq(rig.st.channels.used, 0);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_CHANNELS], 0);
    peer_rig_down();
}

TestSuite(peer_channels, .init = up, .fini = down, .timeout = 60);

/* ---- steps both ways round --------------------------------------------------------------------
 */

/* We dial; the other end is of node id, as every hello of it says. */
static struct raw *answer_dial(uint8_t id) {
    struct raw *r = raw_accept(listener);
    struct peer_msg hello = raw_hello();
    memset(hello.hello.node_id, id, sizeof(hello.hello.node_id));
    raw_expect(r, PEER_MSG_HELLO);
    raw_send(r, &hello);
    return r;
}

static void open_lane(void) {
    AWAIT(fake_pending(FAKE_LANE_HELLO) == 1);
    fake_answer(fake_call(FAKE_LANE_HELLO, -1), 0);
    struct peer_msg m = raw_expect(out, PEER_MSG_LINK_REQ);
    cr_expect_eq(m.link_req.worker, THERE, "a channel's lane ends at its other end's worker");
    m = (struct peer_msg){.type = PEER_MSG_LINK_REP,
                          .link_rep = {.ref = m.link_req.ref, .offer = {.size = 1}}};
    raw_send(out, &m);
    AWAIT(fake_pending(FAKE_LANE_OPEN) == 1);
    fake_answer(fake_call(FAKE_LANE_OPEN, -1), 0);
}

static void say_end(struct raw *r, uint64_t ref, bool mine, int reason) {
    struct peer_msg m = {.type = PEER_MSG_CHAN_END, .chan_end = {ref, mine, reason, "that was it"}};
    raw_send(r, &m);
}

static void expect_end(struct raw *r, uint64_t ref, bool mine, int reason) {
    struct peer_msg m = raw_expect(r, PEER_MSG_CHAN_END);
    cr_expect_eq(m.chan_end.ref, ref);
    cr_expect_eq(m.chan_end.mine, mine);
    cr_expect_eq(m.chan_end.reason, reason, "%d: %s", m.chan_end.reason, m.chan_end.text);
}

static void say_goodbye(struct raw *r) {
    struct peer_msg bye = {.type = PEER_MSG_BYE, .bye = {RDMAD_E_SHUTDOWN, "stopping"}};
    raw_send(r, &bye);
}

/* ---- it connects to us ------------------------------------------------------------------------
 */

static struct peer_msg req(uint64_t ref) {
    struct peer_msg m = {.type = PEER_MSG_CHAN_REQ};
    m.chan_req = (struct peer_chan_req){
        .ref = ref, .uid = 42, .worker = THERE, .port = uri.port, .service = "rpc"};
    memset(m.chan_req.token, 0xa5, sizeof(m.chan_req.token));
    return m;
}

static void asked(void) {
    struct peer_msg m = req(REF);
    in = raw_greet();
    raw_send(in, &m);
    AWAIT(sv->waiting == 1);
}

static void accept_it(void) {
    ch = end_of(s, &done);
    incoming_accept(waiting(sv), ch, 1000 * MS);
}

static void expect_refuse(int status, const char *words) {
    struct peer_msg m = raw_expect(in, PEER_MSG_CHAN_REFUSE);
    cr_expect_eq(m.chan_refuse.ref, REF);
    cr_expect_eq(m.chan_refuse.status, status, "%d", m.chan_refuse.status);
    cr_expect_not_null(strstr(m.chan_refuse.text, words), "%s", m.chan_refuse.text);
}

/* Up to CHAN_BIND, which is taken. */
static uint64_t bound(void) {
    asked();
    accept_it();
    out = answer_dial(2);
    AWAIT(fake_pending(FAKE_CHANNEL_ADD) == 1);
    fake_answer(fake_call(FAKE_CHANNEL_ADD, 0), 0);
    struct peer_msg m = raw_expect(out, PEER_MSG_CHAN_BIND);
    cr_expect_eq(m.chan_bind.ref, REF);
    for (unsigned i = 0; i < sizeof(m.chan_bind.token); i++)
        cr_expect_eq(m.chan_bind.token[i], 0xa5);
    cr_expect_eq(m.chan_bind.number, ch->number);
    cr_expect_eq(m.chan_bind.uid, 1000);
    cr_expect_eq(m.chan_bind.kind, RDMAD_CHANNEL_RELIABLE);
    return m.chan_bind.number;
}

static void say_open(uint64_t number) {
    struct peer_msg m = {.type = PEER_MSG_CHAN_OPEN, .chan_open.ref = number};
    raw_send(in, &m);
}

static uint64_t accepted(void) {
    uint64_t number = bound();
    open_lane();
    say_open(number);
    AWAIT(done.calls == 1);
    cr_assert_eq(done.code, 0, "%s", done.text);
    return number;
}

Test(peer_channels, who_is_accepted_is_dialled_back_and_bound) {
    uint64_t number = bound();
    const struct rig_event *ev = rig_last_event(s);
    cr_expect_eq(ev->type, RDMAD_EV_CHANNEL_INCOMING);
    cr_expect_eq(ev->uid, 42);
    cr_expect_str_eq(ev->node, "raw");
    const struct fake_call *add = fake_call(FAKE_CHANNEL_ADD, 0);
    cr_expect_not_null(add->channel.lane);
    cr_expect_neq(add->channel.peer_in, 0);
    say_open(number);
    AWAIT(fake_count(FAKE_CHANNEL_OPEN) == 1);
    cr_expect_eq(fake_call(FAKE_CHANNEL_OPEN, 0)->peer_number, REF);
    cr_expect_null(fake_call(FAKE_CHANNEL_OPEN, 0)->other_end);
    cr_expect_eq(done.calls, 0, "there is no way to send yet");
    open_lane();
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(ch->peer_uid, 42);
    cr_expect(ch->remote);
}

Test(peer_channels, an_open_channel_closes_in_order) {
    uint64_t number = accepted();
    channel_close(ch, true, rig_done, &closed);
    cr_expect(fake_call(FAKE_CHANNEL_END, 0)->linger);
    cr_expect(raw_silent(in) && raw_silent(out), "what was sent is delivered first");
    fake_answer_all();
    cr_expect_eq(closed.calls, 1);
    expect_end(out, REF, false, RDMAD_E_CLOSED);
    say_end(in, number, false, RDMAD_E_CLOSED); /* crossed ours: names nothing any more */
    cr_expect(raw_silent(in));
}

Test(peer_channels, the_other_end_closes) {
    uint64_t number = accepted();
    say_end(in, number, false, RDMAD_E_CANCELED);
    AWAIT(fake_pending(FAKE_CHANNEL_END) == 1);
    fake_answer_all();
    cr_expect_eq(rig_last_event(s)->type, RDMAD_EV_CHANNEL_CLOSED);
    cr_expect_eq(rig_last_event(s)->reason, RDMAD_E_CANCELED);
    cr_expect(raw_silent(out), "it knows");
    channel_close(ch, false, NULL, NULL);
}

Test(peer_channels, a_reason_of_its_own_is_a_loss) {
    uint64_t number = accepted();
    say_end(out, number, false, RDMAD_E_NAME);
    AWAIT(fake_pending(FAKE_CHANNEL_END) == 1);
    fake_answer_all();
    cr_expect_eq(rig_last_event(s)->reason, RDMAD_E_PEER_LOST);
}

Test(peer_channels, no_service_is_a_refusal_in_words) {
    struct peer_msg m = req(REF);
    strcpy(m.chan_req.service, "nothing");
    in = raw_greet();
    raw_send(in, &m);
    expect_refuse(RDMAD_E_NO_SERVICE, "\"nothing\"");
}

Test(peer_channels, a_full_backlog_is_a_refusal_in_words) {
    struct peer_msg m = req(1);
    asked();
    raw_send(in, &m);
    AWAIT(sv->waiting == 2);
    m = req(REF);
    raw_send(in, &m);
    expect_refuse(RDMAD_E_LIMIT, "backlog");
}

Test(peer_channels, one_peer_has_a_bounded_number) {
    rig.config.max_peer_attaches = 1;
    struct peer_msg m = req(REF);
    asked();
    raw_send(in, &m);
    expect_refuse(RDMAD_E_LIMIT, "peer.attaches");
}

Test(peer_channels, a_reject_is_passed_on) {
    struct error why;
    asked();
    error_set(&why, RDMAD_E_REFUSED, "not on Sundays");
    incoming_refuse(waiting(sv), &why);
    expect_refuse(RDMAD_E_REFUSED, "not on Sundays");
}

Test(peer_channels, an_address_where_nobody_listens_is_told) {
    asked();
    raw_close(listener);
    accept_it();
    expect_refuse(RDMAD_E_UNREACHABLE, "cannot be reached");
    AWAIT(done.calls == 1);
    cr_expect_eq(done.code, RDMAD_E_UNREACHABLE);
    listener = raw_listen(&uri.port);
}

/* The token is for whoever asked only. */
Test(peer_channels, another_daemon_at_the_address_gets_no_token) {
    asked();
    accept_it();
    out = answer_dial(9);
    expect_refuse(RDMAD_E_UNREACHABLE, "not raw who connects");
    AWAIT(done.calls == 1);
    cr_expect_eq(fake_count(FAKE_CHANNEL_ADD), 0);
    cr_expect(raw_silent(out));
}

Test(peer_channels, our_own_address_is_no_address_to_dial_back) {
    asked();
    struct peer_msg m = req(REF);
    m.chan_req.port = rig.st.listen_port;
    say_end(in, REF, true, RDMAD_E_CANCELED);
    AWAIT(sv->waiting == 0);
    raw_send(in, &m);
    AWAIT(sv->waiting == 1);
    accept_it();
    expect_refuse(RDMAD_E_UNREACHABLE, "this very daemon");
}

Test(peer_channels, who_asked_may_give_up_at_any_time) {
    asked();
    say_end(in, REF, true, RDMAD_E_CANCELED); /* while it waits */
    AWAIT(sv->waiting == 0);
    cr_expect_eq(rig_last_event(s)->type, RDMAD_EV_INCOMING_GONE);
    struct peer_msg m = req(REF);
    raw_send(in, &m);
    AWAIT(sv->waiting == 1);
    accept_it();
    say_end(in, REF, true, RDMAD_E_TIMEOUT); /* while we dial */
    AWAIT(done.calls == 1);
    cr_expect_eq(done.code, RDMAD_E_TIMEOUT);
    cr_expect(raw_silent(in), "it knows");
}

Test(peer_channels, who_asked_may_give_up_while_bound) {
    bound();
    say_end(in, REF, true, RDMAD_E_CANCELED);
    AWAIT(fake_pending(FAKE_CHANNEL_END) == 1);
    fake_answer_all();
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(done.code, RDMAD_E_CANCELED);
}

Test(peer_channels, an_accept_that_takes_too_long_is_over_on_both_sides) {
    bound();
    rig_advance(1000 * MS);
    AWAIT(fake_pending(FAKE_CHANNEL_END) == 1);
    fake_answer_all();
    cr_expect_eq(done.code, RDMAD_E_TIMEOUT);
    cr_expect_not_null(strstr(done.text, "1000 ms"), "%s", done.text);
    raw_expect(out, PEER_MSG_LINK_REQ);
    expect_end(out, REF, false, RDMAD_E_TIMEOUT);
}

Test(peer_channels, a_channel_opens_once) {
    uint64_t number = accepted();
    say_open(number);
    struct peer_msg m = raw_expect(in, PEER_MSG_BYE);
    cr_expect_not_null(strstr(m.bye.text, "opened twice"), "%s", m.bye.text);
}

Test(peer_channels, what_names_another_peers_channel_finds_nothing) {
    uint64_t number = accepted();
    struct raw *stranger = raw_greet();
    say_end(stranger, number, false, RDMAD_E_CLOSED);
    say_end(stranger, REF, true, RDMAD_E_CLOSED);
    struct peer_msg m = {.type = PEER_MSG_CHAN_OPEN, .chan_open.ref = number};
    raw_send(stranger, &m);
    for (uint64_t n = 0; n < 100; n++)
        say_end(stranger, n << 32 | n, n & 1, RDMAD_E_CLOSED);
    cr_expect(raw_silent(stranger));
    cr_expect_eq(fake_count(FAKE_CHANNEL_END), 0);
    cr_expect_eq(ch->stage, CHANNEL_OPEN);
}

Test(peer_channels, a_link_that_breaks_is_made_anew_under_it) {
    accepted();
    struct error why;
    error_set(&why, RDMAD_E_PEER_LOST, "cable");
    peers_lane_lost(rig.st.peers, fake_call(FAKE_LANE_NEW, 0)->cookie, &why);
    raw_expect(out, PEER_MSG_LINK_GONE);
    rig_advance(20 * MS);
    open_lane();
    cr_expect_eq(ch->stage, CHANNEL_OPEN);
    cr_expect_eq(fake_count(FAKE_CHANNEL_END), 0);
}

Test(peer_channels, either_connection_lost_ends_it) {
    for (int which = 0; which < 2; which++) {
        done = (struct rig_done){0};
        fake_reset();
        accepted();
        say_goodbye(which ? in : out);
        AWAIT(fake_pending(FAKE_CHANNEL_END) == 1);
        fake_answer_all();
        cr_expect_eq(rig_last_event(s)->reason, RDMAD_E_PEER_LOST);
        expect_end(which ? out : in, REF, false, RDMAD_E_PEER_LOST);
        channel_close(ch, false, NULL, NULL);
        if (which == 0)
            say_goodbye(in);
        for (int i = 0; i < 3; i++) {
            settle();
            fake_answer_all();
        }
    }
}

Test(peer_channels, a_connection_lost_while_it_waits_takes_it_away) {
    asked();
    raw_close(in);
    AWAIT(sv->waiting == 0);
    cr_expect_eq(rig_last_event(s)->type, RDMAD_EV_INCOMING_GONE);
}

Test(peer_channels, the_session_may_end_at_any_step) {
    for (int step = 0; step < 3; step++) {
        struct session *t = rig_session(5);
        struct service *st = service_up(t, step == 0 ? "s0" : step == 1 ? "s1" : "s2", 0);
        struct peer_msg m = req(100u + (unsigned)step);
        strcpy(m.chan_req.service, st->terms.name);
        in = raw_greet();
        raw_send(in, &m);
        AWAIT(st->waiting == 1);
        done = (struct rig_done){0};
        if (step) {
            ch = end_of(t, &done);
            incoming_accept(waiting(st), ch, 1000 * MS);
        }
        if (step == 2) { /* the second time the connection is there already */
            out = answer_dial(2);
            AWAIT(fake_pending(FAKE_CHANNEL_ADD) == 1);
        }
        rig_close(t);
        fake_answer_all();
        raw_expect(in, PEER_MSG_CHAN_REFUSE);
        cr_expect_eq(done.calls, step > 0);
        cr_expect(rig_closed(t));
        raw_close(in);
        if (step == 1) /* nobody needs it any more */
            raw_close(raw_accept(listener));
        settle();
        fake_answer_all();
    }
}

/* ---- we connect to it -------------------------------------------------------------------------
 */

static struct peer_msg asks(void) {
    ch = end_of(s, &done);
    peer_connect(rig.st.peers, ch, &uri, 2000 * MS);
    out = answer_dial(2);
    return raw_expect(out, PEER_MSG_CHAN_REQ);
}

static struct peer_msg bind_to(const struct peer_msg *m) {
    struct peer_msg b = {.type = PEER_MSG_CHAN_BIND};
    b.chan_bind =
        (struct peer_chan_bind){.ref = m->chan_req.ref, .number = REF, .uid = 42, .worker = THERE};
    memcpy(b.chan_bind.token, m->chan_req.token, sizeof(b.chan_bind.token));
    return b;
}

/* Bound, with both answers of the data plane still out. */
static void binds(void) {
    struct peer_msg m = asks(), b = bind_to(&m);
    in = raw_greet();
    raw_send(in, &b);
    AWAIT(fake_pending(FAKE_CHANNEL_ADD) == 1);
}

static void connected(void) {
    binds();
    fake_answer(fake_call(FAKE_CHANNEL_ADD, 0), 0);
    cr_expect_eq(raw_expect(out, PEER_MSG_CHAN_OPEN).chan_open.ref, REF);
    open_lane();
    cr_assert_eq(done.calls, 1);
    cr_assert_eq(done.code, 0, "%s", done.text);
}

Test(peer_channels, a_bind_with_the_token_makes_the_channel) {
    struct peer_msg m = asks(), b = bind_to(&m);
    cr_expect_eq(m.chan_req.ref, ch->number);
    cr_expect_eq(m.chan_req.uid, 1000);
    cr_expect_eq(m.chan_req.port, rig.st.listen_port);
    cr_expect_str_eq(m.chan_req.host, "127.0.0.1");
    cr_expect_str_eq(m.chan_req.service, "far");
    in = raw_greet();
    raw_send(in, &b);
    AWAIT(fake_pending(FAKE_CHANNEL_ADD) == 1);
    cr_expect_eq(fake_count(FAKE_CHANNEL_OPEN), 0, "not before it is added");
    fake_answer(fake_call(FAKE_CHANNEL_ADD, 0), 0);
    cr_expect_eq(fake_call(FAKE_CHANNEL_OPEN, 0)->peer_number, REF);
    cr_expect_eq(raw_expect(out, PEER_MSG_CHAN_OPEN).chan_open.ref, REF);
    cr_expect_eq(done.calls, 0, "there is no way to send yet");
    open_lane();
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(ch->peer_uid, 42);
    cr_expect_str_eq(ch->peer_node, "raw");
}

Test(peer_channels, a_daemon_that_listens_everywhere_names_no_address) {
    rig.st.peers->any_address = true;
    cr_expect_str_eq(asks().chan_req.host, "");
}

Test(peer_channels, tokens_are_not_guessable) {
    struct peer_msg a = asks();
    struct rig_done other = {0};
    struct channel *second = end_of(s, &other);
    peer_connect(rig.st.peers, second, &uri, 2000 * MS);
    struct peer_msg b = raw_expect(out, PEER_MSG_CHAN_REQ);
    cr_expect_neq(memcmp(a.chan_req.token, b.chan_req.token, sizeof(a.chan_req.token)), 0);
    say_goodbye(out);
    AWAIT(other.calls == 1);
}

Test(peer_channels, a_bind_that_is_not_ours_is_answered_and_changes_nothing) {
    struct peer_msg m = asks(), b = bind_to(&m);
    in = raw_greet();
    b.chan_bind.token[15] ^= 1;
    raw_send(in, &b); /* another token */
    expect_end(in, REF, false, RDMAD_E_CANCELED);
    b = bind_to(&m);
    b.chan_bind.ref += 1;
    raw_send(in, &b); /* another number */
    expect_end(in, REF, false, RDMAD_E_CANCELED);

    struct raw *other = raw_dial(); /* another node, with all the rest */
    struct peer_msg hello = raw_hello();
    hello.hello.node_id[0] ^= 1;
    raw_send(other, &hello);
    raw_expect(other, PEER_MSG_HELLO);
    b = bind_to(&m);
    raw_send(other, &b);
    expect_end(other, REF, false, RDMAD_E_CANCELED);

    cr_expect_eq(done.calls, 0);
    cr_expect_eq(fake_count(FAKE_CHANNEL_ADD), 0);
    raw_send(in, &b); /* the right one still does */
    AWAIT(fake_pending(FAKE_CHANNEL_ADD) == 1);
    raw_send(in, &b); /* once */
    expect_end(in, REF, false, RDMAD_E_CANCELED);
}

Test(peer_channels, a_kind_that_was_not_asked_for_is_refused) {
    struct peer_msg m = asks(), b = bind_to(&m);
    b.chan_bind.kind = RDMAD_CHANNEL_DATAGRAM;
    in = raw_greet();
    raw_send(in, &b);
    expect_end(out, REF, false, RDMAD_E_PROTOCOL);
    cr_expect_eq(done.code, RDMAD_E_PROTOCOL);
}

Test(peer_channels, a_refusal_is_told_in_its_own_words) {
    struct peer_msg m = asks();
    m = (struct peer_msg){.type = PEER_MSG_CHAN_REFUSE,
                          .chan_refuse = {m.chan_req.ref, RDMAD_E_REFUSED, "no, thank you"}};
    raw_send(out, &m);
    AWAIT(done.calls == 1);
    cr_expect_eq(done.code, RDMAD_E_REFUSED);
    cr_expect_str_eq(done.text, "no, thank you");
    raw_send(out, &m); /* once more: names nothing */
    cr_expect(raw_silent(out));
}

Test(peer_channels, a_service_that_nobody_accepts_at_is_given_up) {
    struct peer_msg m = asks();
    rig_advance(2000 * MS);
    cr_expect_eq(done.code, RDMAD_E_TIMEOUT);
    cr_expect_not_null(strstr(done.text, "until the service accepts"), "%s", done.text);
    expect_end(out, m.chan_req.ref, true, RDMAD_E_TIMEOUT);
    struct peer_msg b = bind_to(&m);
    in = raw_greet();
    raw_send(in, &b); /* too late */
    expect_end(in, REF, false, RDMAD_E_CANCELED);
}

Test(peer_channels, a_link_that_does_not_open_is_given_up_with_its_reason) {
    binds();
    fake_answer(fake_call(FAKE_CHANNEL_ADD, 0), 0);
    fake_answer(fake_call(FAKE_LANE_HELLO, 0), RDMAD_E_NOMEM);
    rig_advance(2000 * MS);
    fake_answer(fake_call(FAKE_CHANNEL_END, 0), 0);
    cr_expect_eq(done.code, RDMAD_E_TIMEOUT);
    cr_expect_not_null(strstr(done.text, "the data plane says"), "%s", done.text);
}

Test(peer_channels, a_link_that_never_will_be_fails_it_at_once) {
    binds();
    fake_answer(fake_call(FAKE_CHANNEL_ADD, 0), 0);
    fake_answer(fake_call(FAKE_LANE_HELLO, 0), RDMAD_E_VERSION);
    fake_answer(fake_call(FAKE_CHANNEL_END, 0), 0);
    cr_expect_eq(done.code, RDMAD_E_VERSION);
}

Test(peer_channels, a_daemon_that_is_not_there_is_told) {
    raw_close(listener);
    ch = end_of(s, &done);
    peer_connect(rig.st.peers, ch, &uri, 2000 * MS);
    AWAIT(done.calls == 1);
    cr_expect_eq(done.code, RDMAD_E_UNREACHABLE);
    listener = raw_listen(&uri.port);
}

Test(peer_channels, this_very_daemon_under_another_name_is_local) {
    struct rdmad_uri self = {.host = "localhost", .port = rig.st.listen_port, .name = "rpc"};
    ch = end_of(s, &done);
    peer_connect(rig.st.peers, ch, &self, 2000 * MS);
    AWAIT(sv->waiting == 1);
    struct rig_done other = {0};
    incoming_accept(waiting(sv), end_of(s, &other), 1000 * MS);
    fake_answer_all();
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(done.code, 0, "%s", done.text);
    cr_expect(!ch->remote);
}

Test(peer_channels, a_goodbye_while_we_wait_is_a_loss) {
    asks();
    say_goodbye(out);
    AWAIT(done.calls == 1);
    cr_expect_eq(done.code, RDMAD_E_PEER_LOST);
}

Test(peer_channels, an_abrupt_close_is_told) {
    connected();
    channel_close(ch, false, rig_done, &closed);
    fake_answer_all();
    cr_expect_eq(closed.calls, 1);
    expect_end(out, REF, false, RDMAD_E_CANCELED);
}

Test(peer_channels, a_lingering_close_ends_with_its_peer) {
    connected();
    channel_close(ch, true, rig_done, &closed);
    say_goodbye(in);
    AWAIT(fake_count(FAKE_CHANNEL_END) == 2);
    cr_expect(!fake_call(FAKE_CHANNEL_END, 1)->linger, "there is nobody left to deliver to");
    fake_answer_all();
    cr_expect_eq(closed.calls, 1);
}

Test(peer_channels, our_session_may_end_at_any_step) {
    for (int step = 0; step < 3; step++) {
        struct session *t = rig_session(5);
        fake_reset();
        done = (struct rig_done){0};
        ch = end_of(t, &done);
        peer_connect(rig.st.peers, ch, &uri, 2000 * MS);
        if (step == 1)
            out = answer_dial(2);
        struct peer_msg m = {0};
        if (step)
            m = raw_expect(out, PEER_MSG_CHAN_REQ);
        if (step == 2) {
            struct peer_msg b = bind_to(&m);
            in = raw_greet();
            raw_send(in, &b);
            AWAIT(fake_pending(FAKE_CHANNEL_ADD) == 1);
        }
        rig_close(t);
        fake_answer_all();
        cr_expect_eq(done.calls, 1);
        cr_expect_neq(done.code, 0);
        cr_expect(rig_closed(t));
        if (step == 1)
            expect_end(out, m.chan_req.ref, true, RDMAD_E_CANCELED);
        if (step == 0) { /* the connection itself goes on being made */
            raw_close(raw_accept(listener));
            for (int i = 0; i < 20; i++)
                settle();
        }
    }
}

Test(peer_channels, half_of_a_peers_channels_is_the_most_of_one_uid) {
    struct rig_done other = {0};
    rig.config.max_peer_attaches = 2;
    asks();
    struct channel *second = end_of(s, &other);
    peer_connect(rig.st.peers, second, &uri, 2000 * MS);
    cr_expect_eq(other.code, RDMAD_E_LIMIT);
    cr_expect_not_null(strstr(other.text, "half of peer.attaches"), "%s", other.text);
}

/* ---- links ------------------------------------------------------------------------------------
 */

Test(peer_channels, a_link_is_offered_on_the_worker_that_is_asked_for) {
    binds();
    struct peer_msg m = {.type = PEER_MSG_LINK_REQ, .link_req = {.ref = 5, .worker = 0}};
    raw_send(in, &m);
    AWAIT(fake_pending(FAKE_OFFER) == 1);
    cr_expect_eq(fake_call(FAKE_OFFER, 0)->count, 0);
    m.link_req.worker = 1;
    raw_send(in, &m);
    struct peer_msg rep = raw_expect(in, PEER_MSG_LINK_REP);
    cr_expect_eq(rep.link_rep.status, RDMAD_E_INVAL);
    cr_expect_not_null(strstr(rep.link_rep.text, "no worker 1 here"), "%s", rep.link_rep.text);
}

Test(peer_channels, a_link_needs_a_lease_or_a_channel) {
    struct peer_msg m = {.type = PEER_MSG_LINK_REQ, .link_req = {.ref = 5}};
    in = raw_greet();
    raw_send(in, &m);
    struct peer_msg rep = raw_expect(in, PEER_MSG_LINK_REP);
    cr_expect_eq(rep.link_rep.status, RDMAD_E_NO_LEASE);
}
