/* SPDX-License-Identifier: MIT */
/*
 * Places among the peers are shared by all users of this daemon, and by all who connect to it: what
 * one of them can take. There are 16, half of them for each direction.
 */
#include "daemon/peer/connect/room.h"
#include "tests/unit/lessee_steps.h"
#include <event2/event.h>
#include <sys/resource.h>
#include <unistd.h>

TestSuite(peer_shares, .init = up, .fini = down, .timeout = 60);

Test(peer_shares, one_uid_fills_at_most_half_of_the_places_to_dial) {
    struct session *first = s, *other = rig_session(4);
    for (int i = 0; i < 4; i++) { /* of 8 */
        listener = raw_listen(&uri.port);
        begin();
        raw_accept(listener);
    }
    cr_expect_eq(done.calls, 0, "all of them wait for hello");
    listener = raw_listen(&uri.port);
    begin();
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(done.code, RDMAD_E_LIMIT);
    cr_expect_not_null(strstr(done.text, "for uid 3"), "%s", done.text);
    s = other;
    begin();
    greet();
    rig_close(other);
    fake_answer_all();
    s = first;
}

Test(peer_shares, one_uid_fills_at_most_half_of_what_a_peer_gives) {
    struct session *mine[4] = {s, rig_session(3), rig_session(3), rig_session(3)};
    struct session *other = rig_session(4);
    for (unsigned i = 0; i < rig.config.max_peer_attaches / 2; i++) {
        s = mine[i % 4];
        begin();
    }
    cr_expect_eq(done.calls, 0, "all of them wait for hello");
    begin();
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(done.code, RDMAD_E_LIMIT);
    cr_expect_not_null(strstr(done.text, "uid 3 has 2048"), "%s", done.text);
    s = other;
    begin();
    cr_expect_eq(done.calls, 1, "another user goes on");
    for (unsigned i = 1; i < 4; i++)
        rig_close(mine[i]);
    rig_close(other);
    fake_answer_all();
    s = mine[0];
}

/* The same uid by a tenant's socket is another user. */
Test(peer_shares, a_tenant_has_places_to_dial_of_its_own_whatever_its_uid) {
    struct session *first = s, *tenant = rig_session(3);
    tenant->tenant = 2;
    for (int i = 0; i < 4; i++) {
        listener = raw_listen(&uri.port);
        begin();
        raw_accept(listener);
    }
    listener = raw_listen(&uri.port);
    begin();
    cr_expect_eq(done.code, RDMAD_E_LIMIT);
    s = tenant;
    begin();
    greet();
    rig_close(tenant);
    fake_answer_all();
    s = first;
}

Test(peer_shares, and_a_half_of_its_own_of_what_a_peer_gives) {
    struct session *tenants[4], *first = s;
    for (unsigned i = 0; i < 4; i++) {
        tenants[i] = rig_session(3);
        tenants[i]->tenant = 2;
    }
    for (unsigned i = 0; i < rig.config.max_peer_attaches / 2; i++) {
        s = tenants[i % 4];
        begin();
    }
    cr_expect_eq(done.calls, 0, "%s", done.text);
    begin();
    cr_expect_not_null(strstr(done.text, "uid 3 has 2048"), "%s", done.text);
    s = first;
    begin();
    cr_expect_eq(done.calls, 1, "who has the same uid elsewhere goes on: %s", done.text);
    for (unsigned i = 0; i < 4; i++)
        rig_close(tenants[i]);
    fake_answer_all();
}

static void listed(void *arg, const struct error *result, const struct rdmad_names_list_rep *rep) {
    (void)rep;
    rig_done(arg, result);
}

Test(peer_shares, and_a_half_of_its_own_of_the_questions_that_wait_at_a_peer) {
    struct session *tenant = rig_session(3);
    struct names_query q = {.timeout_ns = 60000 * MS};
    tenant->tenant = 2;
    listener = raw_listen(&q.port);
    strcpy(q.host, "127.0.0.1");
    for (unsigned i = 0; i < PEER_ASKS_MAX / 2; i++)
        peer_list(s, &q, listed, &done);
    cr_expect_eq(done.calls, 0, "%s", done.text);
    peer_list(s, &q, listed, &done);
    cr_expect_eq(done.calls, 1);
    cr_expect_not_null(strstr(done.text, "512 of uid 3"), "%s", done.text);
    peer_list(tenant, &q, listed, &done);
    cr_expect_eq(done.calls, 1, "who has the same uid elsewhere asks on: %s", done.text);
    rig_close(tenant);
    fake_answer_all();
}

/* ---- who connects ---------------------------------------------------------------------------- */

/* From 127.0.0.NUMBER, with a lease of ours. */
static struct raw *holder(struct lease *l, unsigned number) {
    char ip[16];
    snprintf(ip, sizeof(ip), "127.0.0.%u", number);
    struct raw *r = raw_greet_from(ip);
    raw_attach(r, l, 5, 3);
    return r;
}

static void expect_refused(const char *ip, const char *words) {
    struct raw *r = raw_dial_from(ip);
    struct peer_msg hello = raw_hello();
    raw_send(r, &hello);
    struct peer_msg m = raw_expect(r, PEER_MSG_BYE);
    cr_expect_eq(m.bye.code, RDMAD_E_LIMIT);
    cr_expect_not_null(strstr(m.bye.text, words), "%s", m.bye.text);
}

static bool is_up(struct raw *r) {
    return raw_silent(r);
}

Test(peer_shares, one_address_does_not_keep_others_out) {
    struct lease *l = rig_grant(s, 3600000);
    for (int i = 0; i < 4; i++) /* half of 8 */
        holder(l, 2);
    expect_refused("127.0.0.2", "connected to rig from 127.0.0.2");
    holder(l, 3);
    holder(l, 4);
    begin();
    cr_expect_eq(done.calls, 0, "we can dial: %s", done.text);
    greet();
}

/* Attackers of many addresses take all places of those who connect, and no others. */
Test(peer_shares, half_of_the_places_is_kept_for_whom_we_dial) {
    struct lease *l = rig_grant(s, 3600000);
    struct session *other = rig_session(4), *first = s;
    for (unsigned i = 0; i < 8; i++)
        holder(l, 2 + i);
    expect_refused("127.0.0.99", "half of peer.max is 8");
    for (int i = 0; i < 4; i++) {
        listener = raw_listen(&uri.port);
        begin();
        greet();
    }
    s = other;
    for (int i = 0; i < 2; i++) {
        listener = raw_listen(&uri.port);
        begin();
        greet();
    }
    cr_expect_eq(done.calls, 0, "%s", done.text);
    rig_close(other);
    s = first;
    fake_answer_all();
}

Test(peer_shares, whom_we_dial_keep_nobody_out_who_connects) {
    struct session *sessions[] = {s, rig_session(4), rig_session(5), rig_session(6)};
    for (int i = 0; i < 7; i++) {
        s = sessions[i < 4 ? 0 : i - 3];
        listener = raw_listen(&uri.port);
        begin();
        greet();
    }
    cr_expect_eq(done.calls, 0, "%s", done.text);
    for (int i = 0; i < 4; i++)
        raw_greet_from("127.0.0.2");
    for (int i = 1; i < 4; i++)
        rig_close(sessions[i]);
    s = sessions[0];
    fake_answer_all();
}

Test(peer_shares, the_address_that_has_most_gives_a_place_to_one_that_has_none) {
    struct lease *l = rig_grant(s, 3600000);
    struct raw *greedy[4], *modest[4];
    for (int i = 0; i < 4; i++)
        greedy[i] = holder(l, 2);
    for (unsigned i = 0; i < 4; i++)
        modest[i] = holder(l, 3 + i);
    struct raw *newcomer = raw_greet_from("127.0.0.99");
    struct peer_msg m = raw_expect(greedy[3], PEER_MSG_BYE);
    cr_expect_not_null(strstr(m.bye.text, "your address more of them"), "%s", m.bye.text);
    for (int i = 0; i < 3; i++)
        cr_expect(is_up(greedy[i]));
    for (int i = 0; i < 4; i++)
        cr_expect(is_up(modest[i]));
    cr_expect(is_up(newcomer));
    fake_answer_all();
}

Test(peer_shares, a_connection_that_nobody_uses_gives_its_place_first) {
    struct lease *l = rig_grant(s, 3600000);
    struct raw *greedy[4];
    for (int i = 0; i < 4; i++)
        greedy[i] = holder(l, 2);
    for (unsigned i = 0; i < 3; i++)
        holder(l, 3 + i);
    struct raw *idle = raw_greet_from("127.0.0.9");
    raw_greet_from("127.0.0.99");
    cr_expect_eq(raw_expect(idle, PEER_MSG_BYE).bye.code, RDMAD_OK);
    for (int i = 0; i < 4; i++)
        cr_expect(is_up(greedy[i]));
    fake_answer_all();
}

Test(peer_shares, who_is_slow_to_say_hello_is_not_locked_out_by_who_is_many) {
    struct raw *slow = raw_dial_from("127.0.0.9");
    struct peer_msg hello = raw_hello();
    for (unsigned i = 0; i < 3 * PEER_UNGREETED_MAX; i++)
        raw_dial_from("127.0.0.2");
    cr_expect_leq(peers_in_state("connecting"), PEER_UNGREETED_MAX);
    raw_send(slow, &hello);
    raw_expect(slow, PEER_MSG_HELLO);
}

/* ---- descriptors
 * --------------------------------------------------------------------------------- */

/* The number that the next one opened will have. */
static int next_descriptor(void) {
    int fd = dup(0);
    close(fd);
    return fd;
}

Test(peer_shares, the_last_descriptors_are_not_for_peers) {
    struct raw *idle = raw_greet_from("127.0.0.2"), *holds = holder(rig_grant(s, 3600000), 3);
    struct peer_msg hello = raw_hello();
    rig.st.descriptors = (uint64_t)next_descriptor();
    struct raw *r = raw_dial_from("127.0.0.4");
    cr_expect(raw_eof(r), "it was let in");
    cr_expect_not_null(strstr(raw_expect(idle, PEER_MSG_BYE).bye.text, "few descriptors"));
    cr_expect(is_up(holds));
    rig.st.descriptors = 4; /* the idle one has left a place */
    begin();
    failed(RDMAD_E_UNREACHABLE, "Too many open files");
    rig.st.descriptors = 0; /* somebody has closed some */
    r = raw_dial_from("127.0.0.4");
    rig_advance(101 * MS);
    raw_send(r, &hello);
    raw_expect(r, PEER_MSG_HELLO);
    fake_answer_all();
}

Test(peer_shares, when_descriptors_run_out_an_idle_peer_goes_and_the_next_gets_in) {
    struct peer_msg hello = raw_hello();
    struct rlimit was, few;
    getrlimit(RLIMIT_NOFILE, &was);
    few = was;
    few.rlim_cur = 256;
    setrlimit(RLIMIT_NOFILE, &few);
    struct raw *idle = raw_greet_from("127.0.0.2");
    raw_greet_from("127.0.0.3");
    struct raw *r = raw_dial_unheard("127.0.0.4");
    while (dup(0) >= 0)
        ;
    settle();
    cr_expect_not_null(strstr(raw_expect(idle, PEER_MSG_BYE).bye.text, "few descriptors"));
    rig_advance(101 * MS);
    raw_send(r, &hello);
    raw_expect(r, PEER_MSG_HELLO);
    setrlimit(RLIMIT_NOFILE, &was);
}

Test(peer_shares, a_turn_of_the_loop_takes_in_so_many_strangers) {
    for (unsigned i = 0; i < 40; i++)
        raw_dial_unheard("127.0.0.2");
    event_base_loop(rig.st.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    cr_expect_eq(peers_count(rig.st.peers), 8);
    AWAIT(peers_count(rig.st.peers) == 40);
}
