/* SPDX-License-Identifier: MIT */
/*
 * A peer that does not read for a while: whoever asks of it without pause is told to wait, and the
 * connection, on which everybody's leases and channels depend, stays.
 */
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/transport.h"
#include "daemon/peer/tables.h"
#include "daemon/state/delegate.h"
#include "tests/unit/channel_steps.h"
#include "tests/unit/lessee_steps.h"

enum { OUTPUT_MAX = 256 * 1024, QUESTIONS_MAX = OUTPUT_MAX / 4, MANY = 40000 };

TestSuite(peer_unread, .init = up, .fini = down, .timeout = 60);

static uint64_t lease_ref;

static struct peer *the_peer(void) {
    return list_entry(rig.st.peers->all.next, struct peer, node);
}

static size_t waits(void) {
    return transport_unsent(the_peer()->way);
}

/* The kernel takes no more for who does not read. */
static void fill(void) {
    struct peer_msg ping = {.type = PEER_MSG_PING};
    size_t before = 0;
    for (unsigned i = 0; i < 20000 && (!before || before != waits()); i++) {
        before = waits();
        if (!before)
            for (unsigned k = 0; k < 100; k++)
                peer_send(the_peer(), &ping);
        quiet();
    }
    cr_assert_gt(before, 0, "the kernel takes all");
}

/* A lease of s is live there. */
static struct raw *attached_there(void) {
    int little = 4096;
    rig.config.peer_ping_ms = rig.config.peer_dead_ms = 600000;
    struct raw *r = attached(60000, &lease_ref);
    the_peer()->output_max = OUTPUT_MAX;
    setsockopt(transport_socket(the_peer()->way), SOL_SOCKET, SO_SNDBUF, &little, sizeof(little));
    fill();
    return r;
}

static bool reads(struct raw *r) {
    char bytes[65536];
    while (recv(r->fd, bytes, sizeof(bytes), 0) > 0) {
    }
    return true;
}

static bool reads_some(struct raw *r) {
    char bytes[4096];
    (void)recv(r->fd, bytes, sizeof(bytes), 0);
    return true;
}

static void reads_all(struct raw *r) {
    AWAIT(reads(r) && !waits());
    reads(r);
}

/* ---- questions, given up as soon as they are asked ---- */

static void delegated(void *arg, const struct error *result,
                      const struct rdmad_lease_grant_rep *rep) {
    (void)rep;
    rig_done(arg, result);
}

static void listed(void *arg, const struct error *result, const struct rdmad_names_list_rep *rep) {
    (void)rep;
    rig_done(arg, result);
}

static struct names_query query(void) {
    struct names_query q = {.port = uri.port, .timeout_ns = 1};
    strcpy(q.host, "127.0.0.1");
    return q;
}

static void asks_for_names(struct session *who, struct rig_done *told) {
    struct names_query q = query();
    peer_list(who, &q, listed, told);
}

static void asks_for_a_part(struct session *who, struct rig_done *told) {
    const struct lease_part part = {.length = 16, .ttl_ns = 1000, .rights = RDMAD_RIGHT_READ};
    cr_assert_eq(who, h->session);
    peer_delegate(h, &part, 1, delegated, told);
}

static void asks_for_a_channel(struct session *who, struct rig_done *told) {
    struct rdmad_uri service = uri;
    strcpy(service.name, "far");
    peer_connect(rig.st.peers, end_of(who, told), &service, 1);
}

/* What a question comes to that is given up in the next moment. */
static int given_up(void (*asks)(struct session *, struct rig_done *), struct session *who) {
    struct rig_done told = {0};
    asks(who, &told);
    rig_advance(1);
    fake_answer_all();
    cr_assert_eq(told.calls, 1);
    return told.code;
}

/* Until who is told to wait; the number of questions that were taken. */
static unsigned ask_until_busy(void (*asks)(struct session *, struct rig_done *),
                               struct session *who) {
    for (unsigned i = 0; i < MANY; i++) {
        int code = given_up(asks, who);
        if (code == RDMAD_E_BUSY)
            return i;
        cr_assert_eq(code, RDMAD_E_TIMEOUT, "question %u: %d", i, code);
        if (i % 16 == 0)
            settle();
        cr_assert(peers_in_state("up") == 1, "the connection of all is lost after %u questions", i);
    }
    cr_assert_fail("%zu bytes wait, and who asks without pause may go on", waits());
    return 0;
}

static void stays_and_answers(struct raw *r) {
    cr_expect_eq(peers_in_state("up"), 1);
    cr_expect_eq(fake_count(FAKE_LEASE_END), 0, "the lease is lost");
    reads_all(r);
    cr_expect_eq(given_up(asks_for_names, s), RDMAD_E_TIMEOUT, "it may ask again");
    reads_all(r);
}

Test(peer_unread, parts_that_are_given_up_never_cut_the_connection_of_all) {
    struct raw *r = attached_there();
    cr_expect_gt(ask_until_busy(asks_for_a_part, s), 10);
    stays_and_answers(r);
}

Test(peer_unread, lists_that_are_given_up_never_cut_the_connection_of_all) {
    struct raw *r = attached_there();
    cr_expect_gt(ask_until_busy(asks_for_names, s), 10);
    stays_and_answers(r);
}

Test(peer_unread, channels_that_are_given_up_never_cut_the_connection_of_all) {
    struct raw *r = attached_there();
    cr_expect_gt(ask_until_busy(asks_for_a_channel, s), 10);
    stays_and_answers(r);
}

/* ---- whose they are ---- */

Test(peer_unread, who_asks_without_pause_leaves_room_for_others) {
    struct raw *r = attached_there();
    ask_until_busy(asks_for_names, s);
    cr_expect_leq(waits(), QUESTIONS_MAX * 5 / 8, "one user has all");
    for (unsigned i = 0; i < 3; i++)
        cr_expect_gt(ask_until_busy(asks_for_names, rig_session(10 + i)), 2, "of user %u", i);
    cr_expect_eq(given_up(asks_for_names, rig_session(20)), RDMAD_E_TIMEOUT, "the next user, too");
    stays_and_answers(r);
}

Test(peer_unread, users_without_number_do_not_cut_the_connection_either) {
    struct raw *r = attached_there();
    for (unsigned i = 0; i < 10; i++)
        ask_until_busy(asks_for_names, rig_session(10 + i));
    cr_expect_leq(waits(), QUESTIONS_MAX + PEER_WIRE_MAX, "the rest is for what must be said");
    handle_release(h, rig_done, &done);
    fake_answer_all();
    cr_expect_eq(peers_in_state("up"), 1, "a lease can be given back");
    cr_expect_eq(done.code, 0, "%s", done.text);
    reads_all(r);
}

Test(peer_unread, who_has_been_heard_is_not_told_to_wait_for_what_others_ask) {
    struct session *other = rig_session(10);
    struct raw *r = attached_there();
    ask_until_busy(asks_for_names, s);
    reads_all(r);
    cr_expect_gt(ask_until_busy(asks_for_names, other), 10);
    cr_expect_eq(given_up(asks_for_names, s), RDMAD_E_TIMEOUT, "its own have been read");
    reads_all(r);
}

/* So much that the kernel's lumps are small beside it. */
Test(peer_unread, what_a_slow_peer_has_read_counts_for_nobody) {
    const size_t output_max = 4096 * 1024, little = output_max / 32;
    struct raw *r = attached_there();
    the_peer()->output_max = output_max;
    unsigned n, first = ask_until_busy(asks_for_names, s);
    for (unsigned i = 0; i < 3; i++) {
        AWAIT(reads_some(r) && waits() < little);
        cr_assert_gt(waits(), 0, "it has read all");
        n = ask_until_busy(asks_for_names, s);
        cr_expect_gt(n, first / 2, "%u more after it has read, %u before", n, first);
    }
    stays_and_answers(r);
}

/* Who asks now and then, of a peer that somebody keeps from ever having read all. */
Test(peer_unread, nor_does_it_while_another_asks_on) {
    const size_t output_max = 4096 * 1024;
    struct session *seldom = rig_session(10);
    struct raw *r = attached_there();
    the_peer()->output_max = output_max;
    ask_until_busy(asks_for_names, seldom);
    for (unsigned i = 0; i < 12; i++) { /* as much as is there, several times over */
        ask_until_busy(asks_for_names, s);
        size_t before = waits();
        AWAIT(reads_some(r) && waits() < before - output_max / 16);
        cr_assert_gt(waits(), 0, "it has read all");
    }
    ask_until_busy(asks_for_names, s);
    cr_expect_gt(ask_until_busy(asks_for_names, seldom), 10,
                 "what it asked has been read long since");
    stays_and_answers(r);
}
