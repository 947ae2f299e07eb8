/* SPDX-License-Identifier: MIT */
/*
 * Peers that we dial: each step of an attach, done well, refused, late, lost and given up.
 */
#include "daemon/base/events.h"
#include "tests/unit/lessee_steps.h"

TestSuite(peer_lessee, .init = up, .fini = down, .timeout = 60);

/* ---- done well ------------------------------------------------------------------------------- */

Test(peer_lessee, the_duration_counts_from_the_request) {
    begin();
    struct raw *r = greet();
    uint64_t ref = asked(r), sent = rig.now_ns;
    rig_advance(700 * MS); /* the answer takes its time */
    grant(r, ref, 2000);
    link_and_key(r, ref);
    const struct fake_call *add = fake_call(FAKE_LEASE_ADD, 0);
    cr_expect_eq(add->spec.deadline_ns, sent + 2000 * MS);
    cr_expect_eq(add->spec.length, 4096);
    cr_expect_eq(add->spec.rights, RDMAD_RIGHT_READ);
    cr_expect_eq(add->spec.key.size, 4);
    cr_expect_not_null(add->spec.lane);
    cr_expect_eq(done.calls, 0, "not before the data plane has it");
    fake_answer(fake_call(FAKE_LEASE_ADD, 0), 0);
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(h->lease_id, 7);
}

Test(peer_lessee, one_connection_and_one_lane_serve_all_attaches) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    begin(); /* once more */
    uint64_t second = asked_via(r, 1);
    cr_expect_neq(second, ref);
    struct peer_msg m = granted(second, 60000);
    m.attach_rep.key.size = 1; /* at once: there is a link that it is for */
    raw_send(r, &m);
    AWAIT(fake_pending(FAKE_LEASE_ADD) == 1);
    fake_answer_all();
    cr_expect_eq(done.calls, 2);
    cr_expect_eq(fake_count(FAKE_LANE_OPEN), 1);
    cr_expect_eq(peers_count(rig.st.peers), 1);
}

Test(peer_lessee, a_release_is_told_when_the_data_plane_has_let_go) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    handle_release(h, NULL, NULL);
    cr_expect(raw_silent(r));
    fake_answer_all();
    expect_release(r, ref, true);
}

Test(peer_lessee, a_revoke_is_answered_when_the_data_plane_has_let_go) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    struct peer_msg m = {.type = PEER_MSG_REVOKED,
                         .revoked = {ref, RDMAD_E_LEASE_REVOKED, "lease 7 was revoked"}};
    raw_send(r, &m);
    AWAIT(fake_pending(FAKE_LEASE_END) == 1);
    cr_expect(raw_silent(r));
    fake_answer_all();
    cr_expect_eq(raw_expect(r, PEER_MSG_STOPPED).stopped.owner_ref, 900 + ref);
    cr_expect_eq(rig_last_event(s)->reason, RDMAD_E_LEASE_REVOKED);
    cr_expect_str_eq(rig_last_event(s)->text, "lease 7 was revoked");
    raw_send(r, &m); /* once more: names nothing */
    cr_expect(raw_silent(r));
}

Test(peer_lessee, an_expiry_needs_no_word_of_the_owner) {
    uint64_t ref;
    struct raw *r = attached(3000, &ref);
    rig_advance(1900 * MS);
    rig_advance(1100 * MS);
    AWAIT(fake_pending(FAKE_LEASE_END) == 1);
    cr_expect_eq(fake_call(FAKE_LEASE_END, 0)->reason, RDMAD_E_LEASE_EXPIRED);
    fake_answer_all();
    raw_expect(r, PEER_MSG_PING);
    expect_release(r, ref, false);
    cr_expect_eq(rig_events(s, RDMAD_EV_LEASE_ENDED), 1);
}

Test(peer_lessee, a_longer_life_counts_from_when_it_was_asked_for) {
    uint64_t ref;
    struct raw *r = attached(1500, &ref);
    struct peer_msg m = {.type = PEER_MSG_RENEWED, .ttl = {ref, 60000 * MS}};
    raw_send(r, &m);
    cr_expect_eq(raw_expect(r, PEER_MSG_TTL_REQ).ttl.ref, 900 + ref);
    uint64_t asked_ns = rig.now_ns;
    cr_expect_eq(fake_count(FAKE_LEASE_EXTEND), 0, "not yet");
    raw_send(r, &m); /* renewed again meanwhile: one question at a time */
    cr_expect(raw_silent(r));
    rig_advance(500 * MS);
    m.type = PEER_MSG_TTL_REP;
    raw_send(r, &m);
    AWAIT(fake_count(FAKE_LEASE_EXTEND) == 1);
    cr_expect_eq(fake_call(FAKE_LEASE_EXTEND, 0)->deadline_ns, asked_ns + 60000 * MS);
    raw_expect(r, PEER_MSG_TTL_REQ);
}

Test(peer_lessee, a_shorter_life_holds_at_once) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    struct peer_msg m = {.type = PEER_MSG_RENEWED, .ttl = {ref, 10 * MS}};
    raw_send(r, &m);
    AWAIT(fake_count(FAKE_LEASE_EXTEND) == 1);
    cr_expect_eq(fake_call(FAKE_LEASE_EXTEND, 0)->deadline_ns, rig.now_ns + 10 * MS);
}

/* ---- refused --------------------------------------------------------------------------------- */

Test(peer_lessee, the_owners_reason_reaches_the_client) {
    begin();
    struct raw *r = greet();
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REP};
    m.attach_rep.lessee_ref = asked(r);
    m.attach_rep.status = RDMAD_E_LEASE_EXPIRED;
    strcpy(m.attach_rep.text, "lease 7 expired 1.2 s ago");
    raw_send(r, &m);
    failed(RDMAD_E_LEASE_EXPIRED, "lease 7 expired 1.2 s ago");
}

Test(peer_lessee, a_goodbye_instead_of_hello_is_the_reason) {
    begin();
    struct raw *r = raw_accept(listener);
    struct peer_msg m = {.type = PEER_MSG_BYE,
                         .bye = {RDMAD_E_FABRIC, "fabric verbs here, fake there"}};
    raw_send(r, &m);
    failed(RDMAD_E_FABRIC, "fabric verbs here");
}

Test(peer_lessee, another_fabric_is_noticed_on_this_side_too) {
    begin();
    struct raw *r = raw_accept(listener);
    struct peer_msg m = raw_hello();
    strcpy(m.hello.fabrics[0], "verbs");
    raw_send(r, &m);
    failed(RDMAD_E_FABRIC, "verbs");
}

Test(peer_lessee, nobody_listening_is_said_with_the_address) {
    raw_close(listener);
    begin();
    failed(RDMAD_E_UNREACHABLE, "127.0.0.1");
    AWAIT(peers_count(rig.st.peers) == 0);
}

Test(peer_lessee, a_peer_that_will_never_fit_fails_the_attach_at_once) {
    static const int never[] = {RDMAD_E_VERSION, RDMAD_E_PROTOCOL};
    for (int i = 0; i < 2; i++) {
        memset(&done, 0, sizeof(done));
        begin();
        struct raw *r = greet();
        uint64_t ref = asked(r);
        grant(r, ref, 60000);
        no_offer(r, link_asked(r), never[i], "your hello is of version 9");
        failed(never[i], "offers no link: your hello is of version 9");
        expect_release(r, ref, false);
        raw_close(r);
        fake_answer_all();
        AWAIT(peers_count(rig.st.peers) == 0);
    }
}

Test(peer_lessee, the_data_planes_refusal_gives_the_lease_back_unused) {
    begin();
    struct raw *r = greet();
    uint64_t ref = asked(r);
    grant(r, ref, 60000);
    link_and_key(r, ref);
    fake_answer(fake_call(FAKE_LEASE_ADD, 0), RDMAD_E_NOMEM);
    failed(RDMAD_E_NOMEM, "the data plane says");
    expect_release(r, ref, false);
}

Test(peer_lessee, an_owner_that_makes_things_up_is_left) {
    for (int i = 0; i < 3; i++) {
        memset(&done, 0, sizeof(done));
        begin();
        struct raw *r = greet();
        uint64_t ref = asked(r);
        struct peer_msg m = granted(ref + (i == 0), 60000);
        if (i == 1)
            m = (struct peer_msg){.type = PEER_MSG_REVOKED,
                                  .revoked = {ref, RDMAD_E_LEASE_REVOKED, ""}};
        if (i == 2)
            m = (struct peer_msg){.type = PEER_MSG_ATTACH_REQ, .attach_req = {.lease = 1}};
        raw_send(r, &m);
        cr_expect_eq(raw_expect(r, PEER_MSG_BYE).bye.code, RDMAD_E_PROTOCOL);
        failed(RDMAD_E_PROTOCOL, i == 2 ? "wrong side" : "attach");
        cr_expect(raw_eof(r));
    }
}

/* ---- late ------------------------------------------------------------------------------------ */

Test(peer_lessee, the_timeout_bounds_every_step) {
    begin();
    rig_advance(5000 * MS);
    cr_expect_eq(done.calls, 1);
    cr_expect(done.code == RDMAD_E_TIMEOUT || done.code == RDMAD_E_UNREACHABLE, "%s", done.text);
    cr_expect_eq(s->handles.used, 0);
}

Test(peer_lessee, what_is_granted_after_the_timeout_is_given_back_unused) {
    begin();
    struct raw *r = greet();
    uint64_t ref = asked(r);
    rig_advance(1999 * MS); /* in steps, or the peer seems dead */
    rig_advance(1999 * MS);
    rig_advance(1002 * MS);
    failed(RDMAD_E_TIMEOUT, "waiting for its answer");
    raw_expect(r, PEER_MSG_PING);
    grant(r, ref, 60000);
    expect_release(r, ref, false);
    cr_expect(raw_silent(r));
}

Test(peer_lessee, a_refusal_after_the_timeout_needs_no_answer) {
    begin();
    struct raw *r = greet();
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REP, .attach_rep.status = RDMAD_E_NO_LEASE};
    m.attach_rep.lessee_ref = asked(r);
    rig_advance(5000 * MS);
    failed(RDMAD_E_TIMEOUT, "waiting for its answer");
    raw_expect(r, PEER_MSG_PING);
    raw_send(r, &m);
    cr_expect(raw_silent(r));
}

Test(peer_lessee, a_link_that_takes_too_long_gives_the_lease_back) {
    begin();
    struct raw *r = greet();
    uint64_t ref = asked(r);
    grant(r, ref, 60000);
    uint64_t link = link_asked(r);
    rig_advance(5000 * MS);
    failed(RDMAD_E_TIMEOUT, "opening a link");
    raw_expect(r, PEER_MSG_PING);
    expect_release(r, ref, false);
    rig_advance(PEER_LANE_IDLE_NS);
    cr_expect_eq(fake_count(FAKE_LANE_DROP), 1);
    struct peer_msg m = {.type = PEER_MSG_LINK_REP, .link_rep = {.ref = link, .offer.size = 1}};
    raw_send(r, &m); /* the offer comes when nobody wants it */
    cr_expect(raw_silent(r));
    cr_expect_eq(fake_count(FAKE_LANE_OPEN), 0);
}

/* ---- lost ------------------------------------------------------------------------------------ */

Test(peer_lessee, a_lost_connection_ends_handles_and_lanes) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    raw_close(r);
    AWAIT(fake_pending(FAKE_LEASE_END) == 1);
    cr_expect_eq(fake_call(FAKE_LEASE_END, 0)->reason, RDMAD_E_PEER_LOST);
    cr_expect_eq(fake_count(FAKE_LANE_DROP), 0, "ops must end as lost before the lane goes");
    fake_answer(fake_call(FAKE_LEASE_END, 0), 0);
    cr_expect_eq(fake_pending(FAKE_LANE_DROP), 1);
    cr_expect_eq(rig_last_event(s)->reason, RDMAD_E_PEER_LOST);
    cr_expect_eq(peers_count(rig.st.peers), 1);
    fake_answer_all();
    cr_expect_eq(peers_count(rig.st.peers), 0);
}

Test(peer_lessee, a_connection_lost_at_each_step_fails_the_attach) {
    for (int step = 0; step < 6; step++) {
        memset(&done, 0, sizeof(done));
        begin();
        struct raw *r = raw_accept(listener);
        struct peer_msg hello = raw_hello();
        uint64_t ref = 0;
        raw_expect(r, PEER_MSG_HELLO);
        if (step >= 1) {
            raw_send(r, &hello);
            ref = asked(r);
        }
        if (step >= 2)
            grant(r, ref, 60000);
        uint64_t link = step >= 3 ? link_asked(r) : 0;
        if (step >= 4)
            offer(r, link);
        if (step >= 5) {
            fake_answer(fake_call(FAKE_LANE_OPEN, -1), 0);
            raw_expect(r, PEER_MSG_KEY_REQ);
        }
        raw_close(r);
        failed(RDMAD_E_PEER_LOST, "closed the connection");
        fake_answer_all();
        AWAIT(peers_count(rig.st.peers) == 0);
    }
}

Test(peer_lessee, a_revoke_during_the_link_fails_the_attach_with_the_reason) {
    begin();
    struct raw *r = greet();
    uint64_t ref = asked(r);
    grant(r, ref, 60000);
    link_asked(r);
    struct peer_msg m = {.type = PEER_MSG_REVOKED,
                         .revoked = {ref, RDMAD_E_LEASE_REVOKED, "lease 7 was revoked"}};
    raw_send(r, &m);
    failed(RDMAD_E_LEASE_REVOKED, "lease 7 was revoked");
    cr_expect_eq(raw_expect(r, PEER_MSG_STOPPED).stopped.owner_ref, 900 + ref);
}

/* ---- given up -------------------------------------------------------------------------------- */

/* Closes the session when step is reached; the attach ends, nothing is left, nothing crashes. */
static void session_closes_at(int step) {
    struct raw *r = NULL;
    uint64_t ref = 0;
    begin();
    if (step >= 1)
        r = raw_accept(listener);
    if (step >= 2) {
        struct peer_msg hello = raw_hello();
        raw_expect(r, PEER_MSG_HELLO);
        raw_send(r, &hello);
        ref = asked(r);
    }
    if (step >= 3)
        grant(r, ref, 60000);
    if (step >= 4)
        link_asked(r);
    if (step >= 5) {
        offer(r, 1);
        fake_answer(fake_call(FAKE_LANE_OPEN, -1), 0);
        key_asked(r, ref, 1);
    }
    if (step >= 6) {
        key(r, ref, 1);
        AWAIT(fake_pending(FAKE_LEASE_ADD) == 1);
    }
    rig_close(s);
    settle();
    if (step == 2)
        grant(r, ref, 60000); /* comes between the close and its end */
    if (step == 5)
        key(r, ref, 1); /* the same */
    fake_answer_all();
    AWAIT(rig_closed(s));
    cr_expect_eq(done.calls, 1, "step %d", step);
    cr_expect_neq(done.code, 0);
    cr_expect_eq(s->handles.used, 0);
    if (step == 3)
        raw_expect(r, PEER_MSG_LINK_REQ);
    if (step >= 2)
        expect_release(r, ref, false);
}

Test(peer_lessee, the_session_closes_while_dialling) {
    session_closes_at(0);
}
Test(peer_lessee, the_session_closes_before_hello) {
    session_closes_at(1);
}
Test(peer_lessee, the_session_closes_before_the_answer) {
    session_closes_at(2);
}
Test(peer_lessee, the_session_closes_before_the_link) {
    session_closes_at(3);
}
Test(peer_lessee, the_session_closes_before_the_offer) {
    session_closes_at(4);
}
Test(peer_lessee, the_session_closes_before_the_key) {
    session_closes_at(5);
}
Test(peer_lessee, the_session_closes_before_the_data_plane_has_it) {
    session_closes_at(6);
}

Test(peer_lessee, a_session_that_closes_gives_its_leases_back) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    rig_close(s);
    fake_answer_all();
    cr_expect(rig_closed(s));
    expect_release(r, ref, true);
}

/* ---- idle and dead --------------------------------------------------------------------------- */

static char peer[] = "peer", link_[] = "link";

static bool is_of(void *what, const struct event_row *e) {
    return !strcmp(e->what, what);
}

static void expect_last_event(char *what, const char *cause, const char *words) {
    static struct event_row last;
    cr_assert_eq(events_read(0, is_of, what, &last, 1), 1);
    cr_expect_str_eq(last.cause, cause, "%s: %s", last.cause, last.text);
    cr_expect_not_null(strstr(last.text, words), "%s", last.text);
}

static void owner_leaves_unused(struct raw *r) {
    struct peer_msg bye = {.type = PEER_MSG_BYE, .bye = {RDMAD_OK, "nobody uses it"}};
    raw_send(r, &bye);
    AWAIT(raw_eof(r));
}

Test(peer_lessee, an_owner_that_leaves_because_nobody_uses_it_is_not_lost) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    handle_release(h, NULL, NULL);
    fake_answer_all();
    expect_release(r, ref, true);
    owner_leaves_unused(r);
    expect_last_event(link_, "closed", "it is closed with the connection to that daemon");
    expect_last_event(peer, "closed", "said: nobody uses it");
}

Test(peer_lessee, an_owner_that_says_so_while_it_is_used_is_lost) {
    uint64_t ref;
    owner_leaves_unused(attached(60000, &ref));
    expect_last_event(peer, "lost", "is gone: ");
}

Test(peer_lessee, an_idle_connection_is_silent_and_then_closed) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    handle_release(h, NULL, NULL);
    fake_answer_all();
    expect_release(r, ref, true);
    rig_advance(500 * MS);
    cr_expect_eq(raw_expect(r, PEER_MSG_LINK_GONE).link_gone.via, 1, "the link goes before");
    expect_last_event(link_, "closed", "it is closed, as nobody used it");
    cr_expect_eq(fake_pending(FAKE_LANE_DROP), 1);
    fake_answer_all();
    rig_advance(59499 * MS);
    cr_expect(raw_silent(r));
    rig_advance(1 * MS);
    cr_expect_eq(raw_expect(r, PEER_MSG_BYE).bye.code, 0);
    AWAIT(peers_count(rig.st.peers) == 0);
    expect_last_event(peer, "closed", "is closed, and made anew when it is needed: nobody uses");
}

Test(peer_lessee, an_owner_that_hangs_is_given_up) {
    uint64_t ref;
    struct raw *r = attached(600000, &ref);
    for (int i = 0; i < 5; i++)
        rig_advance(2000 * MS);
    AWAIT(fake_pending(FAKE_LEASE_END) == 1);
    fake_answer_all();
    cr_expect_eq(rig_last_event(s)->reason, RDMAD_E_PEER_LOST);
    cr_expect_not_null(strstr(rig_last_event(s)->text, "silent for 10000 ms"), "%s",
                       rig_last_event(s)->text);
    raw_expect(r, PEER_MSG_PING);
}

Test(peer_lessee, dialling_oneself_attaches_here) {
    struct session *owner = rig_session(1);
    struct lease_terms t = rig_terms(5000);
    strcpy(t.name, "mine");
    struct lease *l = rig_grant_terms(owner, &t);
    struct error err;
    uri = (struct rdmad_uri){.port = rig.st.listen_port};
    strcpy(uri.host, "127.0.0.1");
    strcpy(uri.name, "mine");
    strcpy(rig.st.listen_host, "10.9.8.7"); /* what URIs say is not what was dialled */
    cr_assert_not(peers_is_self(rig.st.peers, &uri));
    cr_assert_eq(handle_new(s, &h, &err), 0);
    peer_attach(rig.st.peers, h, &uri, 5000 * MS, rig_done, &done);
    AWAIT(fake_pending(FAKE_LEASE_ADD) == 1);
    fake_answer_all();
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(done.code, 0, "%s", done.text);
    cr_expect_not(h->remote);
    cr_expect_eq(l->attached, 1);
    for (int i = 0; i < 5; i++)
        settle();
    fake_answer_all();
    AWAIT(peers_count(rig.st.peers) == 0);
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    fake_answer_all();
}

Test(peer_lessee, peer_add_reports_success_or_why_not) {
    struct rig_done bad = {0};
    peer_add(rig.st.peers, "127.0.0.1", uri.port, rig_done, &done);
    greet();
    AWAIT(done.calls == 1);
    cr_expect_eq(done.code, 0);
    peer_add(rig.st.peers, "127.0.0.1", uri.port, rig_done, &done);
    cr_expect_eq(done.calls, 2, "it is up already");
    raw_close(listener);
    peer_add(rig.st.peers, "127.0.0.7", uri.port, rig_done, &bad);
    AWAIT(bad.calls == 1);
    cr_expect_eq(bad.code, RDMAD_E_UNREACHABLE);
}
