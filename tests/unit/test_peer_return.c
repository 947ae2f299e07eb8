/* SPDX-License-Identifier: MIT */
/*
 * test_peer_return.c - the owner's daemon is lost and comes back, as its lessee's daemon sees it:
 * what waits, what is asked again, what ends, and when.
 */
#include "daemon/peer/control/conn.h"
#include "daemon/peer/tables.h"
#include "tests/unit/lessee_steps.h"

TestSuite(peer_return, .init = up, .fini = down, .timeout = 60);

/* Of a session that outlives its daemon. */
static struct raw *attached_for_long(uint64_t ttl_ms, uint64_t *ref) {
    s->origin.life = 1;
    s->origin.session = s->id;
    return attached(ttl_ms, ref);
}

/* The connection is lost; the data plane has let go of the link. */
static void lose(struct raw *r) {
    unsigned unlinks = fake_count(FAKE_LANE_UNLINK);
    raw_close(r);
    AWAIT(fake_count(FAKE_LANE_UNLINK) == unlinks + 1);
    fake_answer(fake_call(FAKE_LANE_UNLINK, -1), 0);
    cr_expect_eq(fake_count(FAKE_LEASE_END), 0, "it waits");
    cr_expect_eq(fake_count(FAKE_LANE_DROP), 0);
}

static struct raw *comes_back(void) {
    rig_advance(15 * MS);
    return greet();
}

static void expect_lost(int reason, const char *words) {
    AWAIT(fake_pending(FAKE_LEASE_END) == 1);
    cr_expect_eq(fake_call(FAKE_LEASE_END, 0)->reason, reason);
    fake_answer(fake_call(FAKE_LEASE_END, 0), 0);
    cr_expect_eq(rig_last_event(s)->reason, reason);
    cr_expect_not_null(strstr(rig_last_event(s)->text, words), "\"%s\" does not say \"%s\"",
                       rig_last_event(s)->text, words);
}

Test(peer_return, a_peer_that_comes_back_is_asked_for_the_same_lease) {
    uint64_t ref;
    lose(attached_for_long(60000, &ref));
    struct raw *r = comes_back();
    ref = asked(r);
    struct peer_msg m = granted(ref, 60000);
    m.attach_rep.owner_ref = 777;
    raw_send(r, &m);
    AWAIT(fake_count(FAKE_LEASE_RETURN) == 1);
    cr_expect_eq(fake_call(FAKE_LEASE_RETURN, 0)->peer_number, 777, "where notices go");
    link_up(r);
    m = raw_expect(r, PEER_MSG_KEY_REQ);
    cr_expect_eq(m.key_req.owner_ref, 777);
    key(r, ref, m.key_req.via);
    AWAIT(fake_count(FAKE_LEASE_KEY) == 1);
    cr_expect_eq(fake_count(FAKE_LEASE_END), 0);
    cr_expect_eq(fake_count(FAKE_LANE_NEW), 1, "the lane is the same, with a new link");
    cr_expect_eq(peers_count(rig.st.peers), 1, "nothing is left of the connection before");
}

Test(peer_return, a_peer_that_comes_back_is_asked_once_more_to_keep_a_lease) {
    uint64_t ref;
    struct rig_done kept = {0};
    lose(attached_for_long(60000, &ref));
    handle_keep(h, true, rig_done, &kept);
    struct raw *r = comes_back();
    ref = asked(r);
    grant(r, ref, 60000);
    cr_expect_eq(raw_expect(r, PEER_MSG_KEEP_REQ).keep_req.owner_ref, 900 + ref);
    struct peer_msg rep = {.type = PEER_MSG_KEEP_REP, .keep_rep.lessee_ref = ref};
    raw_send(r, &rep);
    AWAIT(kept.calls == 1);
    cr_expect_eq(kept.code, 0, "%s", kept.text);
    cr_expect(h->keep);
}

/* It is dialled again, and has not said hello yet. */
static struct raw *dialled_again(void) {
    rig_advance(15 * MS);
    struct raw *r = raw_accept(listener);
    raw_expect(r, PEER_MSG_HELLO);
    return r;
}

static void says_hello(struct raw *r) {
    struct peer_msg hello = raw_hello();
    raw_send(r, &hello);
}

Test(peer_return, nobody_is_asked_to_keep_a_lease_that_is_not_back_yet) {
    uint64_t ref;
    struct rig_done kept = {0};
    lose(attached_for_long(60000, &ref));
    struct raw *r = comes_back();
    ref = asked(r);
    handle_keep(h, true, rig_done, &kept);
    cr_expect(raw_silent(r), "it is asked by a number that its owner's daemon does not know");
    grant(r, ref, 60000);
    cr_expect_eq(raw_expect(r, PEER_MSG_KEEP_REQ).keep_req.owner_ref, 900 + ref);
    struct peer_msg rep = {.type = PEER_MSG_KEEP_REP, .keep_rep.lessee_ref = ref};
    raw_send(r, &rep);
    AWAIT(kept.calls == 1);
    cr_expect_eq(kept.code, 0, "%s", kept.text);
}

Test(peer_return, a_keeper_whose_time_came_while_its_owner_was_away_asks_on) {
    uint64_t ref;
    struct rig_done kept = {0};
    rig.config.peer_ping_ms = rig.config.peer_dead_ms = 600000;
    struct raw *r = attached_for_long(3000, &ref);
    handle_keep(h, true, rig_done, &kept);
    raw_expect(r, PEER_MSG_KEEP_REQ);
    struct peer_msg rep = {.type = PEER_MSG_KEEP_REP, .keep_rep.lessee_ref = ref};
    raw_send(r, &rep);
    AWAIT(kept.calls == 1);
    lose(r);
    r = dialled_again();
    rig_advance(2000 * MS); /* it is time to ask again */
    cr_expect(raw_silent(r), "something is said before hello");
    says_hello(r);
    ref = asked(r);
    grant(r, ref, 3000);
    cr_expect(raw_silent(r));
    rig_advance(2000 * MS);
    cr_expect_eq(raw_expect(r, PEER_MSG_KEEP_REQ).keep_req.owner_ref, 900 + ref);
    cr_expect_eq(fake_count(FAKE_LEASE_END), 0);
}

Test(peer_return, nothing_is_said_to_whom_has_not_said_hello) {
    const struct peer_msg ping = {.type = PEER_MSG_PING};
    uint64_t ref;
    lose(attached_for_long(60000, &ref));
    struct raw *r = dialled_again();
    list_for_each (node, &rig.st.peers->all)
        peer_send(list_entry(node, struct peer, node), &ping);
    cr_expect(raw_silent(r));
    says_hello(r);
    asked(r);
}

Test(peer_return, a_refusal_that_time_may_change_is_asked_again) {
    uint64_t ref;
    lose(attached_for_long(60000, &ref));
    struct raw *r = comes_back();
    for (int i = 0; i < 3; i++) {
        struct peer_msg m = {.type = PEER_MSG_ATTACH_REP,
                             .attach_rep = {.lessee_ref = asked(r), .status = RDMAD_E_NO_LEASE}};
        raw_send(r, &m);
        settle();
        rig_advance(120 * MS);
    }
    grant(r, asked(r), 60000);
    AWAIT(fake_count(FAKE_LEASE_RETURN) == 1);
    cr_expect_eq(fake_count(FAKE_LEASE_END), 0);
}

Test(peer_return, an_end_of_the_lease_is_told_as_that) {
    uint64_t ref;
    lose(attached_for_long(60000, &ref));
    struct raw *r = comes_back();
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REP,
                         .attach_rep = {.lessee_ref = asked(r), .status = RDMAD_E_LEASE_REVOKED}};
    strcpy(m.attach_rep.text, "revoked meanwhile");
    raw_send(r, &m);
    expect_lost(RDMAD_E_LEASE_REVOKED, "revoked meanwhile");
}

Test(peer_return, a_refusal_that_time_does_not_change_ends_it) {
    uint64_t ref;
    lose(attached_for_long(60000, &ref));
    struct raw *r = comes_back();
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REP,
                         .attach_rep = {.lessee_ref = asked(r), .status = RDMAD_E_SCOPE}};
    strcpy(m.attach_rep.text, "not for you");
    raw_send(r, &m);
    expect_lost(RDMAD_E_PEER_LOST, "not for you");
}

/* Its owner's daemon has just begun, and refuses the link as long as no program has brought a lease
 * back. Each pause before the link is asked for again is twice as long as the one before. */
static void refuse_links(struct raw *r, unsigned n) {
    while (n--) {
        no_offer(r, link_asked(r), RDMAD_E_NO_LEASE, "it is for no lease");
        settle();
        rig_advance(100 * MS);
    }
}

/* Up to where the pause is a long one. */
static struct raw *refused_before(uint64_t *ref) {
    lose(attached_for_long(60000, ref));
    struct raw *r = comes_back();
    *ref = asked(r);
    refuse_links(r, 4);
    no_offer(r, link_asked(r), RDMAD_E_NO_LEASE, "it is for no lease");
    settle();
    cr_expect_eq(fake_pending(FAKE_LANE_HELLO), 0, "its pause is not over");
    return r;
}

Test(peer_return, a_link_that_was_refused_before_its_lease_was_back_is_asked_for_with_that) {
    uint64_t ref;
    struct raw *r = refused_before(&ref);
    grant(r, ref, 60000);
    AWAIT(fake_count(FAKE_LEASE_RETURN) == 1);
    link_up(r); /* and no time has passed */
    key_asked(r, ref, 2);
}

Test(peer_return, or_with_one_that_is_attached_to_anew) {
    uint64_t ref;
    struct raw *r = refused_before(&ref);
    begin();
    ref = asked(r);
    grant(r, ref, 60000);
    link_up(r);
    key_asked(r, ref, 2);
}

static void expect_another_is_refused(void (*change)(struct peer_attach_rep *rep)) {
    uint64_t ref;
    lose(attached_for_long(60000, &ref));
    struct raw *r = comes_back();
    struct peer_msg m = granted(asked(r), 60000);
    change(&m.attach_rep);
    raw_send(r, &m);
    expect_lost(RDMAD_E_PEER_LOST, "not what it was");
    cr_expect_eq(fake_count(FAKE_LEASE_RETURN), 0);
    cr_expect_eq(fake_count(FAKE_LEASE_KEY), 0);
    cr_expect_eq(raw_expect(r, PEER_MSG_RELEASE).release.owner_ref, m.attach_rep.owner_ref);
}

static void another_lease(struct peer_attach_rep *rep) {
    rep->lease = 8;
}

static void another_length(struct peer_attach_rep *rep) {
    rep->length = 8192;
}

static void fewer_rights(struct peer_attach_rep *rep) {
    rep->rights = RDMAD_RIGHT_WRITE;
}

Test(peer_return, another_lease_is_not_taken_for_it) {
    expect_another_is_refused(another_lease);
}

Test(peer_return, another_length_is_not_taken_for_it) {
    expect_another_is_refused(another_length);
}

Test(peer_return, other_rights_are_not_taken_for_it) {
    expect_another_is_refused(fewer_rights);
}

/* As if they had shown certificates of that name. */
static void peers_prove(const char *name) {
    list_for_each (node, &rig.st.peers->all) {
        struct peer *p = list_entry(node, struct peer, node);
        p->secured = true;
        snprintf(p->certificate.name, sizeof(p->certificate.name), "%s", name);
    }
}

static struct raw *comes_back_as(const char *name) {
    struct peer_msg hello = raw_hello();
    rig_advance(15 * MS);
    struct raw *r = raw_accept(listener);
    raw_expect(r, PEER_MSG_HELLO);
    peers_prove(name);
    strcpy(hello.hello.node, name);
    raw_send(r, &hello);
    return r;
}

/* The key is whom it was granted by's to hear, and what waited its to get. */
Test(peer_return, a_node_of_another_name_at_the_address_is_told_no_key) {
    uint64_t ref;
    struct raw *r = attached_for_long(60000, &ref);
    peers_prove("raw");
    lose(r);
    r = comes_back_as("mallory");
    expect_lost(RDMAD_E_PEER_LOST, "mallory answers at");
    cr_expect(raw_silent(r));
}

Test(peer_return, one_of_the_same_name_is_asked) {
    uint64_t ref;
    struct raw *r = attached_for_long(60000, &ref);
    peers_prove("raw");
    lose(r);
    asked(comes_back_as("raw"));
}

Test(peer_return, a_peer_that_stays_away_is_told_of_in_time) {
    uint64_t ref;
    lose(attached_for_long(60000, &ref));
    raw_close(listener);
    rig_advance((rig.config.peer_return_ms - 1) * MS);
    cr_expect_eq(fake_count(FAKE_LEASE_END), 0);
    rig_advance(1 * MS);
    expect_lost(RDMAD_E_PEER_LOST, "peer.return_ms");
    fake_answer_all();
    rig_advance(1000 * MS);
    AWAIT(peers_count(rig.st.peers) == 0);
    listener = raw_listen(&uri.port);
}

Test(peer_return, a_lease_is_not_waited_for_beyond_its_deadline) {
    uint64_t ref;
    lose(attached_for_long(1000, &ref));
    rig_advance(1000 * MS);
    expect_lost(RDMAD_E_LEASE_EXPIRED, "expired");
}

Test(peer_return, the_bound_is_not_begun_anew_by_losing_it_again) {
    uint64_t ref;
    lose(attached_for_long(60000, &ref));
    struct raw *r = comes_back();
    asked(r);
    rig_advance((rig.config.peer_return_ms / 2) * MS);
    raw_expect(r, PEER_MSG_PING);
    unsigned unlinks = fake_count(FAKE_LANE_UNLINK);
    raw_close(r);
    settle();
    quiet();
    (void)unlinks;
    rig_advance((rig.config.peer_return_ms / 2) * MS);
    AWAIT(fake_count(FAKE_LEASE_END) == 1);
    cr_expect_eq(fake_call(FAKE_LEASE_END, 0)->reason, RDMAD_E_PEER_LOST);
}

Test(peer_return, whoever_ends_with_his_daemon_does_not_wait) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    raw_close(r);
    expect_lost(RDMAD_E_PEER_LOST, "closed the connection");
}

Test(peer_return, nobody_waits_if_return_ms_is_0) {
    uint64_t ref;
    struct raw *r = attached_for_long(60000, &ref);
    rig.config.peer_return_ms = 0;
    raw_close(r);
    expect_lost(RDMAD_E_PEER_LOST, "closed the connection");
}

Test(peer_return, a_peer_that_sends_us_away_is_not_dialled_again) {
    uint64_t ref;
    struct raw *r = attached_for_long(60000, &ref);
    struct peer_msg m = {.type = PEER_MSG_BYE, .bye.code = RDMAD_E_PERM};
    strcpy(m.bye.text, "not you");
    raw_send(r, &m);
    expect_lost(RDMAD_E_PEER_LOST, "not you");
}

Test(peer_return, a_liar_is_not_dialled_again) {
    uint64_t ref;
    struct raw *r = attached_for_long(60000, &ref);
    key(r, ref, 99);
    expect_lost(RDMAD_E_PEER_LOST, "nobody asked for");
}

Test(peer_return, what_is_given_back_while_it_is_asked_for_is_released_unused) {
    uint64_t ref;
    struct rig_done released = {0};
    lose(attached_for_long(60000, &ref));
    struct raw *r = comes_back();
    ref = asked(r);
    handle_release(h, rig_done, &released);
    fake_answer(fake_call(FAKE_LEASE_END, -1), 0);
    cr_expect_eq(released.calls, 1, "its session does not wait for the peer");
    cr_expect_eq(rig.st.quota.total.used[QUOTA_ATTACHES], 0);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_QUESTIONS], 1, "the question is charged on");
    grant(r, ref, 60000);
    expect_release(r, ref, false);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_QUESTIONS], 0);
}

Test(peer_return, a_session_that_closes_meanwhile_leaves_nothing) {
    uint64_t ref;
    lose(attached_for_long(60000, &ref));
    rig_close(s);
    fake_answer_all();
    settle();
    fake_answer_all();
    cr_expect(rig_closed(s));
    rig_advance(1000 * MS);
    AWAIT(peers_count(rig.st.peers) == 0);
}

/* ---- it leaves in order ---------------------------------------------------------------------- */

static void says_it_leaves(struct raw *r) {
    struct peer_msg m = {.type = PEER_MSG_BYE, .bye.code = RDMAD_E_SHUTDOWN};
    strcpy(m.bye.text, "rig is stopping");
    raw_send(r, &m);
    settle();
}

Test(peer_return, a_peer_that_leaves_is_left_when_nothing_is_under_way) {
    uint64_t ref;
    struct raw *r = attached_for_long(60000, &ref);
    says_it_leaves(r);
    AWAIT(fake_pending(FAKE_LANE_REST) == 1);
    fake_answer(fake_call(FAKE_LANE_REST, -1), RDMAD_E_BUSY);
    rig_advance(2 * MS);
    AWAIT(fake_count(FAKE_LANE_REST) == 2);
    cr_expect(raw_silent(r), "ops are under way");
    fake_answer(fake_call(FAKE_LANE_REST, -1), 0);
    rig_advance(2 * MS);
    cr_expect(raw_eof(r));
    AWAIT(fake_pending(FAKE_LANE_UNLINK) == 1);
    cr_expect_eq(fake_count(FAKE_LEASE_END), 0);
}

/* Ours is stopping, and so is the peer. */
Test(peer_return, a_peer_that_leaves_while_we_stop_ends_no_lease) {
    uint64_t ref;
    struct raw *r = attached_for_long(60000, &ref);
    rig.st.stopping = true;
    says_it_leaves(r);
    AWAIT(fake_pending(FAKE_LANE_REST) == 1);
    fake_answer(fake_call(FAKE_LANE_REST, -1), 0);
    rig_advance(2 * MS);
    cr_expect(raw_eof(r));
    AWAIT(fake_pending(FAKE_LANE_UNLINK) == 1);
    fake_answer(fake_call(FAKE_LANE_UNLINK, -1), 0);
    cr_expect_eq(fake_count(FAKE_LEASE_END), 0);
    rig.st.stopping = false;
}

Test(peer_return, a_peer_that_is_lost_while_we_stop_is_dialled_on) {
    uint64_t ref;
    struct raw *r = attached_for_long(60000, &ref);
    rig.st.stopping = true;
    lose(r);
    for (int i = 0; i < 3; i++) {
        rig_advance(500 * MS);
        raw_close(raw_accept(listener));
        settle();
        cr_expect_eq(fake_count(FAKE_LEASE_END), 0, "after %d", i);
    }
    rig_advance(500 * MS);
    grant(greet(), ref, 60000);
    rig.st.stopping = false;
}

/* The nth lane is asked whether anything is under way on it. */
static void answer_rest(int nth, int code) {
    const void *lane = fake_call(FAKE_LANE_NEW, nth)->object;
    struct fake_call *c;
    int i = -1;
    rig_advance(2 * MS);
    while ((c = fake_call(FAKE_LANE_REST, i)) && !(c->object == lane && c->pending))
        i--;
    cr_assert_not_null(c, "lane %d is not asked", nth);
    fake_answer(c, code);
}

/* Ops may be under way on it again. */
Test(peer_return, a_link_made_anew_while_a_peer_leaves_has_to_rest_as_well) {
    struct session *first = s;
    struct error why = {RDMAD_E_PEER_LOST, "connection reset"};
    uint64_t ref;
    strcpy(rig.config.peer_private_links, "3");
    struct raw *r = attached_for_long(60000, &ref);
    s = rig_session(3);
    s->origin.life = 1;
    s->origin.session = s->id;
    begin();
    ref = asked(r);
    grant(r, ref, 60000);
    link_and_key(r, ref);
    fake_answer_all();

    says_it_leaves(r);
    answer_rest(0, RDMAD_E_BUSY);
    answer_rest(1, 0);
    peers_lane_lost(rig.st.peers, fake_call(FAKE_LANE_NEW, 1)->cookie, &why);
    cr_expect_eq(raw_expect(r, PEER_MSG_LINK_GONE).link_gone.via, 2);
    rig_advance(PEER_RETRY_MAX_NS);
    link_up(r);
    key_asked(r, ref, 3);
    answer_rest(0, 0);
    answer_rest(1, RDMAD_E_BUSY);
    rig_advance(2 * MS);
    cr_expect(raw_silent(r), "ops are under way");
    answer_rest(1, 0);
    rig_advance(2 * MS);
    cr_expect(raw_eof(r));
    rig_close(s);
    fake_answer_all();
    s = first;
}

Test(peer_return, a_peer_that_leaves_and_has_nothing_of_ours_is_left_at_once) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    says_it_leaves(r);
    cr_expect(raw_eof(r));
    cr_expect_eq(fake_count(FAKE_LANE_REST), 0);
    expect_lost(RDMAD_E_PEER_LOST, "rig is stopping");
}

/* ---- how often it is dialled -------------------------------------------------------------------
 */

/* How long until a peer that was lost is dialled again; CLOCK_NEVER: none is waited for. */
static uint64_t dialled_in(void) {
    list_for_each (node, &rig.st.peers->all) {
        struct peer *p = list_entry(node, struct peer, node);
        if (p->stage == PEER_LOST && timer_is_set(&tables_of(p)->returning.again))
            return tables_of(p)->returning.again.at_ns - rig.now_ns;
    }
    return CLOCK_NEVER;
}

/* What it waits before each of its tries, of which none succeeds; lost at that moment. */
static void tries(uint64_t at_ns, uint64_t *waits, unsigned count) {
    uint64_t ref;
    struct raw *r = attached_for_long(60000, &ref);
    unsigned unlinks = fake_count(FAKE_LANE_UNLINK);
    rig.now_ns += at_ns;
    raw_close(r);
    AWAIT(fake_count(FAKE_LANE_UNLINK) == unlinks + 1);
    fake_answer(fake_call(FAKE_LANE_UNLINK, -1), 0);
    for (unsigned i = 0; i < count; i++) {
        AWAIT(dialled_in() != CLOCK_NEVER);
        waits[i] = dialled_in();
        rig_advance(waits[i]);
        raw_close(raw_accept(listener));
    }
    AWAIT(dialled_in() != CLOCK_NEVER);
}

Test(peer_return, it_is_dialled_ever_more_seldom_and_not_by_all_lessees_at_once) {
    static const uint64_t pause_ms[] = {10, 20, 40, 80, 160, 250, 250, 250};
    enum { TRIES = sizeof(pause_ms) / sizeof(*pause_ms) };
    uint64_t waits[TRIES], others[3];
    tries(1234567, waits, TRIES);
    for (unsigned i = 0; i < TRIES; i++) {
        cr_expect_geq(waits[i], pause_ms[i] * MS, "try %u came after %lu ns", i,
                      (unsigned long)waits[i]);
        cr_expect_lt(waits[i], pause_ms[i] * MS * 3 / 2, "try %u came after %lu ns", i,
                     (unsigned long)waits[i]);
    }
    rig_close(s);
    fake_answer_all();
    settle();
    s = rig_session(3);
    done = (struct rig_done){0};
    tries(2987654, others, 3); /* another daemon noticed the loss at another moment */
    for (unsigned i = 0; i < 3; i++)
        cr_expect_neq(waits[i], others[i], "all come at the same time");
}
