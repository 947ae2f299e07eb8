/* SPDX-License-Identifier: MIT */
/*
 * Peers that dial us: strangers, liars, the silent, and what they may and may not have.
 */
#include "daemon/base/events.h"
#include "daemon/peer/connect/room.h"
#include "daemon/peer/control/liveness.h"
#include "daemon/peer/control/transport.h"
#include "daemon/peer/lane/offer.h"
#include "tests/unit/peer_rig.h"
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

TestSuite(peer_owner, .init = peer_rig_up, .fini = peer_rig_down, .timeout = 60);

static void ask(struct raw *r, const struct lease *l, uint64_t ref) {
    struct peer_msg m = raw_attach_req(l, ref, 3);
    raw_send(r, &m);
}

/* Attaches; returns the owner's number of it. */
static uint64_t attach(struct raw *r, const struct lease *l, uint64_t ref) {
    return raw_attach(r, l, ref, 3).owner_ref;
}

static void finish(struct lease *l) {
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    rig_advance(rig.config.lease_revoke_grace_ms * MS);
    fake_answer_all();
}

/* ---- hello ----------------------------------------------------------------------------------- */

Test(peer_owner, who_says_hello_is_answered_and_up) {
    struct raw *r = raw_dial();
    struct peer_msg hello = raw_hello();
    cr_expect_eq(peers_in_state("connecting"), 1);
    raw_send(r, &hello);
    struct peer_msg m = raw_expect(r, PEER_MSG_HELLO);
    cr_expect_str_eq(m.hello.node, "rig");
    cr_expect_str_eq(m.hello.fabrics[0], "fake");
    cr_expect_eq(m.hello.listen_port, rig.st.listen_port);
    cr_expect_eq(peers_in_state("up"), 1);
}

Test(peer_owner, a_hello_may_come_byte_by_byte) {
    struct raw *r = raw_dial();
    struct peer_msg hello = raw_hello();
    uint8_t frame[PEER_WIRE_MAX];
    size_t size = peer_wire_encode(&hello, frame);
    for (size_t i = 0; i < size; i++)
        raw_bytes(r, frame + i, 1);
    raw_expect(r, PEER_MSG_HELLO);
}

Test(peer_owner, another_fabric_or_version_is_refused_naming_both) {
    struct raw *r = raw_dial();
    struct peer_msg hello = raw_hello();
    uint8_t frame[PEER_WIRE_MAX];
    char ours[32];
    strcpy(hello.hello.fabrics[0], "verbs");
    raw_send(r, &hello);
    struct peer_msg m = raw_expect(r, PEER_MSG_BYE);
    cr_expect_eq(m.bye.code, RDMAD_E_FABRIC);
    cr_expect(strstr(m.bye.text, "verbs") && strstr(m.bye.text, "fake") &&
                  strstr(m.bye.text, "set \"fabric\" alike on both"),
              "%s", m.bye.text);
    cr_expect(raw_eof(r));

    r = raw_dial();
    hello = raw_hello();
    size_t size = peer_wire_encode(&hello, frame);
    frame[4] = 9;
    raw_bytes(r, frame, size);
    m = raw_expect(r, PEER_MSG_BYE);
    cr_expect_eq(m.bye.code, RDMAD_E_VERSION);
    snprintf(ours, sizeof(ours), "rig versions %u to %u:", PEER_WIRE_OLDEST, PEER_WIRE_VERSION);
    cr_expect(strstr(m.bye.text, "version 9") && strstr(m.bye.text, ours), "%s", m.bye.text);
    cr_expect(raw_eof(r));
    AWAIT(peers_count(rig.st.peers) == 0);
}

Test(peer_owner, garbage_ends_the_connection_and_nothing_else) {
    struct raw *good = raw_greet();
    static const char *const garbage[] = {"GET / HTTP/1.1\r\n\r\n",
                                          "\x16\x03\x01\x02\x00\x01\x00\x01",
                                          "\xff\xff\xff\xff\xff\xff\xff\xff"};
    for (unsigned i = 0; i < 3; i++) {
        struct raw *r = raw_dial();
        raw_bytes(r, garbage[i], 8);
        cr_expect(raw_eof(r), "%u", i);
    }
    struct peer_msg ping = {.type = PEER_MSG_PING, .ping.seq = 3};
    raw_send(good, &ping);
    cr_expect_eq(raw_expect(good, PEER_MSG_PONG).ping.seq, 3);
}

Test(peer_owner, messages_out_of_turn_are_refused) {
    struct peer_msg ping = {.type = PEER_MSG_PING}, hello = raw_hello();
    struct peer_msg rep = {.type = PEER_MSG_TTL_REP};
    struct raw *r = raw_dial();
    raw_send(r, &ping);
    cr_expect_not_null(strstr(raw_expect(r, PEER_MSG_BYE).bye.text, "before HELLO"));
    r = raw_greet();
    raw_send(r, &hello);
    cr_expect_not_null(strstr(raw_expect(r, PEER_MSG_BYE).bye.text, "second HELLO"));
    r = raw_greet();
    raw_send(r, &rep);
    cr_expect_not_null(strstr(raw_expect(r, PEER_MSG_BYE).bye.text, "wrong side"));
    cr_expect(raw_eof(r));
}

/* ---- strangers ------------------------------------------------------------------------------- */

Test(peer_owner, a_stranger_that_stays_silent_is_dropped) {
    struct raw *r = raw_dial();
    rig_advance(PEER_HELLO_NS - 1);
    cr_expect(raw_silent(r));
    rig_advance(1);
    cr_expect(raw_eof(r));
}

Test(peer_owner, strangers_are_bounded_and_keep_nobody_out) {
    for (unsigned i = 0; i < 2 * PEER_UNGREETED_MAX; i++)
        raw_dial();
    AWAIT(peers_in_state("connecting") <= PEER_UNGREETED_MAX);
    raw_greet();
    cr_expect_eq(peers_in_state("up"), 1);
}

/* Fills the table with connections; returns the first. */
static struct raw *greet_from_host(unsigned number) {
    char ip[16];
    snprintf(ip, sizeof(ip), "127.0.0.%u", 10 + number);
    return raw_greet_from(ip);
}

static struct raw *fill(void) {
    struct raw *first = greet_from_host(0);
    for (unsigned i = 1; i < 8; i++) /* half of peer.max */
        greet_from_host(i);
    cr_assert_eq(peers_in_state("up"), 8);
    return first;
}

Test(peer_owner, peers_are_bounded_and_the_limit_is_named) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 5000);
    for (unsigned i = 0; i < 8; i++)
        attach(greet_from_host(i), l, i + 1);
    struct raw *r = raw_dial();
    struct peer_msg hello = raw_hello();
    raw_send(r, &hello);
    struct peer_msg m = raw_expect(r, PEER_MSG_BYE);
    cr_expect_eq(m.bye.code, RDMAD_E_LIMIT);
    cr_expect_not_null(strstr(m.bye.text, "peer.max is 16"), "%s", m.bye.text);
    finish(l);
}

Test(peer_owner, who_only_stays_connected_keeps_nobody_out) {
    struct raw *idle = fill();
    for (unsigned i = 0; i < 8; i++)
        greet_from_host(8 + i);
    cr_expect_eq(raw_expect(idle, PEER_MSG_BYE).bye.code, RDMAD_OK);
    cr_expect(raw_eof(idle));
    AWAIT(peers_in_state("up") == 8);
}

static char peer[] = "peer";
static bool is_of(void *what, const struct event_row *e) {
    return !strcmp(e->what, what);
}

Test(peer_owner, who_closes_what_nobody_uses_is_not_lost_and_a_lessees_daemon_is) {
    struct lease *l = rig_grant(rig_session(1), 600000);
    for (unsigned used = 0; used < 2; used++) {
        static struct event_row last;
        struct raw *r = raw_greet();
        if (used)
            attach(r, l, 6);
        raw_close(r);
        AWAIT(peers_in_state("up") == 0);
        cr_assert_eq(events_read(0, is_of, peer, &last, 1), 1);
        cr_expect_str_eq(last.cause, used ? "lost" : "closed", "%s: %s", last.cause, last.text);
        cr_expect_not_null(strstr(last.text, "closed the connection"), "%s", last.text);
    }
    finish(l);
}

static void watch_names(struct raw *r) {
    struct peer_msg m = {.type = PEER_MSG_WATCH_REQ, .watch_req.ref = 1};
    raw_send(r, &m);
    raw_expect(r, PEER_MSG_NAME_EV);
}

Test(peer_owner, who_only_watches_names_keeps_nobody_out) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 5000);
    struct raw *r[8];
    for (unsigned i = 0; i < 8; i++) {
        r[i] = greet_from_host(i);
        watch_names(r[i]);
    }
    attach(r[0], l, 5);
    attach(raw_greet(), l, 6);
    struct peer_msg m = raw_expect(r[1], PEER_MSG_BYE);
    cr_expect_eq(m.bye.code, RDMAD_E_LIMIT);
    cr_expect_not_null(strstr(m.bye.text, "peer.max, 16"), "%s", m.bye.text);
    cr_expect(raw_silent(r[0]), "it holds a lease, too");
    cr_expect_eq(l->attached, 2);
    finish(l);
}

Test(peer_owner, who_holds_a_lease_is_not_the_one_that_makes_room) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 5000);
    struct raw *user = fill();
    attach(user, l, 5);
    for (unsigned i = 0; i < 16; i++)
        raw_greet();
    cr_expect_eq(l->attached, 1);
    cr_expect(raw_silent(user));
    finish(l);
}

/* ---- attach ---------------------------------------------------------------------------------- */

Test(peer_owner, an_attach_opens_a_window_for_this_peer_alone) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 5000);
    struct raw *r = raw_greet();
    rig_advance(1000 * MS);
    ask(r, l, 77);
    AWAIT(fake_count(FAKE_WINDOW_OPEN) == 1);
    const struct fabric_window_spec w = fake_call(FAKE_WINDOW_OPEN, 0)->window;
    cr_expect_neq(w.peer, 0);
    cr_expect_eq(w.via, 3);
    cr_expect_eq(w.memory, rig_pool(owner)->memory);
    cr_expect_eq(w.base, (char *)rig_pool(owner)->base + 4096);
    cr_expect_eq(w.length, 8192);
    cr_expect_eq(w.owner, user_id_number(session_user_id(owner)), "whose memory it is");
    cr_expect_eq(w.deadline_ns, l->deadline_ns);
    cr_expect(raw_silent(r), "no answer before the window is open");
    rig_advance(500 * MS);
    fake_answer(fake_call(FAKE_WINDOW_OPEN, 0), 0);
    struct peer_msg m = raw_expect(r, PEER_MSG_ATTACH_REP);
    cr_expect_eq(m.attach_rep.lessee_ref, 77);
    cr_expect_eq(m.attach_rep.lease, l->id);
    cr_expect_eq(m.attach_rep.ttl_ns, 3500 * MS);
    cr_expect_eq(m.attach_rep.key.size, 5);
    finish(l);
}

Test(peer_owner, refusals_of_an_attach_say_why) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 5000);
    struct raw *r = raw_greet();
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REQ, .attach_req = {.lessee_ref = 1, .lease = 1}};
    raw_send(r, &m); /* no key */
    m = raw_expect(r, PEER_MSG_ATTACH_REP);
    cr_expect_eq(m.attach_rep.status, RDMAD_E_NO_LEASE);
    cr_expect_eq(m.attach_rep.lessee_ref, 1);
    cr_expect_not_null(strstr(m.attach_rep.text, " at rig;"), "who asks is elsewhere: %s",
                       m.attach_rep.text);
    ask(r, l, 2);
    AWAIT(fake_count(FAKE_WINDOW_OPEN) == 1);
    fake_answer(fake_call(FAKE_WINDOW_OPEN, 0), RDMAD_E_NOMEM);
    m = raw_expect(r, PEER_MSG_ATTACH_REP);
    cr_expect_eq(m.attach_rep.status, RDMAD_E_NOMEM);
    fake_answer_all(); /* the window is closed all the same */
    cr_expect_eq(l->attached, 0);
    finish(l);
}

Test(peer_owner, a_lease_that_ends_while_its_window_opens_is_never_given_out) {
    for (int close_first = 0; close_first < 2; close_first++) {
        struct session *owner = rig_session(1);
        struct lease *l = rig_grant(owner, 5000);
        struct rig_done done = {0};
        struct raw *r = raw_greet();
        unsigned opens = fake_count(FAKE_WINDOW_OPEN);
        ask(r, l, 2);
        AWAIT(fake_count(FAKE_WINDOW_OPEN) == opens + 1);
        lease_end(l, RDMAD_E_LEASE_REVOKED, rig_done, &done);
        cr_assert_eq(fake_pending(FAKE_WINDOW_CLOSE), 1, "no need to ask who never had it");
        fake_answer(fake_call(close_first ? FAKE_WINDOW_CLOSE : FAKE_WINDOW_OPEN, -1), 0);
        fake_answer(fake_call(close_first ? FAKE_WINDOW_OPEN : FAKE_WINDOW_CLOSE, -1), 0);
        cr_expect_eq(done.calls, 1);
        struct peer_msg m = raw_expect(r, PEER_MSG_ATTACH_REP);
        cr_expect_eq(m.attach_rep.status, RDMAD_E_LEASE_REVOKED);
        cr_expect(raw_silent(r));
    }
}

Test(peer_owner, a_revoke_waits_for_stopped_then_closes_the_window) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 5000);
    struct rig_done done = {0};
    struct raw *r = raw_greet();
    struct peer_msg m = {.type = PEER_MSG_STOPPED};
    m.stopped.owner_ref = attach(r, l, 5);
    raw_send(r, &m); /* unasked: means nothing */
    cr_expect_eq(fake_count(FAKE_WINDOW_CLOSE), 0);
    lease_end(l, RDMAD_E_LEASE_REVOKED, rig_done, &done);
    struct peer_msg revoked = raw_expect(r, PEER_MSG_REVOKED);
    cr_expect_eq(revoked.revoked.lessee_ref, 5);
    cr_expect_eq(revoked.revoked.reason, RDMAD_E_LEASE_REVOKED);
    cr_expect_eq(fake_count(FAKE_WINDOW_CLOSE), 0);
    raw_send(r, &m);
    AWAIT(fake_pending(FAKE_WINDOW_CLOSE) == 1);
    cr_expect_eq(done.calls, 0);
    fake_answer_all();
    cr_expect_eq(done.calls, 1);
    raw_send(r, &m); /* late: names nothing */
    cr_expect(raw_silent(r));
}

Test(peer_owner, a_release_says_whether_the_lease_was_used) {
    struct session *owner = rig_session(1);
    struct lease_terms t = rig_terms(5000);
    t.max_attaches = 1;
    struct lease *l = rig_grant_terms(owner, &t);
    struct raw *r = raw_greet();
    struct peer_msg m = {.type = PEER_MSG_RELEASE};
    m.release.owner_ref = attach(r, l, 5);
    raw_send(r, &m);
    AWAIT(fake_pending(FAKE_WINDOW_CLOSE) == 1);
    fake_answer_all();
    cr_expect_eq(l->stage, LEASE_LIVE, "it never had it");
    m.release.owner_ref = attach(r, l, 6);
    m.release.returned = 1;
    raw_send(r, &m);
    AWAIT(fake_pending(FAKE_WINDOW_CLOSE) == 1);
    fake_answer_all();
    cr_expect_eq(leases_count(rig.st.leases), 0, "a lease for one");
}

Test(peer_owner, made_up_numbers_find_nothing) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 5000);
    struct raw *r = raw_greet(), *thief = raw_greet();
    uint64_t ref = attach(r, l, 5);
    const uint64_t guesses[] = {ref, 0, 1, ref + 1, UINT64_MAX};
    for (unsigned i = 0; i < 5; i++) {
        struct peer_msg release = {.type = PEER_MSG_RELEASE, .release = {guesses[i], 1}};
        struct peer_msg stopped = {.type = PEER_MSG_STOPPED, .stopped = {guesses[i]}};
        struct peer_msg ttl = {.type = PEER_MSG_TTL_REQ, .ttl.ref = guesses[i]};
        raw_send(thief, &release);
        raw_send(thief, &stopped);
        raw_send(thief, &ttl);
    }
    cr_expect(raw_silent(thief));
    cr_expect_eq(fake_count(FAKE_WINDOW_CLOSE), 0);
    cr_expect_eq(l->attached, 1);
    finish(l);
}

Test(peer_owner, a_renewal_is_told_and_its_duration_can_be_asked) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 5000);
    struct raw *r = raw_greet();
    struct peer_msg m = {.type = PEER_MSG_TTL_REQ};
    struct error err;
    m.ttl.ref = attach(r, l, 5);
    cr_assert_eq(lease_renew(l, 9000 * MS, &err), 0);
    struct peer_msg renewed = raw_expect(r, PEER_MSG_RENEWED);
    cr_expect_eq(renewed.ttl.ref, 5);
    cr_expect_eq(renewed.ttl.ttl_ns, 9000 * MS);
    rig_advance(100 * MS);
    raw_send(r, &m);
    cr_expect_eq(raw_expect(r, PEER_MSG_TTL_REP).ttl.ttl_ns, 8900 * MS);
    finish(l);
}

Test(peer_owner, renewals_that_the_lessee_has_not_looked_at_cost_one_message) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 5000);
    struct raw *r = raw_greet();
    struct peer_msg m = {.type = PEER_MSG_TTL_REQ};
    struct error err;
    m.ttl.ref = attach(r, l, 5);
    for (unsigned i = 0; i < 50; i++)
        cr_assert_eq(lease_renew(l, (9000 + i) * MS, &err), 0);
    raw_expect(r, PEER_MSG_RENEWED);
    cr_expect(raw_silent(r));
    raw_send(r, &m);
    cr_expect_eq(raw_expect(r, PEER_MSG_TTL_REP).ttl.ttl_ns, 9049 * MS, "the last is what counts");
    cr_assert_eq(lease_renew(l, 7000 * MS, &err), 0);
    cr_expect_eq(raw_expect(r, PEER_MSG_RENEWED).ttl.ttl_ns, 7000 * MS);
    finish(l);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

Test(peer_owner, attaches_of_one_peer_are_bounded) {
    struct session *owner = rig_session(1);
    struct lease_terms t = rig_terms(5000);
    strcpy(t.name, "n");
    struct lease *l = rig_grant_terms(owner, &t);
    struct raw *r = raw_greet();
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REQ, .attach_req = {.name = "n", .via = 1}};
    enum { ROUND = 64 };
    uint8_t frames[ROUND * PEER_WIRE_MAX];
    fake_reset();
    for (unsigned sent = 0; sent < rig.config.max_peer_attaches; sent += ROUND) {
        size_t size = 0;
        for (unsigned i = 0; i < ROUND; i++)
            size += peer_wire_encode(&m, frames + size);
        raw_bytes(r, frames, size);
    }
    AWAIT(l->attached == rig.config.max_peer_attaches);
    cr_expect(raw_silent(r));
    raw_send(r, &m);
    m = raw_expect(r, PEER_MSG_ATTACH_REP);
    cr_expect_eq(m.attach_rep.status, RDMAD_E_LIMIT);
    cr_expect_not_null(strstr(m.attach_rep.text, "4096 of at most 4096"), "%s", m.attach_rep.text);
    raw_close(r);
    AWAIT(fake_pending(FAKE_WINDOW_CLOSE) == rig.config.max_peer_attaches);
    fake_answer_all();
    cr_expect_eq(l->attached, 0);
    finish(l);
}

Test(peer_owner, a_peer_that_does_not_read_is_dropped) {
    struct raw *r = raw_greet();
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REQ, .attach_req.name = "none"};
    uint8_t frames[64 * PEER_WIRE_MAX];
    int small = 4096;
    setsockopt(r->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    size_t size = 0, at = 0;
    for (unsigned i = 0; i < 64; i++)
        size += peer_wire_encode(&m, frames + size);
    for (unsigned i = 0; i < 20000 && peers_in_state("up"); i++) {
        ssize_t n = send(r->fd, frames + at, size - at, MSG_NOSIGNAL);
        at = n > 0 ? (at + (size_t)n) % size : at;
        rig_advance(10 * MS);
        settle();
    }
    cr_expect_eq(peers_in_state("up"), 0);
}

Test(peer_owner, links_are_for_who_has_a_lease_and_bounded) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 5000);
    struct raw *r = raw_greet();
    struct peer_msg m = {.type = PEER_MSG_LINK_REQ,
                         .link_req = {.ref = 4, .hello = {.size = 2, .bytes = {'h', 'i'}}}};
    raw_send(r, &m);
    cr_expect_eq(raw_expect(r, PEER_MSG_LINK_REP).link_rep.status, RDMAD_E_NO_LEASE);
    attach(r, l, 5);
    for (unsigned i = 0; i < PEER_OFFERS_MAX; i++)
        raw_send(r, &m);
    AWAIT(fake_pending(FAKE_OFFER) == PEER_OFFERS_MAX);
    cr_expect_eq(memcmp(&fake_call(FAKE_OFFER, 0)->blob, &m.link_req.hello, 3), 0);
    raw_send(r, &m);
    cr_expect_eq(raw_expect(r, PEER_MSG_LINK_REP).link_rep.status, RDMAD_E_LIMIT);
    fake_answer(fake_call(FAKE_OFFER, 0), 0);
    struct peer_msg rep = raw_expect(r, PEER_MSG_LINK_REP);
    cr_expect_eq(rep.link_rep.ref, 4);
    cr_expect_eq(rep.link_rep.offer.size, 5);
    raw_close(r); /* with offers under way */
    AWAIT(fake_count(FAKE_EXPEL) == 1);
    fake_answer_all();
    AWAIT(peers_count(rig.st.peers) == 0);
    finish(l);
}

/* ---- losses ---------------------------------------------------------------------------------- */

Test(peer_owner, a_lost_connection_closes_windows_without_asking_and_expels) {
    struct session *owner = rig_session(1);
    struct lease_terms t = rig_terms(5000);
    t.max_attaches = 1;
    struct lease *l = rig_grant_terms(owner, &t), *ending = rig_grant(owner, 5000);
    struct raw *r = raw_greet();
    attach(r, l, 5);
    attach(r, ending, 6);
    lease_end(ending, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    raw_close(r);
    AWAIT(fake_count(FAKE_EXPEL) == 1);
    cr_expect_eq(fake_pending(FAKE_WINDOW_CLOSE), 2, "without grace");
    cr_expect_eq(leases_count(rig.st.leases), 2);
    fake_answer_all();
    cr_expect_eq(leases_count(rig.st.leases), 1);
    cr_expect_eq(l->stage, LEASE_LIVE, "a lost lessee releases nothing");
    cr_expect_eq(l->attached, 0);
    AWAIT(peers_count(rig.st.peers) == 0);
    finish(l);
}

Test(peer_owner, a_silent_lessee_is_pinged_and_given_up) {
    struct session *owner = rig_session(1);
    struct raw *r = raw_greet();
    rig_advance(3600 * NSEC_PER_SEC);
    cr_expect(raw_silent(r), "without a lease nothing is sent, for ever");
    struct lease *l = rig_grant(owner, 500000);
    attach(r, l, 5);
    for (int i = 0; i < 5; i++) { /* it answers: it lives */
        rig_advance(2000 * MS);
        struct peer_msg m = raw_expect(r, PEER_MSG_PING);
        m.type = PEER_MSG_PONG;
        raw_send(r, &m);
        cr_expect_eq(fake_count(FAKE_WINDOW_CLOSE), 0);
    }
    for (int i = 0; i < 5; i++) /* it does not */
        rig_advance(2000 * MS);
    AWAIT(fake_count(FAKE_WINDOW_CLOSE) == 1);
    cr_expect(raw_eof(r));
    fake_answer_all();
    finish(l);
}

static int broken_after_ms(void) {
    const struct peer *p = list_entry(rig.st.peers->all.next, struct peer, node);
    int ms = -1;
    socklen_t size = sizeof(ms);
    getsockopt(transport_socket(p->way), IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &size);
    return ms;
}

/* It is the daemon that gives a peer up, and not its kernel before. */
Test(peer_owner, a_silence_is_borne_by_the_kernel_as_it_is_set_meanwhile) {
    struct session *owner = rig_session(1);
    struct raw *r = raw_greet();
    struct lease *l = rig_grant(owner, 500000);
    attach(r, l, 5);
    rig.config.peer_dead_ms = 300000; /* read again */
    rig_advance(2000 * MS);
    raw_expect(r, PEER_MSG_PING);
    if (broken_after_ms() == 0)
        cr_skip_test("this kernel's TCP has no bound for its pauses: Linux 6.15 has it");
    cr_expect_eq(broken_after_ms(), 300000, "%d", broken_after_ms());
    raw_close(r);
    AWAIT(fake_count(FAKE_WINDOW_CLOSE) == 1);
    fake_answer_all();
    finish(l);
}

Test(peer_owner, stopping_says_goodbye) {
    struct raw *r = raw_greet();
    struct rig_done done = {0};
    peers_stop(rig.st.peers, rig_done, &done);
    struct peer_msg m = raw_expect(r, PEER_MSG_BYE);
    cr_expect_eq(m.bye.code, RDMAD_E_SHUTDOWN);
    AWAIT(fake_pending(FAKE_EXPEL) == 1);
    cr_expect_eq(done.calls, 0, "the data plane still has to let go of it");
    fake_answer_all();
    cr_expect_eq(done.calls, 1);
}
