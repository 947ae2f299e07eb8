/* SPDX-License-Identifier: MIT */
/*
 * Channels that a peer asks for: each step of the handshake done well, refused, late, lost, given
 * up and lied about.
 */
#include "daemon/peer/control/record.h"
#include "daemon/state/keepalive.h"
#include "tests/unit/chan_steps.h"

TestSuite(peer_channels, .init = up, .fini = down, .timeout = 60);

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

Test(peer_channels, who_accepts_sees_what_was_asked_for) {
    struct peer_msg m = req(REF);
    m.chan_req.asked = RDMAD_CHANNEL_UNACKED;
    in = raw_greet();
    raw_send(in, &m);
    AWAIT(sv->waiting == 1);
    cr_expect_eq(waiting(sv)->kind, RDMAD_CHANNEL_UNACKED);
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

/* ---- whom we dial back ------------------------------------------------------------------------
 */

static void names(const char *host) {
    struct peer_msg m = req(REF);
    strcpy(m.chan_req.host, host);
    raw_send(in, &m);
}

Test(peer_channels, an_address_that_is_not_where_it_connects_from_is_not_dialled) {
    static const char *const hosts[] = {"127.0.0.2", "10.0.0.1", "localhost", "::1", "0", "127.1"};
    in = raw_greet();
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        names(hosts[i]);
        expect_refuse(RDMAD_E_PERM, "peer.dial_named");
        cr_expect_eq(sv->offered, 0, "the client is not even asked");
    }
    cr_expect_eq(peers_count(rig.st.peers), 1, "somebody was dialled");
}

static void expect_dialled(const char *host) {
    in = raw_greet();
    names(host);
    AWAIT(sv->waiting == 1);
    accept_it();
    out = answer_dial(2);
    AWAIT(fake_pending(FAKE_CHANNEL_ADD) == 1);
    fake_answer(fake_call(FAKE_CHANNEL_ADD, 0), 0);
    raw_expect(out, PEER_MSG_CHAN_BIND);
}

Test(peer_channels, the_address_that_it_connects_from_is_dialled) {
    expect_dialled("127.0.0.1");
}

Test(peer_channels, however_it_is_written) {
    expect_dialled("::FFFF:7f00:1");
}

Test(peer_channels, a_daemon_that_is_dialled_already_is_reached_by_the_name_it_was_dialled_by) {
    struct rig_done added = {0};
    peer_add(rig.st.peers, "localhost", uri.port, rig_done, &added);
    out = answer_dial(2);
    AWAIT(added.calls == 1);
    in = raw_greet();
    names("localhost");
    AWAIT(sv->waiting == 1);
    accept_it();
    AWAIT(fake_pending(FAKE_CHANNEL_ADD) == 1);
    cr_expect_eq(peers_count(rig.st.peers), 2, "it was dialled again");
}

Test(peer_channels, named_addresses_are_dialled_while_the_administrator_allows_it) {
    rig.config.peer_dial_named = true;
    expect_dialled("localhost");
}

Test(peer_channels, and_no_more_when_it_is_accepted) {
    rig.config.peer_dial_named = true;
    in = raw_greet();
    names("localhost");
    AWAIT(sv->waiting == 1);
    rig.config.peer_dial_named = false;
    accept_it();
    AWAIT(done.calls == 1);
    cr_expect_eq(done.code, RDMAD_E_PERM, "%s", done.text);
    expect_refuse(RDMAD_E_PERM, "peer.dial_named");
    cr_expect_eq(peers_count(rig.st.peers), 1, "somebody was dialled");
}

/* Each that is dialled takes a place of the user who accepts. */
Test(peer_channels, a_peer_is_dialled_back_at_one_place) {
    bound();
    struct peer_msg m = req(REF);
    m.chan_req.port++;
    raw_send(in, &m);
    expect_refuse(RDMAD_E_PERM, "a daemon listens at one place");
    names("::ffff:127.0.0.1");
    expect_refuse(RDMAD_E_PERM, "a daemon listens at one place");
    cr_expect_eq(sv->offered, 1, "the client is not even asked");
    names("");
    AWAIT(sv->waiting == 1);
    cr_expect_eq(peers_count(rig.st.peers), 2, "another was dialled");
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

/* Each HELLO tells the id, so anybody can say it after another. */
Test(peer_channels, nor_does_one_of_another_name_that_says_the_same_id) {
    struct peer_msg hello = raw_hello();
    asked();
    accept_it();
    out = raw_accept(listener);
    raw_expect(out, PEER_MSG_HELLO);
    memset(hello.hello.node_id, 2, sizeof(hello.hello.node_id));
    strcpy(hello.hello.node, "victim");
    raw_send(out, &hello);
    expect_refuse(RDMAD_E_UNREACHABLE, "is victim, not raw who connects");
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
    cr_expect_eq(done.code, RDMAD_E_PEER_LOST);
    cr_expect_not_null(strstr(done.text, "that was it"), "%s", done.text);
    cr_expect(raw_silent(in), "it knows");
}

/* Or any program that accepts would take its own session for lost. */
Test(peer_channels, whatever_it_says_of_its_end_is_no_word_of_ours) {
    bound();
    say_end(in, REF, true, RDMAD_E_DAEMON_LOST);
    AWAIT(fake_pending(FAKE_CHANNEL_END) == 1);
    fake_answer_all();
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(done.code, RDMAD_E_PEER_LOST);
}

/* That would be the end of the service. */
Test(peer_channels, nor_is_that_it_has_closed_before_there_was_a_channel) {
    bound();
    say_end(in, REF, true, RDMAD_E_CLOSED);
    AWAIT(fake_pending(FAKE_CHANNEL_END) == 1);
    fake_answer_all();
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(done.code, RDMAD_E_PEER_LOST);
}

/* Nor what it answers to our HELLO. */
Test(peer_channels, whoever_is_dialled_back_ends_no_accept_of_others) {
    static const int codes[] = {RDMAD_E_LIMIT,  RDMAD_E_SHUTDOWN, RDMAD_E_DAEMON_LOST,
                                RDMAD_E_CLOSED, RDMAD_E_INTERNAL, RDMAD_E_UNREACHABLE};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        bool told = codes[i] == RDMAD_E_UNREACHABLE;
        done = (struct rig_done){0};
        asked();
        accept_it();
        out = raw_accept(listener);
        raw_expect(out, PEER_MSG_HELLO);
        struct peer_msg bye = {.type = PEER_MSG_BYE, .bye = {codes[i], "go away"}};
        raw_send(out, &bye);
        AWAIT(done.calls == 1);
        cr_expect_eq(done.code, told ? codes[i] : RDMAD_E_PEER_LOST, "%d: %d", codes[i], done.code);
        cr_expect_not_null(strstr(done.text, "go away"), "%s", done.text);
        raw_close(out);
        say_goodbye(in);
        settle();
    }
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

/* ---- keep-alive -------------------------------------------------------------------------------
 */

static void say_alive(struct raw *r, uint64_t ref, bool answer, uint64_t silent_ns) {
    struct peer_msg m = {.type = PEER_MSG_CHAN_ALIVE, .chan_alive = {ref, answer, silent_ns}};
    raw_send(r, &m);
}

Test(peer_channels, who_asks_whether_our_program_lives_is_answered_at_once) {
    uint64_t number = accepted();
    for (unsigned i = 0; i < 3; i++) {
        say_alive(in, number, false, 0);
        struct peer_msg m = raw_expect(in, PEER_MSG_CHAN_ALIVE);
        cr_expect_eq(m.chan_alive.ref, REF);
        cr_expect_eq(m.chan_alive.answer, 1);
        cr_expect_eq(m.chan_alive.silent_ns, 300 * i * MS, "%lu",
                     (unsigned long)m.chan_alive.silent_ns);
        if (i)
            fake_answer(fake_call(FAKE_SESSION_ALIVE, -1), RDMAD_E_AGAIN);
        else
            fake_answer(fake_call(FAKE_SESSION_ALIVE, -1), RDMAD_OK);
        rig_advance(300 * MS);
    }
}

Test(peer_channels, we_ask_whoever_is_at_the_other_end_and_believe_it) {
    const struct keepalive_terms terms = {.silent_ns = 1000 * MS};
    struct error err;
    uint64_t number = accepted();
    cr_assert_eq(keepalive_set(ch, &terms, &err), 0);
    for (unsigned i = 0; i < 3; i++) {
        struct peer_msg m = raw_expect(out, PEER_MSG_CHAN_ALIVE);
        cr_expect_eq(m.chan_alive.ref, REF);
        cr_expect_eq(m.chan_alive.answer, 0);
        rig_advance(250 * MS);
    }
    say_alive(in, number, true, 999 * MS);
    settle();
    cr_expect_eq(rig_events(s, RDMAD_EV_CHANNEL_SILENT), 0);
    say_alive(in, number, true, UINT64_MAX);
    AWAIT(rig_events(s, RDMAD_EV_CHANNEL_SILENT) == 1);
    say_alive(in, number, true, 0);
    AWAIT(rig_events(s, RDMAD_EV_CHANNEL_SILENT) == 2);
}

static struct peer *dialled(void) {
    list_for_each (node, &rig.st.peers->all) {
        struct peer *p = list_entry(node, struct peer, node);
        if (p->outgoing)
            return p;
    }
    cr_assert_fail("no peer is dialled");
    return NULL;
}

/* Each asks at once, and the other daemon does not read. */
Test(peer_channels, keep_alives_that_are_set_without_pause_never_cut_the_connection) {
    const struct keepalive_terms terms = {.silent_ns = 1000 * MS};
    struct error err;
    accepted();
    dialled()->output_max = 16384;
    for (unsigned i = 0; i < 2000; i++)
        cr_assert_eq(keepalive_set(ch, &terms, &err), 0);
    settle();
    cr_expect_eq(peers_in_state("up"), 2);
    cr_expect_eq(fake_count(FAKE_CHANNEL_END), 0, "the channel is lost");
    raw_expect(out, PEER_MSG_CHAN_ALIVE);
}

/* Numbers of nothing, of what is not its, and answers that nobody asked for. */
Test(peer_channels, made_up_words_about_life_do_nothing) {
    uint64_t number = accepted();
    struct raw *other = raw_greet();
    say_alive(in, number + 1, false, 0);
    say_alive(in, 0, true, UINT64_MAX);
    say_alive(in, number, true, UINT64_MAX);
    say_alive(other, number, false, 0);
    say_alive(other, number, true, UINT64_MAX);
    settle();
    cr_expect(raw_silent(in) && raw_silent(other));
    cr_expect_eq(rig_events(s, RDMAD_EV_CHANNEL_SILENT), 0);
    cr_expect_eq(fake_count(FAKE_SESSION_ALIVE), 0);
    cr_expect_eq(fake_count(FAKE_CHANNEL_END), 0);
}
