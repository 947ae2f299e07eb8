/* SPDX-License-Identifier: MIT */
/*
 * What lessees and owners ask of each other beyond an attach, the other end played by the test:
 * parts of leases, more time, notifications, names, memory of services.
 */
#include "daemon/peer/names/answer.h"
#include "daemon/state/delegate.h"
#include "daemon/state/lease_table.h"
#include "daemon/state/service.h"
#include "tests/unit/lessee_steps.h"

TestSuite(peer_asks, .init = up, .fini = down);

/* ---- the asker's side ---- */

static struct {
    unsigned calls;
    struct error result;
    struct rdmad_lease_grant_rep part;
    struct rdmad_names_list_rep names;
} answer;

static void delegated(void *arg, const struct error *result,
                      const struct rdmad_lease_grant_rep *rep) {
    (void)arg;
    answer.calls++;
    answer.result = *result;
    if (rep)
        answer.part = *rep;
}

static const struct lease_part some = {
    .offset = 8, .length = 16, .ttl_ns = 1000, .rights = RDMAD_RIGHT_READ, .max_attaches = 3};

Test(peer_asks, a_part_is_asked_of_the_owner_and_has_its_address) {
    uint64_t ref;
    struct raw *r = attached(5000, &ref);
    memset(&answer, 0, sizeof(answer));
    peer_delegate(h, &some, 1000 * MS, delegated, NULL);
    struct peer_msg m = raw_expect(r, PEER_MSG_DELEGATE_REQ);
    cr_expect_eq(m.delegate_req.owner_ref, 900 + ref);
    cr_expect_eq(m.delegate_req.offset, 8);
    cr_expect_eq(m.delegate_req.length, 16);
    cr_expect_eq(m.delegate_req.rights, RDMAD_RIGHT_READ);
    cr_expect_eq(m.delegate_req.max_attaches, 3);
    struct peer_msg rep = {.type = PEER_MSG_DELEGATE_REP};
    rep.delegate_rep = (struct peer_delegate_rep){
        .ref = m.delegate_req.ref, .lease = 55, .ttl_ns = 900, .key = {0xab}};
    raw_send(r, &rep);
    AWAIT(answer.calls == 1);
    cr_expect_eq(answer.result.code, 0, "%s", answer.result.text);
    cr_expect_eq(answer.part.lease, 55);
    cr_expect_eq(answer.part.ttl_ns, 900);
    char begins[64];
    snprintf(begins, sizeof(begins), "rdmad://127.0.0.1:%u/lease/55?key=ab", uri.port);
    cr_expect_eq(strncmp(answer.part.uri, begins, strlen(begins)), 0, "%s", answer.part.uri);
    raw_send(r, &rep); /* nobody's any more */
    quiet();
    cr_expect_eq(answer.calls, 1);
}

Test(peer_asks, a_question_ends_by_refusal_time_or_loss) {
    uint64_t ref;
    struct raw *r = attached(60000, &ref);
    memset(&answer, 0, sizeof(answer));
    peer_delegate(h, &some, 1000 * MS, delegated, NULL);
    struct peer_msg m = raw_expect(r, PEER_MSG_DELEGATE_REQ);
    struct peer_msg rep = {.type = PEER_MSG_DELEGATE_REP,
                           .delegate_rep = {.ref = m.delegate_req.ref,
                                            .status = RDMAD_E_DELEGATE,
                                            .text = "not this one"}};
    raw_send(r, &rep);
    AWAIT(answer.calls == 1);
    cr_expect_eq(answer.result.code, RDMAD_E_DELEGATE);
    cr_expect_str_eq(answer.result.text, "not this one");
    peer_delegate(h, &some, 1000 * MS, delegated, NULL);
    raw_expect(r, PEER_MSG_DELEGATE_REQ);
    rig_advance(1000 * MS);
    cr_expect_eq(answer.calls, 2);
    cr_expect_eq(answer.result.code, RDMAD_E_TIMEOUT);
    peer_delegate(h, &some, 60000 * MS, delegated, NULL);
    raw_expect(r, PEER_MSG_DELEGATE_REQ);
    raw_close(r);
    AWAIT(answer.calls == 3);
    cr_expect_eq(answer.result.code, RDMAD_E_PEER_LOST);
}

Test(peer_asks, who_asked_and_is_gone_waits_for_no_answer) {
    uint64_t ref;
    rig.config.peer_ping_ms = rig.config.peer_dead_ms = 600000;
    struct raw *r = attached(60000, &ref);
    memset(&answer, 0, sizeof(answer));
    peer_delegate(h, &some, UINT64_MAX, delegated, NULL);
    struct peer_msg m = raw_expect(r, PEER_MSG_DELEGATE_REQ);
    rig_close(s);
    cr_expect_eq(answer.calls, 1);
    cr_expect_eq(answer.result.code, RDMAD_E_CANCELED, "%s", answer.result.text);
    struct peer_msg late = {.type = PEER_MSG_DELEGATE_REP,
                            .delegate_rep = {.ref = m.delegate_req.ref, .lease = 5, .ttl_ns = 9}};
    raw_send(r, &late);
    quiet();
    cr_expect_eq(answer.calls, 1);
}

Test(peer_asks, a_keeper_asks_again_before_the_lease_ends) {
    uint64_t ref;
    struct rig_done kept = {0};
    rig.config.peer_ping_ms = rig.config.peer_dead_ms = 600000;
    struct raw *r = attached(3000, &ref);
    handle_keep(h, true, rig_done, &kept);
    for (unsigned i = 0; i < 3; i++) {
        struct peer_msg m = raw_expect(r, PEER_MSG_KEEP_REQ);
        cr_expect_eq(m.keep_req.owner_ref, 900 + ref);
        struct peer_msg rep = {.type = PEER_MSG_KEEP_REP, .keep_rep.lessee_ref = ref};
        raw_send(r, &rep);
        raw_expect(r, PEER_MSG_TTL_REQ);
        struct peer_msg ttl = {.type = PEER_MSG_TTL_REP, .ttl = {.ref = ref, .ttl_ns = 3000 * MS}};
        raw_send(r, &ttl);
        quiet();
        cr_expect_eq(h->deadline_ns, rig.now_ns + 3000 * MS);
        rig_advance(2000 * MS);
    }
    cr_expect_eq(kept.calls, 1);
    cr_expect_eq(kept.code, 0);
    raw_expect(r, PEER_MSG_KEEP_REQ);
    struct peer_msg no = {.type = PEER_MSG_KEEP_REP,
                          .keep_rep = {.lessee_ref = ref, .status = RDMAD_E_PERM}};
    raw_send(r, &no);
    quiet();
    cr_expect_not(h->keep, "it never will be");
}

Test(peer_asks, a_keeper_whose_owner_says_nothing_is_told_in_time) {
    uint64_t ref;
    struct rig_done kept = {0}, again = {0}, second = {0};
    rig.config.peer_ping_ms = rig.config.peer_dead_ms = 600000;
    struct raw *r = attached(60000, &ref);
    handle_keep(h, true, rig_done, &kept);
    raw_expect(r, PEER_MSG_KEEP_REQ);
    handle_keep(h, true, rig_done, &second);
    cr_expect_eq(second.code, RDMAD_E_BUSY, "one waits at a time: %s", second.text);
    rig_advance(rig.config.attach_timeout_ms * MS - 1);
    cr_expect_eq(kept.calls, 0);
    rig_advance(1);
    cr_expect_eq(kept.calls, 1);
    cr_expect_eq(kept.code, RDMAD_E_TIMEOUT, "%s", kept.text);
    cr_expect_not(h->keep, "it was told that it is not");
    struct peer_msg late = {.type = PEER_MSG_KEEP_REP, .keep_rep.lessee_ref = ref};
    raw_send(r, &late);
    quiet();
    cr_expect_eq(kept.calls, 1);
    handle_keep(h, true, rig_done, &again); /* the next may be answered */
    raw_expect(r, PEER_MSG_TTL_REQ);
    raw_expect(r, PEER_MSG_KEEP_REQ);
    raw_send(r, &late);
    AWAIT(again.calls == 1);
    cr_expect_eq(again.code, 0, "%s", again.text);
    cr_expect(h->keep);
}

/* A request that was answered, and is handed over. */
static struct raw *handing(uint64_t *ref, struct rig_done *over) {
    struct request_terms terms = {.bytes = 8192, .rights = RDMAD_RIGHTS_DEFAULT};
    struct error err;
    strcpy(uri.name, "memory");
    uri.lease = 0;
    cr_assert_eq(handle_new(s, &h, &err), 0);
    peer_request(rig.st.peers, h, &uri, &terms, 5000 * MS, rig_done, &done);
    struct raw *r = greet();
    struct peer_msg m = raw_expect(r, PEER_MSG_REQUEST_REQ);
    cr_expect_eq(m.request_req.bytes, 8192);
    cr_expect_eq(m.request_req.uid, 3);
    cr_expect_str_eq(m.request_req.service, "memory");
    *ref = m.request_req.lessee_ref;
    grant(r, *ref, 5000);
    link_and_key(r, *ref);
    fake_answer(fake_call(FAKE_LEASE_ADD, -1), 0);
    cr_assert_eq(done.code, 0, "%s", done.text);
    handle_hand_over(h, rig_done, over);
    quiet();
    cr_expect(raw_silent(r), "an op may still be under way");
    fake_answer_all();
    return r;
}

Test(peer_asks, nobody_takes_notifications_of_what_was_requested) {
    static struct rig_done over; /* told when the rig goes */
    uint64_t ref;
    handing(&ref, &over);
    cr_expect_eq(fake_call(FAKE_LEASE_ADD, 0)->spec.notify_ref, 0);
}

Test(peer_asks, a_hand_over_is_done_when_its_owner_says_so) {
    struct rig_done over = {0};
    uint64_t ref;
    struct raw *r = handing(&ref, &over);
    cr_expect_eq(raw_expect(r, PEER_MSG_RELEASE).release.returned, 2);
    cr_expect_eq(over.calls, 0);
    struct peer_msg m = {.type = PEER_MSG_REVOKED,
                         .revoked = {.lessee_ref = ref, .reason = RDMAD_E_LEASE_RELEASED}};
    raw_send(r, &m);
    AWAIT(over.calls == 1);
    cr_expect_eq(over.code, 0, "%s", over.text);
}

Test(peer_asks, a_hand_over_that_crosses_the_leases_end_is_none) {
    struct rig_done over = {0};
    uint64_t ref;
    struct raw *r = handing(&ref, &over);
    raw_expect(r, PEER_MSG_RELEASE);
    struct peer_msg m = {.type = PEER_MSG_REVOKED,
                         .revoked = {.lessee_ref = ref, .reason = RDMAD_E_LEASE_REVOKED}};
    raw_send(r, &m);
    AWAIT(over.calls == 1);
    cr_expect_eq(over.code, RDMAD_E_LEASE_REVOKED);
}

Test(peer_asks, a_hand_over_whose_owner_says_nothing_ends_in_time) {
    uint64_t ref;
    struct rig_done over = {0};
    rig.config.peer_ping_ms = rig.config.peer_dead_ms = 600000;
    struct raw *r = handing(&ref, &over);
    rig_advance(rig.config.attach_timeout_ms * MS);
    cr_expect_eq(over.calls, 1);
    cr_expect_eq(over.code, RDMAD_E_TIMEOUT, "%s", over.text);
    struct peer_msg late = {.type = PEER_MSG_REVOKED,
                            .revoked = {.lessee_ref = ref, .reason = RDMAD_E_LEASE_RELEASED}};
    raw_send(r, &late);
    quiet();
    cr_expect_eq(over.calls, 1);
}

Test(peer_asks, a_hand_over_does_not_keep_a_session_that_is_gone) {
    struct rig_done over = {0};
    uint64_t ref;
    rig.config.peer_ping_ms = rig.config.peer_dead_ms = 600000;
    struct raw *r = handing(&ref, &over);
    cr_expect_eq(raw_expect(r, PEER_MSG_RELEASE).release.returned, 2);
    rig_close(s);
    cr_expect_eq(over.calls, 1);
    cr_expect_eq(over.code, RDMAD_E_CANCELED);
    struct peer_msg late = {.type = PEER_MSG_REVOKED,
                            .revoked = {.lessee_ref = ref, .reason = RDMAD_E_LEASE_RELEASED}};
    raw_send(r, &late);
    quiet();
    cr_expect_eq(over.calls, 1);
}

Test(peer_asks, a_hand_over_whose_owner_is_lost_says_so) {
    struct rig_done over = {0};
    uint64_t ref;
    struct raw *r = handing(&ref, &over);
    raw_expect(r, PEER_MSG_RELEASE);
    raw_close(r);
    AWAIT(over.calls == 1);
    cr_expect_eq(over.code, RDMAD_E_PEER_LOST);
}

/* ---- names ---- */

static void listed(void *arg, const struct error *result, const struct rdmad_names_list_rep *rep) {
    (void)arg;
    answer.calls++;
    answer.result = *result;
    if (rep)
        answer.names = *rep;
}

static struct names_query query(void) {
    struct names_query q = {.port = uri.port, .timeout_ns = 5000 * MS};
    strcpy(q.host, "127.0.0.1");
    strcpy(q.prefix, "p");
    return q;
}

Test(peer_asks, a_listing_is_one_page) {
    struct names_query q = query();
    memset(&answer, 0, sizeof(answer));
    peer_list(s, &q, listed, NULL);
    struct raw *r = greet();
    struct peer_msg m = raw_expect(r, PEER_MSG_NAMES_REQ);
    cr_expect_str_eq(m.names_req.prefix, "p");
    struct peer_msg rep = {.type = PEER_MSG_NAMES_REP, .names_rep.ref = m.names_req.ref};
    strcpy(rep.names_rep.entry.name, "p1");
    raw_send(r, &rep);
    rep.names_rep = (struct peer_names_rep){.ref = m.names_req.ref, .last = 2};
    raw_send(r, &rep);
    AWAIT(answer.calls == 1);
    cr_expect_eq(answer.names.count, 1);
    cr_expect_eq(answer.names.more, 1);
    cr_expect_str_eq(answer.names.entry[0].name, "p1");

    peer_list(s, &q, listed, NULL);
    m = raw_expect(r, PEER_MSG_NAMES_REQ);
    for (unsigned i = 0; i <= RDMAD_NAMES_PER_REPLY; i++) {
        rep.names_rep = (struct peer_names_rep){.ref = m.names_req.ref};
        strcpy(rep.names_rep.entry.name, "p1");
        raw_send(r, &rep);
    }
    AWAIT(answer.calls == 2);
    cr_expect_neq(answer.result.code, 0, "a page that has no end");
}

static unsigned there, ended;
static int end_reason;
static struct peer_ask *asked_watch;

static bool never_lags(struct watch *w) {
    (void)w;
    return false;
}
static void count(struct watch *w, const struct rdmad_name_entry *entry, enum name_news what) {
    (void)w, (void)entry;
    there += what == NAME_THERE;
}
static void more(struct watch *w, unsigned count) {
    (void)w;
    peer_watch_more(asked_watch, count);
}
static void watch_ended(struct watch *w, int reason) {
    watch_end(w);
    ended++;
    end_reason = reason;
    peer_unwatch(asked_watch);
    asked_watch = NULL;
}
static const struct watch_ops counting = {
    .lags = never_lags, .tell = count, .more = more, .over = watch_ended};

Test(peer_asks, a_watch_of_a_lost_peer_is_over) {
    struct names_query q = query();
    struct watch w;
    there = ended = 0;
    watch_begin(&w, NULL, NULL, "p", &counting);
    asked_watch = peer_watch(s, &q, &w, rig_done, &done);
    struct raw *r = greet();
    struct peer_msg m = raw_expect(r, PEER_MSG_WATCH_REQ);
    struct peer_msg ev = {.type = PEER_MSG_NAME_EV, .name_ev.ref = m.watch_req.ref};
    strcpy(ev.name_ev.entry.name, "p1");
    raw_send(r, &ev);
    AWAIT(there == 1);
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(done.code, 0);
    rig_advance(10000 * MS);
    cr_expect_eq(ended, 0, "its time-out is for its beginning");
    raw_close(r);
    AWAIT(ended == 1);
    cr_expect_eq(end_reason, RDMAD_E_PEER_LOST);
}

Test(peer_asks, a_watch_that_is_given_up_is_told) {
    struct names_query q = query();
    struct watch w;
    watch_begin(&w, NULL, NULL, "p", &counting);
    asked_watch = peer_watch(s, &q, &w, rig_done, &done);
    struct raw *r = greet();
    struct peer_msg m = raw_expect(r, PEER_MSG_WATCH_REQ);
    struct peer_msg ev = {.type = PEER_MSG_NAME_EV, .name_ev.ref = m.watch_req.ref};
    raw_send(r, &ev); /* there is none */
    AWAIT(done.calls == 1);
    peer_unwatch(asked_watch);
    watch_end(&w);
    cr_expect_eq(raw_expect(r, PEER_MSG_UNWATCH).unwatch.ref, m.watch_req.ref);
}

Test(peer_asks, what_was_passed_on_of_a_watch_is_asked_for_anew) {
    struct names_query q = query();
    struct watch w;
    there = ended = 0;
    watch_begin(&w, NULL, NULL, "p", &counting);
    asked_watch = peer_watch(s, &q, &w, rig_done, &done);
    struct raw *r = greet();
    uint64_t ref = raw_expect(r, PEER_MSG_WATCH_REQ).watch_req.ref;
    struct peer_msg ev = {.type = PEER_MSG_NAME_EV, .name_ev.ref = ref};
    strcpy(ev.name_ev.entry.name, "p1");
    for (unsigned i = 0; i < WATCH_WINDOW; i++)
        raw_send(r, &ev);
    for (unsigned i = 0; i < 2; i++) {
        struct peer_msg asked = raw_expect(r, PEER_MSG_WATCH_MORE);
        cr_expect_eq(asked.watch_more.ref, ref);
        cr_expect_eq(asked.watch_more.count, WATCH_WINDOW / 2);
    }
    cr_expect_eq(there, WATCH_WINDOW);
    peer_unwatch(asked_watch);
    watch_end(&w);
}

/* ---- the other side ---- */

static uint64_t owner_ref;

static struct raw *lent(struct lease *l) {
    struct raw *r = raw_greet();
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REQ,
                         .attach_req = {.lessee_ref = 41, .lease = l->id}};
    memcpy(m.attach_req.key, l->key, sizeof(l->key));
    raw_send(r, &m);
    owner_ref = raw_expect(r, PEER_MSG_ATTACH_REP).attach_rep.owner_ref;
    return r;
}

Test(peer_asks, the_owner_makes_a_part_or_says_why_not) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 5000);
    struct raw *r = lent(l);
    struct peer_msg m = {.type = PEER_MSG_DELEGATE_REQ};
    m.delegate_req = (struct peer_delegate_req){
        .ref = 5, .owner_ref = owner_ref, .length = 64, .ttl_ns = 1000 * MS, .rights = 1};
    raw_send(r, &m);
    struct peer_msg rep = raw_expect(r, PEER_MSG_DELEGATE_REP);
    cr_expect_eq(rep.delegate_rep.ref, 5);
    cr_expect_eq(rep.delegate_rep.status, 0, "%s", rep.delegate_rep.text);
    cr_assert_not_null(lease_by_id(rig.st.leases, rep.delegate_rep.lease));
    cr_expect_eq(
        memcmp(lease_by_id(rig.st.leases, rep.delegate_rep.lease)->key, rep.delegate_rep.key, 16),
        0);
    m.delegate_req.owner_ref++;
    raw_send(r, &m);
    cr_expect_eq(raw_expect(r, PEER_MSG_DELEGATE_REP).delegate_rep.status, RDMAD_E_NO_LEASE);
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    fake_answer_all();
}

Test(peer_asks, two_peers_attaches_never_have_one_number) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 5000);
    lent(l);
    uint64_t first = owner_ref;
    lent(l);
    cr_expect_neq(owner_ref, first);
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    rig_advance(1000 * MS);
    fake_answer_all();
}

Test(peer_asks, a_lessee_learns_by_what_reference_it_may_notify) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 5000);
    struct raw *r = raw_greet();
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REQ,
                         .attach_req = {.lessee_ref = 41, .lease = l->id, .via = 1}};
    memcpy(m.attach_req.key, l->key, sizeof(l->key));
    raw_send(r, &m);
    AWAIT(fake_pending(FAKE_WINDOW_OPEN) == 1);
    const struct plane_window_notify notify = fake_call(FAKE_WINDOW_OPEN, 0)->notify;
    cr_expect_eq(notify.owner, owner->plane);
    cr_expect_eq(fake_call(FAKE_WINDOW_OPEN, 0)->window.rights & RDMAD_RIGHT_DELEGATE, 0);
    fake_answer_all();
    cr_expect_eq(raw_expect(r, PEER_MSG_ATTACH_REP).attach_rep.owner_ref, notify.ref);
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    rig_advance(1000 * MS);
    fake_answer_all();
}

Test(peer_asks, an_owner_is_told_of_the_use_before_the_attach_is_over) {
    uint64_t ref;
    struct raw *r = attached(5000, &ref);
    struct fabric_audit *use = fake_call(FAKE_LEASE_ADD, 0)->spec.audit;
    cr_assert_not_null(use);
    *use = (struct fabric_audit){.bytes_read = 7, .bytes_written = 8, .ops = 9, .last_use_ns = 1};
    handle_release(h, rig_done, &done);
    fake_answer_all();
    struct peer_used used = raw_expect(r, PEER_MSG_USED).used;
    cr_expect(used.owner_ref == 900 + ref && used.bytes_read == 7 && used.bytes_written == 8 &&
              used.ops == 9);
    raw_expect(r, PEER_MSG_RELEASE);
}

/* What a peer attaches to gets a window; and the lease as which its owner is told, 0: not at all.
 */
static uint64_t told_as(struct raw *r, const struct lease *l, uint64_t ref) {
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REQ,
                         .attach_req = {.lessee_ref = ref, .lease = l->id, .via = 1}};
    memcpy(m.attach_req.key, l->key, sizeof(l->key));
    raw_send(r, &m);
    AWAIT(fake_pending(FAKE_WINDOW_OPEN) == 1);
    fake_answer_all();
    cr_expect_eq(raw_expect(r, PEER_MSG_ATTACH_REP).attach_rep.lease, l->id);
    return fake_call(FAKE_WINDOW_OPEN, -1)->notify.lease_id;
}

Test(peer_asks, what_a_peer_tells_of_a_part_is_told_of_the_whole) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 5000), *part;
    struct lease_terms terms = l->terms;
    struct lease_part p = {.length = 64, .ttl_ns = 1000 * MS};
    struct error err;
    struct raw *r = raw_greet();
    cr_assert_eq(lease_delegate(l, &p, &part, &err), 0, "%s", err.text);
    cr_expect_eq(told_as(r, part, 41), l->id);
    cr_expect_eq(told_as(r, l, 42), l->id);

    struct lease *asked_for;
    cr_assert_eq(lease_make(rig_pool(owner), &terms, NULL, &asked_for, &err), 0, "%s", err.text);
    asked_for->requested = true;
    cr_expect_eq(told_as(r, asked_for, 43), 0, "its owner is told by the hand-over");
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    lease_end(asked_for, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    rig_advance(1000 * MS);
    fake_answer_all();
}

Test(peer_asks, watches_of_one_peer_are_bounded) {
    struct raw *r = raw_greet();
    struct peer_msg m = {.type = PEER_MSG_WATCH_REQ};
    for (unsigned i = 0; i <= PEER_WATCHES_MAX; i++) {
        m.watch_req.ref = i + 1;
        raw_send(r, &m);
        struct peer_msg ev = raw_expect(r, PEER_MSG_NAME_EV);
        cr_assert_eq(ev.name_ev.ref, i + 1);
        cr_assert_eq(ev.name_ev.gone, i == PEER_WATCHES_MAX, "watch %u", i);
    }
    struct peer_msg un = {.type = PEER_MSG_UNWATCH, .unwatch.ref = 7};
    raw_send(r, &un);
    raw_send(r, &m);
    cr_expect_eq(raw_expect(r, PEER_MSG_NAME_EV).name_ev.gone, 0, "there is room again");
}
