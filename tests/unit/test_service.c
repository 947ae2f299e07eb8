/* SPDX-License-Identifier: MIT */
/*
 * Services: names are taken once, who waits is bounded and charged, and is told when it comes to
 * nothing.
 */
#include "daemon/state/late_event.h"
#include "tests/unit/channel_steps.h"
#include <time.h>

static struct session *s, *other;

static void up(void) {
    rig_up();
    s = rig_session(1000);
    other = rig_session(2000);
}

static void down(void) {
    if (!s->closing)
        rig_close(s);
    if (!other->closing)
        rig_close(other);
    fake_answer_all();
    cr_expect(rig_closed(s));
    cr_expect(rig_closed(other));
    cr_expect_eq(rig.st.quota.total.used[QUOTA_SERVICES], 0);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_CHANNELS], 0);
    rig_down();
}

TestSuite(service, .init = up, .fini = down);

/* Somebody who connects from a peer, in so far as a service sees him. */
struct stranger {
    struct incoming in;
    struct rig_done refused;
    unsigned accepted;
};

static void accept_stranger(struct incoming *in, struct channel *end, uint64_t timeout_ns) {
    static const struct error none = {.code = RDMAD_E_CANCELED};
    (void)timeout_ns;
    container_of(in, struct stranger, in)->accepted++;
    channel_fail(end, &none);
}

static void refuse_stranger(struct incoming *in, const struct error *why) {
    rig_done(&container_of(in, struct stranger, in)->refused, why);
}

static const struct incoming_ops stranger_ops = {accept_stranger, refuse_stranger};

static int dial_from(struct service *sv, struct stranger *who, uint64_t peer, const char *address,
                     struct error *err) {
    struct lessee lessee = {.peer = peer, .address = address};
    *who = (struct stranger){.in = {.uid = 7, .peer = peer, .ops = &stranger_ops}};
    list_init(&who->in.node);
    strcpy(who->in.node_name, "far");
    snprintf(who->in.address, sizeof(who->in.address), "%s:7471", address);
    return service_offer(sv, &lessee, &who->in, err);
}

/* Each peer of an address of its own. */
static int dial(struct service *sv, struct stranger *who, uint64_t peer, struct error *err) {
    char address[16];
    snprintf(address, sizeof(address), "10.0.0.%u", (unsigned)peer);
    return dial_from(sv, who, peer, address, err);
}

static void refused(const struct service_terms *t, int code, const char *words) {
    struct service *sv;
    struct error err = {0};
    cr_expect_eq(service_listen(s, t, &sv, &err), code, "%s", err.text);
    cr_expect_not_null(strstr(err.text, words), "%s", err.text);
}

Test(service, a_name_is_of_one_service_or_lease) {
    struct service_terms t = service_terms("rpc");
    struct lease_terms published = rig_terms(1000);
    struct error err = {0};
    struct lease *l;
    service_up(other, "rpc", 0);
    refused(&t, RDMAD_E_EXISTS, "rpc");
    strcpy(published.name, "rpc");
    cr_expect_eq(lease_grant(rig_pool(s), &published, &l, &err), RDMAD_E_EXISTS, "%s", err.text);

    strcpy(published.name, "board");
    l = rig_grant_terms(other, &published);
    t = service_terms("board");
    refused(&t, RDMAD_E_EXISTS, "board");
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    fake_answer_all();
    service_close(service_up(s, "board", 0));
    service_close(service_up(s, "board", 0));
}

Test(service, who_mistakes_a_service_for_a_lease_is_told) {
    struct rdmad_uri uri = {.name = "rpc"};
    struct service *sv;
    struct lease *l;
    struct error err = {0};
    struct lease_terms published = rig_terms(1000);
    service_up(s, "rpc", 0);
    cr_expect_neq(lease_find(rig.st.leases, &uri, &l, &err), 0);
    cr_expect_not_null(strstr(err.text, "service"), "%s", err.text);

    strcpy(published.name, "board");
    rig_grant_terms(s, &published);
    cr_expect_eq(service_find(&rig.st, "board", &sv, &err), RDMAD_E_NO_SERVICE);
    cr_expect_not_null(strstr(err.text, "attach to it"), "%s", err.text);
    cr_expect_eq(service_find(&rig.st, "nothing", &sv, &err), RDMAD_E_NO_SERVICE);
    cr_expect_not_null(strstr(err.text, " at rig;"), "who asks may be elsewhere: %s", err.text);
    cr_expect_not_null(strstr(err.text, "\"nothing\""), "%s", err.text);
}

Test(service, terms_that_make_no_sense_are_refused_in_words) {
    struct service_terms t = service_terms("../x");
    refused(&t, RDMAD_E_NAME, "../x");
    t = service_terms("x");
    t.backlog = SERVICE_BACKLOG_MAX + 1;
    refused(&t, RDMAD_E_INVAL, "1025");
    t = service_terms("x");
    t.scope = 9;
    refused(&t, RDMAD_E_INVAL, "scope 9");
    t = service_terms("x");
    t.max_request = 4096;
    refused(&t, RDMAD_E_INVAL, "budget");
    rig.st.stopping = true;
    t = service_terms("x");
    refused(&t, RDMAD_E_SHUTDOWN, "stopping");
    rig.st.stopping = false;
    rig.st.quota.limits.session[QUOTA_SERVICES] = 0;
    refused(&t, RDMAD_E_LIMIT, "limits.services_per_session");
}

Test(service, its_uri_names_this_daemon_and_it) {
    char uri[RDMAD_URI_MAX + 1];
    service_uri(service_up(s, "rpc", 0), uri);
    cr_expect_str_eq(uri, "rdmad://127.0.0.1:7471/rpc");
}

Test(service, the_acceptor_sees_who_connects) {
    struct service *sv = service_up(s, "rpc", 0);
    static struct stranger who;
    cr_assert_eq(dial(sv, &who, 5, NULL), 0);
    const struct rig_event *ev = rig_last_event(s);
    cr_expect_eq(ev->type, RDMAD_EV_CHANNEL_INCOMING);
    cr_expect_eq(ev->service, sv->number);
    cr_expect_eq(ev->uid, 7);
    cr_expect_str_eq(ev->node, "far");
    cr_expect_str_eq(ev->address, "10.0.0.5:7471");
    cr_expect_eq(service_incoming(sv, ev->handle), &who.in);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_CHANNELS], 1);

    struct rig_done done = {0};
    incoming_accept(&who.in, end_of(s, &done), 1);
    cr_expect_eq(who.accepted, 1);
    cr_expect_null(service_incoming(sv, ev->handle));
}

Test(service, a_scope_keeps_others_out) {
    struct service_terms t = service_terms("rpc");
    static struct stranger who;
    struct service *sv;
    struct error err = {0};
    t.scope = RDMAD_SCOPE_PEER;
    strcpy(t.scope_peer, "10.0.0.2");
    cr_assert_eq(service_listen(s, &t, &sv, NULL), 0);
    cr_expect_eq(dial(sv, &who, 5, &err), RDMAD_E_SCOPE);
    cr_expect_not_null(strstr(err.text, "service \"rpc\" is for"), "%s", err.text);
}

Test(service, the_backlog_is_a_bound_and_says_so) {
    struct service *sv = service_up(s, "rpc", 2);
    static struct stranger who[3];
    struct error err = {0};
    cr_assert_eq(dial(sv, &who[0], 5, NULL), 0);
    cr_assert_eq(dial(sv, &who[1], 5, NULL), 0);
    cr_expect_eq(dial(sv, &who[2], 5, &err), RDMAD_E_LIMIT);
    cr_expect_not_null(strstr(err.text, "2 connections wait for service \"rpc\""), "%s", err.text);
    incoming_withdraw(&who[0].in);
    cr_expect_eq(rig_last_event(s)->type, RDMAD_EV_INCOMING_GONE);
    cr_expect_eq(dial(sv, &who[2], 5, NULL), 0, "there is room again");
}

Test(service, one_peer_that_fills_the_backlog_keeps_nobody_out) {
    struct service *sv = service_up(s, "rpc", 4);
    static struct stranger greedy[4], modest, second, third;
    struct error err = {0};
    for (int i = 0; i < 4; i++)
        cr_assert_eq(dial(sv, &greedy[i], 5, NULL), 0);
    cr_expect_eq(dial(sv, &modest, 6, &err), 0, "%s", err.text);
    cr_expect_eq(greedy[3].refused.calls, 1, "its last one made room");
    cr_expect_eq(greedy[3].refused.code, RDMAD_E_LIMIT);
    cr_expect_eq(dial(sv, &second, 6, &err), 0, "each has two now");
    cr_expect_eq(dial(sv, &third, 6, &err), RDMAD_E_LIMIT, "and no more");
    cr_expect_eq(greedy[0].refused.calls + greedy[1].refused.calls, 0);
    cr_expect_eq(sv->waiting, 4);
}

Test(service, one_address_that_fills_the_backlog_by_many_connections_keeps_nobody_out) {
    struct service *sv = service_up(s, "rpc", 4);
    static struct stranger greedy[4], modest[2], seven;
    struct error err = {0};
    for (unsigned i = 0; i < 4; i++) { /* a host has all addresses of its network */
        char address[32];
        snprintf(address, sizeof(address), "2001:db8::%u", 1 + i);
        cr_assert_eq(dial_from(sv, &greedy[i], 5 + i, address, NULL), 0);
    }
    cr_expect_eq(dial_from(sv, &modest[0], 20, "2001:db8:0:1::1", &err), 0, "%s", err.text);
    cr_expect_eq(greedy[3].refused.calls, 1, "its last one made room");
    cr_expect_eq(dial_from(sv, &modest[1], 21, "10.0.0.1", &err), 0, "%s", err.text);
    cr_expect_eq(greedy[2].refused.calls, 1);
    cr_expect_eq(dial_from(sv, &seven, 22, "2001:db8::7", &err), RDMAD_E_LIMIT);
    service_close(sv);
}

/* Each dial of a full backlog is judged; a flood of them must not cost the square of its length.
 */
Test(service, a_full_backlog_is_cheap_to_dial) {
    static struct stranger waiting[SERVICE_BACKLOG_MAX], more;
    struct service *sv = service_up(s, "rpc", SERVICE_BACKLOG_MAX);
    struct timespec before, after;
    struct error err;
    rig.lags = true; /* the owner hears of them later */
    for (unsigned i = 0; i < SERVICE_BACKLOG_MAX; i++)
        cr_assert_eq(dial(sv, &waiting[i], 1 + i % 3, &err), 0, "%s", err.text);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    for (unsigned i = 0; i < 5000; i++)
        cr_assert_eq(dial(sv, &more, 1 + i % 3, &err), RDMAD_E_LIMIT);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    cr_expect_lt(after.tv_sec - before.tv_sec, 2);
    service_close(sv);
}

Test(service, what_a_service_says_to_who_it_refuses_is_one_line) {
    struct service *sv = service_up(s, "rpc", 0);
    struct stranger who;
    struct error err, why;
    cr_assert_eq(dial(sv, &who, 3, &err), 0);
    error_set(&why, RDMAD_E_REFUSED, "go\naway \033[2J\x7f");
    incoming_refuse(&who.in, &why);
    cr_expect_str_eq(who.refused.text, "go?away ?[2J?");
}

Test(service, who_waits_counts_as_a_channel_of_its_session) {
    struct service *sv = service_up(s, "rpc", 8);
    static struct stranger who[2];
    struct error err = {0};
    rig.st.quota.limits.session[QUOTA_CHANNELS] = 1;
    cr_assert_eq(dial(sv, &who[0], 5, NULL), 0);
    cr_expect_eq(dial(sv, &who[1], 5, &err), RDMAD_E_LIMIT);
    cr_expect_not_null(strstr(err.text, "limits.channels_per_session"), "%s", err.text);
}

Test(service, who_waits_can_be_accepted_when_those_who_wait_are_all_that_the_session_may_have) {
    struct service *sv = service_up(s, "rpc", 8);
    static struct stranger who[2];
    struct rig_done done = {0};
    rig.st.quota.limits.session[QUOTA_CHANNELS] = 2;
    cr_assert_eq(dial(sv, &who[0], 5, NULL), 0);
    cr_assert_eq(dial(sv, &who[1], 6, NULL), 0);
    incoming_give_place(waiting(sv));
    incoming_accept(waiting(sv), end_of(s, &done), 1000 * MS);
    cr_expect_eq(who[0].accepted, 1);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_CHANNELS], 1, "the other waits");
}

Test(service, who_waits_is_refused_when_it_closes) {
    struct service *sv = service_up(s, "rpc", 0);
    static struct stranger who;
    cr_assert_eq(dial(sv, &who, 5, NULL), 0);
    service_close(sv);
    cr_expect_eq(who.refused.calls, 1);
    cr_expect_eq(who.refused.code, RDMAD_E_NO_SERVICE);
    cr_expect_not_null(strstr(who.refused.text, "closed"), "%s", who.refused.text);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_CHANNELS], 0);
}

Test(service, who_waits_is_refused_when_its_session_ends) {
    static struct stranger who;
    cr_assert_eq(dial(service_up(s, "rpc", 0), &who, 5, NULL), 0);
    rig_close(s);
    cr_expect_eq(who.refused.calls, 1);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_SERVICES], 0);
}

Test(service, a_client_that_does_not_read_is_not_flooded_by_strangers) {
    struct service *sv = service_up(s, "rpc", 4);
    static struct stranger stays, comes;
    rig.lags = true;
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(dial(sv, &comes, 5, NULL), 0);
        incoming_withdraw(&comes.in);
    }
    cr_assert_eq(dial(sv, &stays, 5, NULL), 0);
    cr_expect_eq(rig.nevents, 0);
    rig.lags = false;
    session_tell_late(s);
    session_tell_late(s);
    cr_expect_eq(rig.nevents, 1, "of the one that still waits, once");
    cr_expect_eq(rig_last_event(s)->handle, stays.in.number);
}
