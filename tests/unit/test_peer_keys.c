/* SPDX-License-Identifier: MIT */
/*
 * Keys at their owner: windows opened for a link, opened again for the next, and what is answered
 * when requests overtake each other or the lease ends meanwhile.
 */
#include "daemon/peer/lane/offer.h"
#include "tests/unit/peer_rig.h"
#include <criterion/criterion.h>
#include <string.h>

static struct session *owner;
static struct lease *l;
static struct raw *r;
static uint64_t owner_ref;

static void up(void) {
    struct lease_terms t = rig_terms(60000);
    peer_rig_up();
    owner = rig_session(1);
    strcpy(t.name, "n");
    l = rig_grant_terms(owner, &t);
    r = raw_greet();
}

static void down(void) {
    if (l)
        lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    rig_advance(rig.config.lease_revoke_grace_ms * MS);
    fake_answer_all();
    peer_rig_down();
}

TestSuite(peer_keys, .init = up, .fini = down, .timeout = 60);

static struct peer_attach_rep attach(uint64_t via) {
    struct peer_attach_rep rep = raw_attach(r, l, 5, via);
    owner_ref = rep.owner_ref;
    return rep;
}

static void ask(uint64_t via) {
    struct peer_msg m = {.type = PEER_MSG_KEY_REQ, .key_req = {owner_ref, via}};
    raw_send(r, &m);
    settle();
}

static struct peer_key_rep answer(uint64_t via, int status) {
    struct peer_msg m = raw_expect(r, PEER_MSG_KEY_REP);
    cr_expect_eq(m.key_rep.lessee_ref, 5);
    cr_expect_eq(m.key_rep.via, via, "%lu for %lu", (unsigned long)m.key_rep.via,
                 (unsigned long)via);
    cr_expect_eq(m.key_rep.status, status, "%d: %s", m.key_rep.status, m.key_rep.text);
    return m.key_rep;
}

Test(peer_keys, without_a_link_there_is_no_window_and_no_key) {
    cr_expect_eq(attach(0).key.size, 0);
    cr_expect_eq(fake_count(FAKE_WINDOW_OPEN), 0);
    cr_expect_eq(l->attached, 1);
    cr_expect_eq(owner->account.used[QUOTA_REGISTERED], 8192, "charged for what it may ask");
    ask(4);
    AWAIT(fake_pending(FAKE_WINDOW_OPEN) == 1);
    cr_expect_eq(fake_call(FAKE_WINDOW_OPEN, 0)->window.via, 4);
    cr_expect(raw_silent(r));
    fake_answer(fake_call(FAKE_WINDOW_OPEN, 0), 0);
    cr_expect_eq(answer(4, 0).key.size, 5);
}

Test(peer_keys, a_new_link_opens_the_window_anew) {
    struct fabric_blob first = attach(4).key;
    ask(5);
    AWAIT(fake_pending(FAKE_WINDOW_REOPEN) == 1);
    cr_expect_eq(fake_call(FAKE_WINDOW_REOPEN, 0)->number, 5);
    cr_expect_eq(fake_call(FAKE_WINDOW_REOPEN, 0)->object, fake_call(FAKE_WINDOW_OPEN, 0)->object);
    fake_answer(fake_call(FAKE_WINDOW_REOPEN, 0), 0);
    struct fabric_blob second = answer(5, 0).key;
    cr_expect_neq(memcmp(&first, &second, sizeof(first)), 0);
    cr_expect_eq(fake_count(FAKE_WINDOW_OPEN), 1);
    cr_expect_eq(owner->account.used[QUOTA_REGISTERED], 8192, "charged once");
}

Test(peer_keys, one_opening_at_a_time_and_the_last_request_wins) {
    attach(4);
    for (uint64_t via = 5; via <= 9; via++)
        ask(via);
    cr_expect_eq(fake_count(FAKE_WINDOW_REOPEN), 1);
    for (uint64_t via = 6; via <= 8; via++) /* that waited; each has its answer */
        answer(via, RDMAD_E_CANCELED);
    fake_answer(fake_call(FAKE_WINDOW_REOPEN, 0), 0);
    answer(5, RDMAD_E_CANCELED);
    cr_expect_eq(fake_call(FAKE_WINDOW_REOPEN, 1)->number, 9);
    cr_expect(raw_silent(r));
    fake_answer(fake_call(FAKE_WINDOW_REOPEN, 1), 0);
    answer(9, 0);
    cr_expect(raw_silent(r));
}

Test(peer_keys, a_window_that_does_not_open_is_told_and_can_be_asked_for_again) {
    attach(0);
    ask(4);
    fake_answer(fake_call(FAKE_WINDOW_OPEN, 0), RDMAD_E_NOMEM);
    cr_expect_not_null(strstr(answer(4, RDMAD_E_NOMEM).text, "the data plane says"));
    cr_expect_eq(l->attached, 1);
    ask(4);
    AWAIT(fake_pending(FAKE_WINDOW_REOPEN) == 1);
    fake_answer(fake_call(FAKE_WINDOW_REOPEN, 0), RDMAD_E_PEER_LOST);
    answer(4, RDMAD_E_PEER_LOST);
}

Test(peer_keys, a_link_that_broke_before_the_attach_is_no_reason_to_refuse_it) {
    struct peer_msg m = raw_attach_req(l, 5, 4);
    raw_send(r, &m);
    AWAIT(fake_pending(FAKE_WINDOW_OPEN) == 1);
    fake_answer(fake_call(FAKE_WINDOW_OPEN, 0), RDMAD_E_PEER_LOST);
    m = raw_expect(r, PEER_MSG_ATTACH_REP);
    cr_expect_eq(m.attach_rep.status, 0);
    cr_expect_eq(m.attach_rep.key.size, 0);
    owner_ref = m.attach_rep.owner_ref;
    ask(5);
    AWAIT(fake_pending(FAKE_WINDOW_REOPEN) == 1);
    fake_answer(fake_call(FAKE_WINDOW_REOPEN, 0), 0);
    answer(5, 0);
}

Test(peer_keys, a_lease_whose_lessee_has_no_window_ends_without_waiting_for_it) {
    struct rig_done ended = {0};
    attach(0);
    lease_end(l, RDMAD_E_LEASE_REVOKED, rig_done, &ended);
    l = NULL;
    cr_expect_eq(ended.calls, 1, "it reaches nothing");
    cr_expect_eq(raw_expect(r, PEER_MSG_REVOKED).revoked.reason, RDMAD_E_LEASE_REVOKED);
    struct peer_msg m = {.type = PEER_MSG_STOPPED, .stopped.owner_ref = owner_ref};
    raw_send(r, &m); /* as it will */
    ask(4);
    cr_expect(raw_silent(r));
    cr_expect_eq(fake_count(FAKE_WINDOW_OPEN), 0);
}

Test(peer_keys, a_lease_that_ends_while_its_window_is_opened_anew_gives_no_key) {
    for (int close_first = 0; close_first < 2; close_first++) {
        struct rig_done ended = {0};
        if (close_first) {
            struct lease_terms t = rig_terms(60000);
            strcpy(t.name, "n");
            l = rig_grant_terms(owner, &t);
        }
        attach(4);
        ask(5);
        ask(6);
        lease_end(l, RDMAD_E_LEASE_REVOKED, rig_done, &ended);
        l = NULL;
        raw_expect(r, PEER_MSG_REVOKED);
        ask(7); /* it has not seen that yet; and who asks last must be answered last */
        answer(6, RDMAD_E_CANCELED);
        cr_expect(raw_silent(r));
        struct peer_msg m = {.type = PEER_MSG_STOPPED, .stopped.owner_ref = owner_ref};
        raw_send(r, &m);
        AWAIT(fake_pending(FAKE_WINDOW_CLOSE) == 1);
        fake_answer(fake_call(close_first ? FAKE_WINDOW_CLOSE : FAKE_WINDOW_REOPEN, -1), 0);
        fake_answer(fake_call(close_first ? FAKE_WINDOW_REOPEN : FAKE_WINDOW_CLOSE, -1), 0);
        cr_expect_eq(ended.calls, 1);
        answer(5, RDMAD_E_LEASE_REVOKED);
        answer(7, RDMAD_E_LEASE_REVOKED);
        cr_expect(raw_silent(r));
    }
}

Test(peer_keys, a_renewal_reaches_what_is_opened_later) {
    struct error err;
    attach(0);
    cr_assert_eq(lease_renew(l, 120000 * MS, &err), 0);
    raw_expect(r, PEER_MSG_RENEWED);
    ask(4);
    AWAIT(fake_pending(FAKE_WINDOW_OPEN) == 1);
    cr_expect_eq(fake_call(FAKE_WINDOW_OPEN, 0)->window.deadline_ns, l->deadline_ns);
    fake_answer_all();
    answer(4, 0);
}

Test(peer_keys, a_thief_gets_no_key) {
    attach(4);
    struct raw *thief = raw_greet(), *mine = r;
    const uint64_t guesses[] = {owner_ref, 0, 1, owner_ref + 1, UINT64_MAX};
    r = thief;
    for (unsigned i = 0; i < 5; i++) {
        owner_ref = guesses[i];
        ask(9);
    }
    cr_expect(raw_silent(thief));
    cr_expect_eq(fake_count(FAKE_WINDOW_REOPEN), 0);
    r = mine;
}

Test(peer_keys, a_connection_lost_with_an_opening_under_way_leaves_nothing) {
    attach(4);
    ask(5);
    ask(6);
    raw_close(r);
    AWAIT(fake_count(FAKE_EXPEL) == 1);
    cr_expect_eq(fake_pending(FAKE_WINDOW_CLOSE), 1);
    fake_answer_all();
    cr_expect_eq(l->attached, 0);
    cr_expect_eq(owner->account.used[QUOTA_REGISTERED], 0);
    AWAIT(peers_count(rig.st.peers) == 0);
}

static void offer_links(unsigned n) {
    struct peer_msg m = {.type = PEER_MSG_LINK_REQ};
    uint8_t frames[PEER_OFFERS_MAX * PEER_WIRE_MAX];
    size_t size = 0;
    for (unsigned i = 0; i < n; i++)
        size += peer_wire_encode(&m, frames + size);
    raw_bytes(r, frames, size);
    AWAIT(fake_pending(FAKE_OFFER) == n);
    fake_answer_all();
    for (unsigned i = 0; i < n; i++)
        raw_expect(r, PEER_MSG_LINK_REP);
}

Test(peer_keys, a_link_that_was_never_offered_is_not_forgotten) {
    struct peer_msg m = {.type = PEER_MSG_LINK_GONE, .link_gone.via = 4};
    attach(4);
    raw_send(r, &m);
    cr_expect(raw_silent(r));
    cr_expect_eq(fake_count(FAKE_FORGET), 0, "the data plane heard of it");
    offer_links(2);
    for (unsigned i = 0; i < 4; i++)
        raw_send(r, &m);
    AWAIT(fake_count(FAKE_FORGET) == 2);
    cr_expect(raw_silent(r));
    cr_expect_eq(fake_count(FAKE_FORGET), 2, "more than were offered");
    raw_close(r);
    AWAIT(fake_count(FAKE_EXPEL) == 1);
    fake_answer_all();
    AWAIT(peers_count(rig.st.peers) == 0);
}

Test(peer_keys, links_that_are_gone_are_forgotten_so_many_at_a_time) {
    struct peer_msg m = {.type = PEER_MSG_LINK_GONE, .link_gone.via = 4};
    attach(4);
    for (unsigned links = 0; links <= PEER_FORGETS_MAX; links += PEER_OFFERS_MAX)
        offer_links(PEER_OFFERS_MAX);
    for (unsigned i = 0; i < PEER_FORGETS_MAX + 5; i++) {
        raw_send(r, &m);
        if (i % 256 == 0)
            settle();
    }
    AWAIT(fake_pending(FAKE_FORGET) == PEER_FORGETS_MAX);
    m = (struct peer_msg){.type = PEER_MSG_LINK_REQ};
    raw_send(r, &m); /* offers are counted by themselves */
    AWAIT(fake_pending(FAKE_OFFER) == 1);
    cr_expect_eq(fake_call(FAKE_FORGET, 0)->number, 4);
    raw_close(r);
    AWAIT(fake_count(FAKE_EXPEL) == 1);
    fake_answer_all();
    AWAIT(peers_count(rig.st.peers) == 0);
}
