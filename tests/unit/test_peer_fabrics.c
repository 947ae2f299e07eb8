/* SPDX-License-Identifier: MIT */
/*
 * By which fabric two daemons reach each other: the best that both offer, said where it is not
 * ours; none in common is refused in words. And all that is then asked of the data plane for a peer
 * is asked of the fabric that was agreed on with it.
 */
#include "tests/unit/lessee_steps.h"

static bool atomics_are_the_devices(struct fabric_host *host) {
    (void)host;
    return false;
}
static const struct fabric_ops verbs = {.name = "verbs",
                                        .atomics_are_cpus = atomics_are_the_devices};
static const struct fabric_ops tcp = {.name = "tcp"};

static void both_up(void) {
    up();
    fake_fabrics[0] = &verbs;
    fake_fabrics[1] = &tcp;
}

TestSuite(peer_fabrics, .init = both_up, .fini = down, .timeout = 60);

/* What a daemon says that offers these, best first; "" ends them. */
static struct peer_msg hello_of(const char *first, const char *second, const char *why_no_more) {
    struct peer_msg m = raw_hello();
    memset(m.hello.fabrics, 0, sizeof(m.hello.fabrics));
    strcpy(m.hello.fabrics[0], first);
    strcpy(m.hello.fabrics[1], second);
    strcpy(m.hello.why_no_more, why_no_more);
    return m;
}

/* ---- what is agreed on -------------------------------------------------------------------------
 */

static struct peer_view seen;

static void note_up(void *arg, const struct peer_view *v) {
    unsigned *n = arg;
    if (strcmp(v->state, "up") != 0)
        return;
    seen = *v;
    ++*n;
}

static void expect_seen(const char *fabric, const char *why) {
    unsigned n = 0;
    peers_view(rig.st.peers, note_up, &n);
    cr_assert_eq(n, 1);
    cr_expect_str_eq(seen.fabric, fabric);
    cr_expect(*why ? strstr(seen.fabric_why, why) != NULL : !*seen.fabric_why, "\"%s\"",
              seen.fabric_why);
    cr_expect_eq(peers_fallen_back(rig.st.peers), *why != '\0');
}

static void we_offer(const struct fabric_ops *first, const struct fabric_ops *second,
                     const char *why_no_more) {
    fake_fabrics[0] = first;
    fake_fabrics[1] = second;
    strcpy(rig.st.fabric_why_no_more, why_no_more);
}

static const struct agreed {
    const struct fabric_ops *ours[2];
    const char *theirs[2], *fabric, *why;
} agreed[] = {
    {{&verbs, &tcp}, {"verbs", "tcp"}, "verbs", ""},
    {{&verbs, &tcp}, {"tcp", "verbs"}, "verbs", ""}, /* the best is ours to say */
    {{&verbs, &tcp}, {"verbs", ""}, "verbs", ""},
    {{&verbs}, {"verbs", "tcp"}, "verbs", ""},
    {{&verbs}, {"verbs", ""}, "verbs", ""},
    {{&verbs, &tcp}, {"tcp", ""}, "tcp", "it does not offer verbs: no device there"},
    {{&tcp}, {"verbs", "tcp"}, "tcp", ""},
    {{&tcp}, {"tcp", ""}, "tcp", ""},
};

Test(peer_fabrics, who_dials_us_is_reached_by_the_best_that_both_offer) {
    for (unsigned i = 0; i < sizeof(agreed) / sizeof(agreed[0]); i++) {
        const struct agreed *a = &agreed[i];
        struct peer_msg hello = hello_of(a->theirs[0], a->theirs[1], "no device there");
        we_offer(a->ours[0], a->ours[1], "as it is");
        struct raw *r = raw_dial();
        raw_send(r, &hello);
        struct peer_msg m = raw_expect(r, PEER_MSG_HELLO);
        cr_expect_str_eq(m.hello.fabrics[0], a->ours[0]->name);
        cr_expect_str_eq(m.hello.fabrics[1], a->ours[1] ? a->ours[1]->name : "");
        cr_expect_str_eq(m.hello.why_no_more, "as it is");
        expect_seen(a->fabric, a->why);
        raw_close(r);
        AWAIT(fake_pending(FAKE_EXPEL) == 1);
        cr_expect_str_eq(fake_fabrics[fake_call(FAKE_EXPEL, -1)->fabric]->name, a->fabric, "%u", i);
        fake_answer_all();
        AWAIT(peers_count(rig.st.peers) == 0);
    }
}

Test(peer_fabrics, whom_we_dial_is_reached_by_the_best_that_both_offer) {
    for (unsigned i = 0; i < sizeof(agreed) / sizeof(agreed[0]); i++) {
        const struct agreed *a = &agreed[i];
        struct peer_msg hello = hello_of(a->theirs[0], a->theirs[1], "no device there");
        we_offer(a->ours[0], a->ours[1], "");
        peer_add(rig.st.peers, "127.0.0.1", uri.port, rig_done, &done);
        struct raw *r = raw_accept(listener);
        raw_expect(r, PEER_MSG_HELLO);
        raw_send(r, &hello);
        AWAIT(done.calls == i + 1);
        cr_expect_eq(done.code, 0, "%s", done.text);
        expect_seen(a->fabric, a->why);
        raw_close(r);
        AWAIT(peers_count(rig.st.peers) == 0);
    }
}

/* ---- none in common
 * ------------------------------------------------------------------------------ */

static const struct refused {
    const struct fabric_ops *ours;
    const char *our_why, *theirs, *their_why;
    const char *words[4];
} refused[] = {
    /* Who forbids it is named, with what to change there: we, */
    {&verbs,
     "require_rdma is true",
     "tcp",
     "the setting fabric is \"tcp\"",
     {"raw at 127.0.0.1", "offers only tcp: the setting fabric is \"tcp\"",
      "rig only verbs: require_rdma is true",
      "have raw use RDMA, or let rig fall back to tcp (peer.fallback_tcp"}},
    /* or it. */
    {&tcp,
     "no device here",
     "verbs",
     "peer.fallback_tcp is false",
     {"raw at 127.0.0.1", "offers only verbs: peer.fallback_tcp is false",
      "rig only tcp: no device here",
      "have rig use RDMA, or let raw fall back to tcp (peer.fallback_tcp"}},
};

static void expect_words(const char *text, const struct refused *c) {
    for (unsigned i = 0; i < 4; i++)
        cr_expect(strstr(text, c->words[i]), "\"%s\" does not say \"%s\"", text, c->words[i]);
}

Test(peer_fabrics, who_dials_us_and_has_none_of_ours_is_told_who_offers_what_and_what_to_change) {
    for (unsigned i = 0; i < 2; i++) {
        struct peer_msg hello = hello_of(refused[i].theirs, "", refused[i].their_why);
        we_offer(refused[i].ours, NULL, refused[i].our_why);
        struct raw *r = raw_dial();
        raw_send(r, &hello);
        struct peer_msg m = raw_expect(r, PEER_MSG_BYE);
        cr_expect_eq(m.bye.code, RDMAD_E_FABRIC);
        expect_words(m.bye.text, &refused[i]);
        cr_expect(raw_eof(r));
        AWAIT(peers_count(rig.st.peers) == 0);
        cr_expect_eq(fake_count(FAKE_EXPEL), 0, "it never was up");
    }
}

Test(peer_fabrics, whom_we_dial_and_who_has_none_of_ours_is_refused_in_the_same_words) {
    for (unsigned i = 0; i < 2; i++) {
        struct peer_msg hello = hello_of(refused[i].theirs, "", refused[i].their_why);
        we_offer(refused[i].ours, NULL, refused[i].our_why);
        memset(&done, 0, sizeof(done));
        begin();
        struct raw *r = raw_accept(listener);
        raw_expect(r, PEER_MSG_HELLO);
        raw_send(r, &hello);
        failed(RDMAD_E_FABRIC, refused[i].words[3]);
        expect_words(done.text, &refused[i]);
        struct peer_msg m = raw_expect(r, PEER_MSG_BYE);
        expect_words(m.bye.text, &refused[i]);
        AWAIT(peers_count(rig.st.peers) == 0);
    }
}

/* ---- from then on
 * ---------------------------------------------------------------------------------- */

static struct raw *greet_over(const char *first, const char *second) {
    struct peer_msg hello = hello_of(first, second, "");
    struct raw *r = raw_dial();
    raw_send(r, &hello);
    raw_expect(r, PEER_MSG_HELLO);
    return r;
}

static void ask(struct raw *r, const struct lease *l, uint64_t ref) {
    struct peer_msg m = raw_attach_req(l, ref, 3);
    raw_send(r, &m);
}

static struct peer_attach_rep attach(struct raw *r, const struct lease *l, unsigned fabric) {
    struct peer_attach_rep rep = raw_attach(r, l, 5, 3);
    cr_expect_eq(fake_call(FAKE_WINDOW_OPEN, -1)->fabric, fabric);
    return rep;
}

/* With its leases, and nobody who attached to them answers. */
static void owner_goes(struct session *owner) {
    rig_close(owner);
    rig_advance(rig.config.lease_revoke_grace_ms * MS);
    fake_answer_all();
}

Test(peer_fabrics, windows_links_and_the_end_of_a_lessees_daemon_are_of_its_fabric) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 600000);
    for (unsigned fabric = 0; fabric < 2; fabric++) {
        struct raw *r = greet_over(fabric ? "tcp" : "verbs", "");
        attach(r, l, fabric);
        struct peer_msg m = {.type = PEER_MSG_LINK_REQ,
                             .link_req = {.ref = 1, .worker = PEER_ANY_WORKER}};
        raw_send(r, &m);
        AWAIT(fake_count(FAKE_OFFER) == fabric + 1);
        cr_expect_eq(fake_call(FAKE_OFFER, -1)->fabric, fabric);
        fake_answer(fake_call(FAKE_OFFER, -1), 0);
        raw_expect(r, PEER_MSG_LINK_REP);
        m = (struct peer_msg){.type = PEER_MSG_LINK_GONE, .link_gone.via = 9};
        raw_send(r, &m);
        AWAIT(fake_count(FAKE_FORGET) == fabric + 1);
        cr_expect_eq(fake_call(FAKE_FORGET, -1)->fabric, fabric);
        raw_close(r);
        AWAIT(fake_count(FAKE_EXPEL) == fabric + 1);
        cr_expect_eq(fake_call(FAKE_EXPEL, -1)->fabric, fabric);
        fake_answer_all();
        AWAIT(peers_count(rig.st.peers) == 0);
    }
    rig_close(owner);
    fake_answer_all();
}

Test(peer_fabrics, lanes_of_a_lessee_are_of_its_owners_fabric_and_its_client_is_told) {
    begin();
    struct raw *r = raw_accept(listener);
    struct peer_msg hello = hello_of("tcp", "", "");
    raw_expect(r, PEER_MSG_HELLO);
    raw_send(r, &hello);
    uint64_t ref = asked(r);
    grant(r, ref, 60000);
    AWAIT(fake_count(FAKE_LANE_NEW) == 1);
    cr_expect_eq(fake_call(FAKE_LANE_NEW, 0)->fabric, 1);
    link_and_key(r, ref);
    fake_answer(fake_call(FAKE_LEASE_ADD, -1), 0);
    cr_assert_eq(done.code, 0, "%s", done.text);
    cr_expect_str_eq(h->fabric, "tcp");
    /* A link that breaks is made anew by the same, whatever there is besides. */
    struct error why = {.code = RDMAD_E_PEER_LOST, .text = "it broke"};
    peers_lane_lost(rig.st.peers, fake_call(FAKE_LANE_NEW, 0)->cookie, &why);
    rig_advance(PEER_RETRY_MAX_NS);
    AWAIT(fake_count(FAKE_LANE_HELLO) == 2);
    cr_expect_eq(fake_count(FAKE_LANE_NEW), 1);
}

/* Nothing comes of the link that was offered, as if a firewall threw away what is sent there. */
static void link_in_vain(const char *fabric, const char *words) {
    unsigned peers = 0;
    begin();
    struct raw *r = raw_accept(listener);
    struct peer_msg hello = hello_of(fabric, "", "");
    raw_expect(r, PEER_MSG_HELLO);
    raw_send(r, &hello);
    grant(r, asked(r), 60000);
    offer(r, link_asked(r));
    peers_view(rig.st.peers, note_up, &peers);
    cr_assert_eq(peers, 1);
    rig_advance(5000 * MS);
    failed(RDMAD_E_TIMEOUT, words);
}

Test(peer_fabrics, a_data_port_that_does_not_answer_is_named) {
    link_in_vain("tcp", "opening a link to the daemon at 127.0.0.1:");
    cr_expect(strstr(done.text, "its data port has not answered (tcp.data_port; a firewall?)"),
              "%s", done.text);
}

Test(peer_fabrics, a_link_without_a_data_port_is_only_late) {
    link_in_vain("verbs", "opening a link to it; try again or allow more time");
}

/* It was here over one fabric, and comes back with another. */
Test(peer_fabrics, what_is_left_of_a_former_life_ends_on_the_fabric_that_it_had) {
    uint8_t secret[HASH_BYTES] = {1};
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 600000);
    struct peer_msg first = hello_of("verbs", "tcp", ""), second = hello_of("tcp", "", "");
    life_make(secret, 1, &first.hello.life);
    life_make(secret, 2, &second.hello.life);
    struct raw *old = raw_dial();
    raw_send(old, &first);
    raw_expect(old, PEER_MSG_HELLO);
    attach(old, l, 0);
    struct raw *new = raw_dial();
    raw_send(new, &second);
    AWAIT(fake_pending(FAKE_WINDOW_CLOSE) == 1 && fake_pending(FAKE_EXPEL) == 1);
    cr_expect_eq(fake_call(FAKE_EXPEL, -1)->fabric, 0);
    cr_expect(raw_silent(new));
    fake_answer_all();
    raw_expect(new, PEER_MSG_HELLO);
    attach(new, l, 1);
    owner_goes(owner);
}

/* ---- atomics
 * ------------------------------------------------------------------------------------------ */

static struct lease *grant_rights(struct session *owner, uint32_t rights) {
    struct lease_terms t = rig_terms(600000);
    t.rights = rights;
    return rig_grant_terms(owner, &t);
}

Test(peer_fabrics, atomics_that_would_not_be_atomic_with_the_devices_are_not_given) {
    struct session *owner = rig_session(1);
    const uint32_t rights = RDMAD_RIGHT_WRITE | RDMAD_RIGHT_ATOMIC;
    struct lease *l = grant_rights(owner, rights), *only = grant_rights(owner, RDMAD_RIGHT_ATOMIC);
    struct raw *device = greet_over("verbs", "tcp"), *cpu = greet_over("tcp", "");

    struct peer_attach_rep rep = attach(device, l, 0);
    cr_expect(rep.rights == rights && !rep.text[0]);
    rep = attach(cpu, l, 1);
    cr_expect_eq(rep.rights, RDMAD_RIGHT_WRITE);
    cr_expect_eq(fake_call(FAKE_WINDOW_OPEN, -1)->window.rights, RDMAD_RIGHT_WRITE);
    cr_expect(strstr(rep.text, "no atomics over tcp") && strstr(rep.text, "verbs"), "%s", rep.text);

    unsigned opens = fake_count(FAKE_WINDOW_OPEN);
    ask(cpu, only, 6); /* nothing would be left */
    struct peer_msg m = raw_expect(cpu, PEER_MSG_ATTACH_REP);
    cr_expect_eq(m.attach_rep.status, RDMAD_E_UNSUPPORTED);
    cr_expect_not_null(strstr(m.attach_rep.text, "no atomics over tcp"), "%s", m.attach_rep.text);
    cr_expect_eq(fake_count(FAKE_WINDOW_OPEN), opens);
    cr_expect_eq(only->attached, 0);
    owner_goes(owner);
}

/* The right to delegate is one to nothing then. */
Test(peer_fabrics, where_the_right_to_delegate_alone_would_be_left_no_window_is_opened) {
    struct session *owner = rig_session(1);
    struct lease *l = grant_rights(owner, RDMAD_RIGHT_ATOMIC | RDMAD_RIGHT_DELEGATE);
    struct raw *cpu = greet_over("tcp", "");
    ask(cpu, l, 6);
    AWAIT(fake_count(FAKE_WINDOW_OPEN) || !l->attached);
    cr_assert_eq(fake_count(FAKE_WINDOW_OPEN), 0, "a window is opened with rights 0x%x",
                 fake_call(FAKE_WINDOW_OPEN, -1)->window.rights);
    struct peer_msg m = raw_expect(cpu, PEER_MSG_ATTACH_REP);
    cr_expect_eq(m.attach_rep.status, RDMAD_E_UNSUPPORTED);
    cr_expect_not_null(strstr(m.attach_rep.text, "no atomics over tcp"), "%s", m.attach_rep.text);
    cr_expect_eq(l->attached, 0);
    owner_goes(owner);
}

Test(peer_fabrics, atomics_of_the_cpu_are_given_over_either) {
    struct session *owner = rig_session(1);
    struct lease *l = grant_rights(owner, RDMAD_RIGHT_ATOMIC);
    we_offer(&tcp, &fake_fabric, ""); /* both say that they are the CPU's */
    struct raw *r = greet_over("fake", "");
    cr_expect_eq(attach(r, l, 1).rights, RDMAD_RIGHT_ATOMIC);
    fake_atomics_are_cpus = false; /* now the second's are not */
    ask(r, l, 7);
    cr_expect_eq(raw_expect(r, PEER_MSG_ATTACH_REP).attach_rep.status, RDMAD_E_UNSUPPORTED);
    owner_goes(owner);
}
