/* SPDX-License-Identifier: MIT */
/*
 * Links to peers that break and come back, and the keys that follow them; what ends meanwhile; who
 * has a link of his own.
 */
#include "tests/unit/lessee_steps.h"

TestSuite(peer_lanes, .init = up, .fini = down, .timeout = 60);

/* The nth lane's link breaks. */
static void lane_breaks(int nth) {
    struct error why = {RDMAD_E_PEER_LOST, "connection reset"};
    peers_lane_lost(rig.st.peers, fake_call(FAKE_LANE_NEW, nth)->cookie, &why);
}

/* Up to where the keys are asked for. The owner hears that the old link is gone. */
static void made_anew(struct raw *r, uint64_t old) {
    cr_expect_eq(raw_expect(r, PEER_MSG_LINK_GONE).link_gone.via, old);
    rig_advance(PEER_RETRY_MAX_NS);
    link_up(r);
}

struct seen {
    unsigned links;
    struct link_view last;
    char error[RDMAD_TEXT_MAX + 1];
};

static void note_link(void *arg, const struct link_view *v) {
    struct seen *seen = arg;
    seen->links++;
    seen->last = *v;
    strcpy(seen->error, v->last_error);
}

static struct seen look(void) {
    struct seen seen = {0};
    links_view(rig.st.peers, note_link, &seen);
    return seen;
}

/* ---- made anew ------------------------------------------------------------------------------- */

Test(peer_lanes, a_link_that_breaks_is_made_anew_and_each_lease_gets_a_new_key) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    begin();
    uint64_t second = asked_via(r, 1);
    struct peer_msg m = granted(second, 60000);
    m.attach_rep.key.size = 1;
    raw_send(r, &m);
    AWAIT(fake_pending(FAKE_LEASE_ADD) == 1);
    fake_answer_all();

    lane_breaks(0);
    struct seen seen = look();
    cr_expect_str_eq(seen.last.state, "rebuilding");
    cr_expect_not_null(strstr(seen.error, "raw at 127.0.0.1"), "%s", seen.error);
    cr_expect_not_null(strstr(seen.error, "broke: connection reset"), "%s", seen.error);
    cr_expect_eq(seen.last.last_error_ns, rig.now_ns, "when it broke is told with why");
    made_anew(r, 1);
    key_asked(r, ref, 2);
    key_asked(r, second, 2);
    key(r, second, 2);
    key(r, ref, 2);
    AWAIT(fake_count(FAKE_LEASE_KEY) == 2);
    cr_expect_eq(fake_call(FAKE_LEASE_KEY, 0)->number, fake_call(FAKE_LEASE_ADD, 1)->number);
    cr_expect_eq(fake_call(FAKE_LEASE_KEY, 1)->number, fake_call(FAKE_LEASE_ADD, 0)->number);
    cr_expect_eq(fake_call(FAKE_LEASE_KEY, 1)->blob.bytes[3], 2);
    cr_expect_eq(fake_count(FAKE_LEASE_END), 0, "nobody notices");
    cr_expect_eq(rig_events(s, RDMAD_EV_LEASE_ENDED), 0);
    cr_expect_eq(fake_count(FAKE_LANE_NEW), 1);
    seen = look();
    cr_expect_eq(seen.links, 1);
    cr_expect_str_eq(seen.last.state, "up");
    cr_expect_eq(seen.last.rebuilds, 1);
    cr_expect_eq(seen.last.handles, 2);
}

/* How long until the lane tries again. */
static uint64_t pause_ms(void) {
    unsigned hellos = fake_count(FAKE_LANE_HELLO);
    uint64_t ms = 0;
    while (fake_count(FAKE_LANE_HELLO) == hellos && ms < 2000) {
        rig_advance(5 * MS);
        ms += 5;
    }
    return ms;
}

Test(peer_lanes, pauses_double_from_10_ms_to_1_s_until_a_link_was_steady) {
    static const uint64_t pauses[] = {10, 20, 40, 80, 160, 320, 640, 1000, 1000};
    uint64_t ref;
    rig.config.peer_ping_ms = rig.config.peer_dead_ms = 3600000;
    struct raw *r = attached(3600000, &ref);
    lane_breaks(0);
    for (unsigned i = 0; i < 9; i++) {
        cr_expect_eq(pause_ms(), pauses[i]);
        fake_answer(fake_call(FAKE_LANE_HELLO, -1), RDMAD_E_FABRIC);
    }
    cr_expect_eq(raw_expect(r, PEER_MSG_LINK_GONE).link_gone.via, 1);
    pause_ms();
    link_up(r);
    lane_breaks(0);
    cr_expect_eq(pause_ms(), 1000, "it was up for no time");
    raw_expect(r, PEER_MSG_KEY_REQ);
    raw_expect(r, PEER_MSG_LINK_GONE);
    link_up(r);
    rig_advance(1000 * MS);
    lane_breaks(0);
    cr_expect_eq(pause_ms(), 10);
    cr_expect_eq(fake_count(FAKE_LEASE_END), 0);
}

Test(peer_lanes, a_link_may_break_at_every_step_of_being_made) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    lane_breaks(0);
    raw_expect(r, PEER_MSG_LINK_GONE);
    rig_advance(10 * MS);
    uint64_t link = link_asked(r);
    lane_breaks(0); /* our end, before the answer */
    struct peer_msg late = {.type = PEER_MSG_LINK_REP, .link_rep = {.ref = link, .offer.size = 1}};
    raw_send(r, &late);
    cr_expect_eq(fake_count(FAKE_LANE_OPEN), 1, "an offer for a link that is no more");
    rig_advance(20 * MS);
    no_offer(r, link_asked(r), RDMAD_E_FABRIC, "no device now");
    rig_advance(40 * MS);
    offer(r, link_asked(r));
    fake_answer(fake_call(FAKE_LANE_OPEN, -1), RDMAD_E_TIMEOUT);
    rig_advance(80 * MS);
    link_up(r);
    key_asked(r, ref, 2);
    cr_expect_eq(fake_count(FAKE_LEASE_END), 0);
    cr_expect_eq(fake_count(FAKE_LANE_NEW), 1);
    cr_expect_not_null(strstr(look().error, "the data plane says"), "%s", look().error);
}

/* ---- keys ------------------------------------------------------------------------------------ */

Test(peer_lanes, only_the_last_answer_counts) {
    uint64_t ref;
    fake_one_number = true; /* so nothing else tells them apart */
    struct raw *r = attached(60000, &ref);
    for (int i = 0; i < 2; i++) {
        lane_breaks(0);
        made_anew(r, 1);
        key_asked(r, ref, 1);
    }
    no_key(r, ref, 1, RDMAD_E_PEER_LOST, "overtaken");
    cr_expect_eq(fake_count(FAKE_LEASE_KEY), 0);
    key(r, ref, 1);
    AWAIT(fake_count(FAKE_LEASE_KEY) == 1);
    cr_expect_str_eq(look().last.state, "up");
}

Test(peer_lanes, a_key_that_comes_when_the_link_is_broken_is_none) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    lane_breaks(0);
    made_anew(r, 1);
    key_asked(r, ref, 2);
    lane_breaks(0);
    key(r, ref, 2);
    cr_expect_eq(fake_count(FAKE_LEASE_KEY), 0);
    made_anew(r, 2);
    key_asked(r, ref, 3);
    key(r, ref, 3);
    AWAIT(fake_count(FAKE_LEASE_KEY) == 1);
    cr_expect_eq(fake_call(FAKE_LEASE_KEY, 0)->blob.bytes[3], 3);
}

Test(peer_lanes, a_key_for_a_link_that_changed_during_the_attach_is_asked_for_again) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    begin();
    uint64_t second = asked_via(r, 1);
    lane_breaks(0);
    made_anew(r, 1);
    key_asked(r, ref, 2);
    struct peer_msg m = granted(second, 60000);
    m.attach_rep.key.size = 1;
    raw_send(r, &m);
    key_asked(r, second, 2);
    cr_expect_eq(fake_count(FAKE_LEASE_ADD), 1);
    key(r, second, 2);
    AWAIT(fake_count(FAKE_LEASE_ADD) == 2);
    cr_expect_eq(fake_call(FAKE_LEASE_ADD, 1)->spec.key.bytes[3], 2);
}

Test(peer_lanes, an_attach_waits_for_the_key_while_the_link_comes_and_goes) {
    begin();
    struct raw *r = greet();
    uint64_t ref = asked(r);
    grant(r, ref, 60000);
    link_up(r);
    key_asked(r, ref, 1);
    lane_breaks(0);
    made_anew(r, 1);
    key_asked(r, ref, 2);
    key(r, ref, 1); /* the first's */
    cr_expect_eq(fake_count(FAKE_LEASE_ADD), 0);
    key(r, ref, 2);
    AWAIT(fake_count(FAKE_LEASE_ADD) == 1);
    fake_answer_all();
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(done.code, 0);
}

Test(peer_lanes, an_owner_that_lost_its_end_is_asked_for_a_new_link) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    lane_breaks(0);
    made_anew(r, 1);
    key_asked(r, ref, 2);
    no_key(r, ref, 2, RDMAD_E_PEER_LOST, "no link 2");
    cr_expect_str_eq(look().last.state, "rebuilding");
    cr_expect_not_null(strstr(look().error, "has lost its end of the link: no link 2"), "%s",
                       look().error);
    made_anew(r, 2);
    key_asked(r, ref, 3);
    cr_expect_eq(fake_count(FAKE_LEASE_END), 0);
}

Test(peer_lanes, a_key_that_cannot_be_had_now_is_asked_for_again_and_nobody_else_suffers) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    lane_breaks(0);
    made_anew(r, 1);
    for (uint64_t pause = 10; pause <= 40; pause *= 2) {
        key_asked(r, ref, 2);
        no_key(r, ref, 2, RDMAD_E_NOMEM, "memlock");
        rig_advance(pause * MS - 1);
        cr_expect(raw_silent(r));
        rig_advance(1);
    }
    key_asked(r, ref, 2);
    key(r, ref, 2);
    AWAIT(fake_count(FAKE_LEASE_KEY) == 1);
    cr_expect_str_eq(look().last.state, "up");
    cr_expect_eq(fake_count(FAKE_LANE_HELLO), 2, "the link is not to blame");
}

Test(peer_lanes, an_owner_that_gives_keys_nobody_asked_for_is_left) {
    for (int i = 0; i < 2; i++) {
        uint64_t ref;
        memset(&done, 0, sizeof(done));
        struct raw *r = attached(60000, &ref);
        if (i == 1) {
            lane_breaks(-1);
            made_anew(r, 2);
            key_asked(r, ref, 3);
        }
        key(r, ref, 77);
        cr_expect_eq(raw_expect(r, PEER_MSG_BYE).bye.code, RDMAD_E_PROTOCOL);
        AWAIT(fake_pending(FAKE_LEASE_END) == 1);
        fake_answer_all();
        AWAIT(peers_count(rig.st.peers) == 0);
    }
}

/* ---- ends meanwhile -------------------------------------------------------------------------- */

Test(peer_lanes, a_lease_revoked_while_there_is_no_link_ends_as_ever) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    lane_breaks(0);
    raw_expect(r, PEER_MSG_LINK_GONE);
    struct peer_msg m = {.type = PEER_MSG_REVOKED,
                         .revoked = {ref, RDMAD_E_LEASE_REVOKED, "lease 7 was revoked"}};
    raw_send(r, &m);
    AWAIT(fake_pending(FAKE_LEASE_END) == 1);
    rig_advance(10 * MS);
    link_up(r); /* it drains still */
    cr_expect(raw_silent(r), "no key for what ends");
    fake_answer(fake_call(FAKE_LEASE_END, 0), 0);
    cr_expect_eq(raw_expect(r, PEER_MSG_STOPPED).stopped.owner_ref, 900 + ref);
    cr_expect_eq(rig_last_event(s)->reason, RDMAD_E_LEASE_REVOKED);
}

Test(peer_lanes, a_key_refused_because_the_lease_ended_ends_the_handle) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    lane_breaks(0);
    made_anew(r, 1);
    key_asked(r, ref, 2);
    no_key(r, ref, 2, RDMAD_E_LEASE_ORPHANED, "its owner is gone");
    AWAIT(fake_pending(FAKE_LEASE_END) == 1);
    cr_expect_eq(fake_call(FAKE_LEASE_END, 0)->reason, RDMAD_E_LEASE_ORPHANED);
    fake_answer_all();
    expect_release(r, ref, false);
    cr_expect_str_eq(rig_last_event(s)->text, "its owner is gone");
}

Test(peer_lanes, a_key_refused_because_the_lease_ended_fails_the_attach) {
    begin();
    struct raw *r = greet();
    uint64_t ref = asked(r);
    grant(r, ref, 60000);
    link_up(r);
    key_asked(r, ref, 1);
    no_key(r, ref, 1, RDMAD_E_LEASE_REVOKED, "lease 7 was revoked");
    failed(RDMAD_E_LEASE_REVOKED, "lease 7 was revoked");
    expect_release(r, ref, false);
}

Test(peer_lanes, a_key_that_never_will_be_had_fails_the_attach_at_once_and_says_why) {
    begin();
    struct raw *r = greet();
    uint64_t ref = asked(r);
    grant(r, ref, 60000);
    link_up(r);
    key_asked(r, ref, 1);
    no_key(r, ref, 1, RDMAD_E_INVAL, "its rights are unknown here");
    failed(RDMAD_E_INVAL, "gives no key for lease 7: its rights are unknown here");
    expect_release(r, ref, false);
}

Test(peer_lanes, a_key_that_never_will_be_had_again_ends_the_handle_and_says_why) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    lane_breaks(0);
    made_anew(r, 1);
    key_asked(r, ref, 2);
    no_key(r, ref, 2, RDMAD_E_INVAL, "not by this device");
    AWAIT(fake_pending(FAKE_LEASE_END) == 1);
    cr_expect_eq(fake_call(FAKE_LEASE_END, 0)->reason, RDMAD_E_PEER_LOST);
    fake_answer_all();
    expect_release(r, ref, false);
    cr_expect_not_null(strstr(rig_last_event(s)->text, "lease 7: not by this device"));
}

Test(peer_lanes, a_lease_released_while_there_is_no_link_takes_the_lane_with_it) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    lane_breaks(0);
    raw_expect(r, PEER_MSG_LINK_GONE);
    handle_release(h, NULL, NULL);
    fake_answer_all();
    expect_release(r, ref, true);
    cr_expect_eq(fake_count(FAKE_LANE_DROP), 1);
    rig_advance(1000 * MS);
    cr_expect_eq(fake_count(FAKE_LANE_HELLO), 1, "nobody wants it");
    cr_expect_eq(look().links, 0);
}

Test(peer_lanes, a_connection_lost_while_there_is_no_link_ends_the_handles) {
    for (int answered = 0; answered < 2; answered++) {
        uint64_t ref;
        memset(&done, 0, sizeof(done));
        struct raw *r = attached(60000, &ref);
        lane_breaks(-1);
        raw_expect(r, PEER_MSG_LINK_GONE);
        rig_advance(10 * MS); /* our end is being made */
        raw_close(r);
        AWAIT(fake_pending(FAKE_LEASE_END) == 1);
        cr_expect_eq(fake_call(FAKE_LEASE_END, -1)->reason, RDMAD_E_PEER_LOST);
        if (answered)
            fake_answer(fake_call(FAKE_LANE_HELLO, -1), 0);
        fake_answer(fake_call(FAKE_LEASE_END, -1), 0);
        cr_expect_eq(fake_pending(FAKE_LANE_DROP), 1);
        fake_answer_all();
        AWAIT(peers_count(rig.st.peers) == 0);
    }
}

Test(peer_lanes, a_session_that_closes_while_there_is_no_link_gives_its_leases_back) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    lane_breaks(0);
    raw_expect(r, PEER_MSG_LINK_GONE);
    rig_advance(10 * MS);
    rig_close(s);
    link_up(r); /* between the close and its end: nothing is added to it */
    cr_expect(raw_silent(r));
    fake_answer_all();
    cr_expect(rig_closed(s));
    expect_release(r, ref, true);
}

/* ---- why not --------------------------------------------------------------------------------- */

/* An attach whose lane has trouble of that kind until its time is over. */
static void trouble_is_told(int kind, const char *words) {
    begin();
    struct raw *r = greet();
    uint64_t ref = asked(r);
    rig.config.peer_ping_ms = rig.config.peer_dead_ms = 3600000;
    grant(r, ref, 60000);
    if (kind == 0) {
        AWAIT(fake_pending(FAKE_LANE_HELLO) == 1);
        fake_answer(fake_call(FAKE_LANE_HELLO, -1), RDMAD_E_FABRIC);
    } else {
        uint64_t link = link_asked(r);
        if (kind == 1)
            no_offer(r, link, RDMAD_E_LIMIT, "64 links of yours are open");
        else
            offer(r, link);
        if (kind == 2)
            fake_answer(fake_call(FAKE_LANE_OPEN, -1), RDMAD_E_UNREACHABLE);
        if (kind == 3) {
            fake_answer(fake_call(FAKE_LANE_OPEN, -1), 0);
            key_asked(r, ref, 1);
            no_key(r, ref, 1, RDMAD_E_NOMEM, "4096 bytes cannot be registered");
        }
    }
    cr_expect_eq(done.calls, 0, "it may get better");
    rig_advance(5000 * MS);
    failed(RDMAD_E_TIMEOUT, words);
    cr_expect_not_null(strstr(done.text, "5000 ms"), "%s", done.text);
}

Test(peer_lanes, a_timeout_tells_why_we_had_no_link) {
    trouble_is_told(0, "no link to raw at 127.0.0.1");
}
Test(peer_lanes, a_timeout_tells_why_the_peer_offered_none) {
    trouble_is_told(1, "offers no link: 64 links of yours are open");
}
Test(peer_lanes, a_timeout_tells_why_the_link_did_not_open) {
    trouble_is_told(2, "does not open: the data plane says");
}
Test(peer_lanes, a_timeout_tells_why_there_was_no_key) {
    trouble_is_told(3, "4096 bytes cannot be registered");
}

Test(peer_lanes, a_link_that_opens_late_is_not_too_late) {
    begin();
    struct raw *r = greet();
    uint64_t ref = asked(r);
    grant(r, ref, 60000);
    no_offer(r, link_asked(r), RDMAD_E_FABRIC, "no device now");
    rig_advance(10 * MS);
    link_and_key(r, ref);
    fake_answer_all();
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(done.code, 0, "%s", done.text);
}

/* ---- how long, and whose --------------------------------------------------------------------- */

Test(peer_lanes, a_lane_without_leases_stays_a_moment_for_the_next) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    handle_release(h, NULL, NULL);
    fake_answer_all();
    expect_release(r, ref, true);
    cr_expect_str_eq(look().last.state, "idle");
    rig_advance(499 * MS);
    begin();
    ref = asked_via(r, 1);
    rig_advance(1 * MS); /* it goes in the middle of the attach */
    cr_expect_eq(raw_expect(r, PEER_MSG_LINK_GONE).link_gone.via, 1);
    struct peer_msg m = granted(ref, 60000);
    m.attach_rep.key.size = 1;
    raw_send(r, &m);
    AWAIT(fake_count(FAKE_LANE_NEW) == 2);
    fake_answer(fake_call(FAKE_LANE_DROP, 0), 0);
    link_up(r);
    key_asked(r, ref, 2);
    key(r, ref, 2);
    AWAIT(fake_pending(FAKE_LEASE_ADD) == 1);
    fake_answer_all();
    rig_advance(499 * MS);
    handle_release(h, NULL, NULL);
    fake_answer_all();
    expect_release(r, ref, true);
    rig_advance(499 * MS);
    cr_expect_str_eq(look().last.state, "idle", "counted from the last lease's end");
    rig_advance(1 * MS);
    cr_expect_str_eq(look().last.state, "closing");
    fake_answer_all();
    cr_expect_eq(look().links, 0);
}

Test(peer_lanes, a_link_that_nobody_wants_any_more_is_made_so_far_that_the_owner_can_let_go) {
    for (int answered = 0; answered < 2; answered++) { /* before the attach is given up */
        begin();
        struct raw *r = greet();
        uint64_t ref = asked(r);
        grant(r, ref, 60000);
        uint64_t link = link_asked(r);
        if (answered)
            offer(r, link);
        rig_close(s);
        fake_answer_all();
        expect_release(r, ref, false);
        if (!answered) {
            offer(r, link);
            fake_answer_all();
        }
        cr_expect_eq(fake_count(FAKE_LANE_DROP), (unsigned)answered);
        rig_advance(PEER_LANE_IDLE_NS);
        cr_expect_eq(raw_expect(r, PEER_MSG_LINK_GONE).link_gone.via, (uint64_t)answered + 1);
        fake_answer_all();
        cr_expect_eq(look().links, 0);
        raw_close(r);
        AWAIT(peers_count(rig.st.peers) == 0);
        s = rig_session(3);
    }
}

Test(peer_lanes, a_link_on_its_way_up_is_there_for_the_next_who_comes) {
    begin();
    struct raw *r = greet();
    uint64_t ref = asked(r);
    grant(r, ref, 60000);
    uint64_t link = link_asked(r);
    rig_close(s);
    fake_answer_all();
    expect_release(r, ref, false);
    s = rig_session(3);
    begin();
    ref = asked(r);
    grant(r, ref, 60000);
    rig_advance(PEER_LANE_IDLE_NS);
    offer(r, link);
    fake_answer(fake_call(FAKE_LANE_OPEN, -1), 0);
    key_asked(r, ref, 1);
    cr_expect_eq(fake_count(FAKE_LANE_NEW), 1);
}

/* One more attach of s, on a link that is not made yet. */
static uint64_t attach_on_a_new_link(struct raw *r, uint64_t via) {
    unsigned adds = fake_count(FAKE_LEASE_ADD);
    begin();
    uint64_t ref = raw_expect(r, PEER_MSG_ATTACH_REQ).attach_req.lessee_ref;
    grant(r, ref, 60000);
    link_up(r);
    key_asked(r, ref, via);
    key(r, ref, via);
    AWAIT(fake_count(FAKE_LEASE_ADD) == adds + 1);
    fake_answer_all();
    return ref;
}

Test(peer_lanes, sessions_of_listed_users_have_links_of_their_own) {
    struct session *first = s, *second = rig_session(3), *other = rig_session(4);
    uint64_t ref;
    strcpy(rig.config.peer_private_links, "13,3,33");
    struct raw *r = attached(60000, &ref);
    cr_expect_eq(look().last.session, first->id);
    s = second;
    struct handle *mine = h;
    uint64_t ref2 = attach_on_a_new_link(r, 2);
    cr_expect_eq(look().links, 2);
    cr_expect_neq(fake_call(FAKE_LEASE_ADD, 0)->spec.lane, fake_call(FAKE_LEASE_ADD, 1)->spec.lane);
    begin(); /* twice: the same link */
    uint64_t ref3 = asked_via(r, 2);
    grant(r, ref3, 60000);
    key_asked(r, ref3, 2);
    key(r, ref3, 2);
    AWAIT(fake_pending(FAKE_LEASE_ADD) == 1);
    fake_answer_all();
    cr_expect_eq(look().links, 2);

    handle_release(mine, NULL, NULL);
    fake_answer_all();
    expect_release(r, ref, true);
    cr_expect_eq(raw_expect(r, PEER_MSG_LINK_GONE).link_gone.via, 1, "at once");
    cr_expect_eq(look().links, 1);
    rig_close(second);
    fake_answer_all();
    expect_release(r, ref2, true);
    expect_release(r, ref3, true);
    cr_expect_eq(raw_expect(r, PEER_MSG_LINK_GONE).link_gone.via, 2);
    rig_close(other);
    fake_answer_all();
    s = first;
}

Test(peer_lanes, whose_links_are_private_is_read_number_by_number) {
    static const struct {
        const char *uids;
        bool alone;
    } lists[] = {{"", false},   {"*", true},   {"3", true},   {"33", false},
                 {"13", false}, {"0,3", true}, {" 3 ", true}, {"30,31", false}};
    for (unsigned i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        uint64_t ref;
        memset(&done, 0, sizeof(done));
        strcpy(rig.config.peer_private_links, lists[i].uids);
        begin();
        struct raw *r = greet();
        ref = asked(r);
        grant(r, ref, 60000);
        link_asked(r);
        cr_expect_eq(look().last.session, lists[i].alone ? s->id : 0, "\"%s\"", lists[i].uids);
        raw_close(r);
        AWAIT(done.calls == 1);
        fake_answer_all();
        AWAIT(peers_count(rig.st.peers) == 0);
    }
}
