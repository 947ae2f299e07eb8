/* SPDX-License-Identifier: MIT */
/*
 * Channels that we ask a peer for: each step of the handshake done well, refused, late, lost, given
 * up and lied about; and the links of both.
 */
#include "daemon/base/events.h"
#include "daemon/peer/control/record.h"
#include "tests/unit/chan_steps.h"

TestSuite(peer_connects, .init = up, .fini = down, .timeout = 60);

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

Test(peer_connects, a_bind_with_the_token_makes_the_channel) {
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

Test(peer_connects, a_daemon_that_listens_everywhere_names_no_address) {
    rig.st.peers->any_address = true;
    cr_expect_str_eq(asks().chan_req.host, "");
}

Test(peer_connects, a_daemon_that_listens_on_a_name_tells_the_address_of_it) {
    strcpy(rig.st.listen_host, "rig.example");
    cr_expect_str_eq(asks().chan_req.host, "127.0.0.1", "which the other need not resolve");
}

Test(peer_connects, tokens_are_not_guessable) {
    struct peer_msg a = asks();
    struct rig_done other = {0};
    struct channel *second = end_of(s, &other);
    peer_connect(rig.st.peers, second, &uri, 2000 * MS);
    struct peer_msg b = raw_expect(out, PEER_MSG_CHAN_REQ);
    cr_expect_neq(memcmp(a.chan_req.token, b.chan_req.token, sizeof(a.chan_req.token)), 0);
    say_goodbye(out);
    AWAIT(other.calls == 1);
}

Test(peer_connects, a_bind_that_is_not_ours_is_answered_and_changes_nothing) {
    struct peer_msg m = asks(), b = bind_to(&m);
    in = raw_greet();
    b.chan_bind.token[15] ^= 1;
    raw_send(in, &b); /* another token */
    expect_end(in, REF, false, RDMAD_E_PEER_LOST);
    b = bind_to(&m);
    b.chan_bind.ref += 1;
    raw_send(in, &b); /* another number */
    expect_end(in, REF, false, RDMAD_E_PEER_LOST);

    struct raw *other = raw_dial(); /* another node, with all the rest */
    struct peer_msg hello = raw_hello();
    hello.hello.node_id[0] ^= 1;
    raw_send(other, &hello);
    raw_expect(other, PEER_MSG_HELLO);
    b = bind_to(&m);
    raw_send(other, &b);
    expect_end(other, REF, false, RDMAD_E_PEER_LOST);

    cr_expect_eq(done.calls, 0);
    cr_expect_eq(fake_count(FAKE_CHANNEL_ADD), 0);
    raw_send(in, &b); /* the right one still does */
    AWAIT(fake_pending(FAKE_CHANNEL_ADD) == 1);
    raw_send(in, &b); /* once */
    expect_end(in, REF, false, RDMAD_E_PEER_LOST);
}

Test(peer_connects, what_was_asked_for_is_told_with_what_can_be_made_of_it) {
    struct error err;
    cr_assert_eq(channel_new(s, RDMAD_CHANNEL_DATAGRAM, rig_done, &done, &ch, &err), 0);
    peer_connect(rig.st.peers, ch, &uri, 2000 * MS);
    out = answer_dial(2);
    struct peer_msg m = raw_expect(out, PEER_MSG_CHAN_REQ);
    cr_expect_eq(m.chan_req.asked, RDMAD_CHANNEL_DATAGRAM);
    cr_expect_eq(m.chan_req.kind, RDMAD_CHANNEL_RELIABLE, "the fabric has no datagrams");
}

Test(peer_connects, a_datagram_is_at_most_what_the_link_carries) {
    struct peer_msg m = asks(), b = bind_to(&m);
    ch->kind = b.chan_bind.kind = RDMAD_CHANNEL_DATAGRAM;
    in = raw_greet();
    raw_send(in, &b);
    AWAIT(fake_pending(FAKE_CHANNEL_ADD) == 1);
    fake_answer(fake_call(FAKE_CHANNEL_ADD, 0), 0);
    raw_expect(out, PEER_MSG_CHAN_OPEN);
    open_lane();
    cr_assert_eq(done.calls, 1);
    cr_expect_eq(channel_max_message(ch), FAKE_DATAGRAM);
}

Test(peer_connects, a_kind_that_was_not_asked_for_is_refused) {
    struct peer_msg m = asks(), b = bind_to(&m);
    b.chan_bind.kind = RDMAD_CHANNEL_DATAGRAM;
    in = raw_greet();
    raw_send(in, &b);
    expect_end(out, REF, false, RDMAD_E_PROTOCOL);
    cr_expect_eq(done.code, RDMAD_E_PROTOCOL);
}

Test(peer_connects, a_refusal_is_told_in_its_own_words) {
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

Test(peer_connects, a_service_that_nobody_accepts_at_is_given_up) {
    struct peer_msg m = asks();
    rig_advance(2000 * MS);
    cr_expect_eq(done.code, RDMAD_E_TIMEOUT);
    cr_expect_not_null(strstr(done.text, "until the service accepts"), "%s", done.text);
    expect_end(out, m.chan_req.ref, true, RDMAD_E_TIMEOUT);
    struct peer_msg b = bind_to(&m);
    in = raw_greet();
    raw_send(in, &b); /* too late */
    expect_end(in, REF, false, RDMAD_E_PEER_LOST);
}

Test(peer_connects, a_link_that_does_not_open_is_given_up_with_its_reason) {
    binds();
    fake_answer(fake_call(FAKE_CHANNEL_ADD, 0), 0);
    fake_answer(fake_call(FAKE_LANE_HELLO, 0), RDMAD_E_NOMEM);
    rig_advance(2000 * MS);
    fake_answer(fake_call(FAKE_CHANNEL_END, 0), 0);
    cr_expect_eq(done.code, RDMAD_E_TIMEOUT);
    cr_expect_not_null(strstr(done.text, "the data plane says"), "%s", done.text);
}

Test(peer_connects, a_link_that_never_will_be_fails_it_at_once) {
    binds();
    fake_answer(fake_call(FAKE_CHANNEL_ADD, 0), 0);
    fake_answer(fake_call(FAKE_LANE_HELLO, 0), RDMAD_E_VERSION);
    fake_answer(fake_call(FAKE_CHANNEL_END, 0), 0);
    cr_expect_eq(done.code, RDMAD_E_VERSION);
}

Test(peer_connects, a_daemon_that_is_not_there_is_told) {
    raw_close(listener);
    ch = end_of(s, &done);
    peer_connect(rig.st.peers, ch, &uri, 2000 * MS);
    AWAIT(done.calls == 1);
    cr_expect_eq(done.code, RDMAD_E_UNREACHABLE);
    listener = raw_listen(&uri.port);
}

static bool is_unreachable(void *arg, const struct event_row *e) {
    (void)arg;
    return !strcmp(e->what, "peer") && !strcmp(e->cause, "unreachable");
}

static unsigned dial_in_vain(unsigned times, struct event_row *last) {
    struct event_row rows[8] = {0};
    for (unsigned i = 0; i < times; i++) {
        struct rig_done tried = {0};
        peer_connect(rig.st.peers, end_of(s, &tried), &uri, 2000 * MS);
        AWAIT(tried.calls == 1);
        cr_expect_eq(tried.code, RDMAD_E_UNREACHABLE);
    }
    unsigned count = events_read(0, is_unreachable, NULL, rows, 8);
    *last = rows[count - !!count];
    return count;
}

Test(peer_connects, a_daemon_that_is_dialled_in_vain_is_remembered_once_a_minute) {
    struct event_row last;
    raw_close(listener);
    events_forget();
    cr_expect_eq(dial_in_vain(5, &last), 1);
    cr_expect(strstr(last.text, "no peer") == last.text, "%s", last.text);
    rig_advance(61 * NSEC_PER_SEC);
    cr_expect_eq(dial_in_vain(1, &last), 2);
    cr_expect(strstr(last.text, "5 tries in the last 61 s, the last: no peer") == last.text, "%s",
              last.text);
    listener = raw_listen(&uri.port);
}

Test(peer_connects, who_has_not_said_its_name_is_named_by_its_address_alone) {
    struct event_row last;
    char words[64];
    raw_close(listener);
    events_forget();
    dial_in_vain(1, &last);
    snprintf(words, sizeof(words), "no peer at 127.0.0.1:%u: ", (unsigned)uri.port);
    cr_expect(strstr(last.text, words) == last.text, "%s", last.text);
    listener = raw_listen(&uri.port);
}

static void dial_in_vain_at(const char *host) {
    struct rdmad_uri there = {.port = uri.port, .name = "rpc"};
    struct rig_done tried = {0};
    snprintf(there.host, sizeof(there.host), "%s", host);
    peer_connect(rig.st.peers, end_of(s, &tried), &there, 2000 * MS);
    AWAIT(tried.calls == 1);
    cr_expect_eq(tried.code, RDMAD_E_UNREACHABLE, "%s: %s", host, tried.text);
}

Test(peer_connects, tries_of_which_nobody_was_told_are_when_others_take_their_place) {
    static struct event_row rows[2 * REPEATS_ROWS];
    char host[32], words[128];
    raw_close(listener);
    events_forget();
    for (unsigned i = 0; i < 3; i++)
        dial_in_vain_at("127.0.1.0");
    rig_advance(61 * NSEC_PER_SEC);
    for (unsigned i = 1; i <= REPEATS_ROWS; i++) {
        snprintf(host, sizeof(host), "127.0.1.%u", i);
        dial_in_vain_at(host);
    }
    unsigned count = events_read(0, is_unreachable, NULL, rows, 2 * REPEATS_ROWS);
    cr_assert_eq(count, REPEATS_ROWS + 2, "%u", count);
    snprintf(words, sizeof(words),
             "2 more tries in the last 61 s: no peer at 127.0.1.0:%u: ", (unsigned)uri.port);
    cr_expect(strstr(rows[count - 2].text, words) == rows[count - 2].text, "%s",
              rows[count - 2].text);
    listener = raw_listen(&uri.port);
}

/* It takes the connection, and says nothing. */
static unsigned dial_to_be_cut_off(void) {
    struct event_row rows[8];
    struct rig_done tried = {0};
    peer_connect(rig.st.peers, end_of(s, &tried), &uri, 2000 * MS);
    raw_close(raw_accept(listener));
    AWAIT(tried.calls == 1);
    cr_expect_neq(tried.code, 0);
    return events_read(0, is_unreachable, NULL, rows, 8);
}

Test(peer_connects, a_daemon_that_was_there_in_between_is_told_of_at_once) {
    events_forget();
    cr_expect_eq(dial_to_be_cut_off(), 1);
    cr_expect_eq(dial_to_be_cut_off(), 1);
    asks();
    raw_close(out);
    AWAIT(done.calls == 1);
    cr_expect_eq(dial_to_be_cut_off(), 2);
}

Test(peer_connects, this_very_daemon_under_another_name_is_local) {
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

static void names_listed(void *arg, const struct error *result,
                         const struct rdmad_names_list_rep *rep) {
    (void)rep;
    rig_done(arg, result);
}

/* A connection to ourselves is there already, for what is asked by that other name. */
Test(peer_connects, this_very_daemon_is_local_also_when_it_is_connected_to_itself) {
    struct rdmad_uri self = {.host = "localhost", .port = rig.st.listen_port, .name = "rpc"};
    struct names_query q = {.host = "localhost", .port = self.port, .timeout_ns = 2000 * MS};
    struct rig_done names = {0}, other = {0};
    peer_list(s, &q, names_listed, &names);
    AWAIT(names.calls == 1);
    cr_assert_eq(names.code, 0, "%s", names.text);
    ch = end_of(s, &done);
    peer_connect(rig.st.peers, ch, &self, 2000 * MS);
    AWAIT(sv->waiting == 1);
    cr_expect_eq(waiting(sv)->peer, 0, "it is of this daemon, not a peer's");
    incoming_accept(waiting(sv), end_of(s, &other), 1000 * MS);
    fake_answer_all();
    AWAIT(done.calls == 1 && other.calls == 1);
    cr_expect_eq(done.code, 0, "%s", done.text);
    cr_expect_eq(other.code, 0, "%s", other.text);
    cr_expect(!ch->remote);
}

Test(peer_connects, a_goodbye_while_we_wait_is_a_loss) {
    asks();
    say_goodbye(out);
    AWAIT(done.calls == 1);
    cr_expect_eq(done.code, RDMAD_E_PEER_LOST);
}

Test(peer_connects, an_abrupt_close_is_told) {
    connected();
    channel_close(ch, false, rig_done, &closed);
    fake_answer_all();
    cr_expect_eq(closed.calls, 1);
    expect_end(out, REF, false, RDMAD_E_CANCELED);
}

Test(peer_connects, a_lingering_close_ends_with_its_peer) {
    connected();
    channel_close(ch, true, rig_done, &closed);
    say_goodbye(in);
    AWAIT(fake_count(FAKE_CHANNEL_END) == 2);
    cr_expect(!fake_call(FAKE_CHANNEL_END, 1)->linger, "there is nobody left to deliver to");
    fake_answer_all();
    cr_expect_eq(closed.calls, 1);
}

Test(peer_connects, our_session_may_end_at_any_step) {
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

Test(peer_connects, half_of_a_peers_channels_is_the_most_of_one_uid) {
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

Test(peer_connects, a_link_is_offered_on_the_worker_that_is_asked_for) {
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

Test(peer_connects, a_link_needs_a_lease_or_a_channel) {
    struct peer_msg m = {.type = PEER_MSG_LINK_REQ, .link_req = {.ref = 5}};
    in = raw_greet();
    raw_send(in, &m);
    struct peer_msg rep = raw_expect(in, PEER_MSG_LINK_REP);
    cr_expect_eq(rep.link_rep.status, RDMAD_E_NO_LEASE);
}

/* ---- fabrics ------------------------------------------------------------------------------------
 */

static unsigned datagrams(struct fabric_host *host) {
    (void)host;
    return 1u << RDMAD_CHANNEL_DATAGRAM;
}
static const struct fabric_ops better = {.name = "better", .services = datagrams};

static void ask_for_datagrams(const char *fabric) {
    struct peer_msg hello = raw_hello();
    struct error err;
    strcpy(hello.hello.fabrics[0], fabric);
    memset(hello.hello.node_id, 2, sizeof(hello.hello.node_id));
    fake_fabrics[0] = &better;
    fake_fabrics[1] = &fake_fabric;
    cr_assert_eq(channel_new(s, RDMAD_CHANNEL_DATAGRAM, rig_done, &done, &ch, &err), 0);
    peer_connect(rig.st.peers, ch, &uri, 2000 * MS);
    out = raw_accept(listener);
    raw_expect(out, PEER_MSG_HELLO);
    raw_send(out, &hello);
}

Test(peer_connects, which_kinds_there_are_is_the_fabrics_that_was_agreed_on) {
    ask_for_datagrams("better");
    cr_expect_eq(raw_expect(out, PEER_MSG_CHAN_REQ).chan_req.kind, RDMAD_CHANNEL_DATAGRAM);
    say_goodbye(out);
    AWAIT(done.calls == 1);
    ask_for_datagrams("fake");
    cr_expect_eq(raw_expect(out, PEER_MSG_CHAN_REQ).chan_req.kind, RDMAD_CHANNEL_RELIABLE);
}

/* One of them is of a former life of that daemon, which had a device then or has one now. */
Test(peer_connects, two_connections_over_different_fabrics_make_no_channel) {
    fake_fabrics[0] = &better;
    fake_fabrics[1] = &fake_fabric;
    struct peer_msg m = asks(), b = bind_to(&m), hello = raw_hello();
    strcpy(hello.hello.fabrics[0], "better");
    in = raw_dial();
    raw_send(in, &hello);
    raw_expect(in, PEER_MSG_HELLO);
    raw_send(in, &b);
    AWAIT(done.calls == 1);
    cr_expect_eq(done.code, RDMAD_E_PEER_LOST);
    cr_expect(strstr(done.text, "over fake") && strstr(done.text, "over better"), "%s", done.text);
    cr_expect_eq(fake_count(FAKE_CHANNEL_ADD), 0);
    expect_end(out, m.chan_req.ref, true, RDMAD_E_PEER_LOST);
}
