/* SPDX-License-Identifier: MIT */
/*
 * However many peers there are and however much they say, a turn of the loop hears a bounded piece
 * of it; who has something of ours is heard first, who has nothing at a rate, who has left not at
 * all. The clock stands still unless a test moves it.
 */
#include "daemon/base/audit.h"
#include "daemon/base/audit_count.h"
#include "daemon/peer/control/record.h"
#include "tests/unit/owner_steps.h"
#include <event2/event.h>
#include <signal.h>
#include <sys/ioctl.h>

#define PONG_BYTES 16u
/* turn.c's */
#define A_TURN (64u + 16u)
#define AT_ONCE 8u
#define BURST 1000u
#define RATE 20000u

static void up(void) {
    owner_up(800);
}

TestSuite(peer_turns, .init = up, .fini = owner_down, .timeout = 60);

/* One turn of the loop, and no timer. */
static void turn(void) {
    event_base_loop(rig.st.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

/* Says it without giving the daemon a turn. */
static void say_pings(struct raw *r, unsigned n) {
    struct peer_msg ping = {.type = PEER_MSG_PING};
    uint8_t frame[PEER_WIRE_MAX];
    size_t size = peer_wire_encode(&ping, frame);
    while (n--)
        cr_assert_eq(send(r->fd, frame, size, MSG_NOSIGNAL), (ssize_t)size);
}

/* So many answers of r have come. */
static unsigned answers(const struct raw *r) {
    int bytes = 0;
    ioctl(r->fd, FIONREAD, &bytes);
    return (unsigned)bytes / PONG_BYTES;
}

static unsigned answers_of_all(struct raw **r, unsigned n) {
    unsigned sum = 0;
    while (n--)
        sum += answers(r[n]);
    return sum;
}

/* With a lease of ours. */
static struct raw *greet_holder(void) {
    struct raw *r = raw_greet();
    attach(r);
    return r;
}

Test(peer_turns, a_turn_hears_a_bounded_piece_of_what_all_of_them_say) {
    struct raw *r[60];
    for (unsigned i = 0; i < 60; i++) {
        r[i] = i % 2 ? greet_holder() : raw_greet();
        rig_advance(100 * MS);
    }
    for (unsigned i = 0; i < 60; i++)
        say_pings(r[i], 100);
    for (unsigned turns = 0, before = 0; turns < 50; turns++) {
        turn();
        unsigned now = answers_of_all(r, 60);
        cr_assert_leq(now - before, A_TURN, "%u messages were heard in one turn", now - before);
        before = now;
    }
    cr_expect_gt(answers_of_all(r, 60), 1000, "hardly anything was heard");
}

Test(peer_turns, each_connection_has_its_turn) {
    struct raw *loud[7], *low = greet_holder();
    for (int i = 0; i < 7; i++) {
        loud[i] = greet_holder();
        rig_advance(100 * MS);
    }
    for (int i = 0; i < 7; i++)
        say_pings(loud[i], 900);
    turn();
    turn();
    say_pings(low, 1);
    for (int i = 0; i < 4; i++)
        turn();
    cr_expect_eq(answers(low), 1, "it waits for what seven others say");
    cr_expect_lt(answers_of_all(loud, 7), 7 * 900, "the test has come too late");
}

Test(peer_turns, who_has_nothing_is_heard_at_a_rate_and_does_not_delay_who_has) {
    struct raw *r[50], *holder = greet_holder();
    for (unsigned i = 0; i < 50; i++)
        r[i] = raw_greet();
    rig_advance(1000 * MS);
    for (unsigned i = 0; i < 50; i++)
        say_pings(r[i], 100);
    for (int i = 0; i < 500; i++)
        turn();
    cr_expect_eq(answers_of_all(r, 50), BURST);
    say_pings(holder, 20);
    for (int i = 0; i < 10; i++)
        turn();
    cr_expect_eq(answers(holder), 20);
    rig_advance(10 * MS);
    for (int i = 0; i < 500; i++)
        turn();
    cr_expect_eq(answers_of_all(r, 50), BURST + RATE / 100);
    for (unsigned i = 0; i < 50; i++)
        cr_expect_geq(answers(r[i]), BURST / 50 - AT_ONCE, "not everybody has had its share");
}

static void say_more_than_is_read(struct raw *r) {
    struct peer_msg ping = {.type = PEER_MSG_PING};
    uint8_t frame[PEER_WIRE_MAX];
    size_t size = peer_wire_encode(&ping, frame);
    for (unsigned i = 0; i < 20000; i++)
        if (send(r->fd, frame, size, MSG_NOSIGNAL) != (ssize_t)size)
            break;
    for (int i = 0; i < 200; i++)
        turn();
}

Test(peer_turns, what_was_said_by_who_has_left_is_not_heard) {
    struct raw *r[4];
    for (unsigned i = 0; i < 4; i++)
        r[i] = raw_greet();
    for (unsigned i = 0; i < 4; i++)
        say_more_than_is_read(r[i]);
    cr_expect_eq(peers_count(rig.st.peers), 4);
    for (unsigned i = 0; i < 4; i++)
        raw_close(r[i]);
    for (int i = 0; i < 50; i++)
        turn();
    fake_answer_all();
    cr_expect_lt(peers_count(rig.st.peers), 4, "one was reset");
    rig_advance(2001 * MS); /* the others' ends are behind what was not read */
    for (int i = 0; i < 50; i++)
        turn();
    fake_answer_all();
    cr_expect_eq(peers_count(rig.st.peers), 0, "%u are heard for what they left",
                 peers_count(rig.st.peers));
}

Test(peer_turns, a_goodbye_of_who_has_something_is_heard_before_its_end) {
    struct raw *r = greet_holder();
    struct peer_msg bye = {.type = PEER_MSG_RELEASE};
    bye.release.owner_ref = 1;
    say_pings(r, 30);
    uint8_t frame[PEER_WIRE_MAX];
    send(r->fd, frame, peer_wire_encode(&bye, frame), MSG_NOSIGNAL);
    shutdown(r->fd, SHUT_WR);
    for (int i = 0; i < 20; i++)
        turn();
    cr_expect_eq(answers(r), 30);
    fake_answer_all();
}

/* ---- rates of a name ------------------------------------------------------------------------ */

static void rate(enum rule_key key, int64_t per_second) {
    signal(SIGPIPE, SIG_IGN); /* as the daemon does */
    if (!rig.st.policy)
        rig.st.policy = policy_new(&rig.config);
    cr_assert_eq(policy_set(rig.st.policy, 0, RULE_UNNAMED, key, per_second, NULL), 0);
    peers_apply_policy(rig.st.peers);
}

static void no_policy(void) {
    policy_free(rig.st.policy);
    rig.st.policy = NULL;
}

static void hear_for(unsigned ms, unsigned step_ms) {
    for (unsigned i = 0; i < ms; i += step_ms) {
        rig_advance(step_ms * MS);
        settle();
    }
}

Test(peer_turns, all_connections_of_a_name_are_heard_as_often_as_its_rate_allows) {
    struct raw *r[2] = {greet_holder(), greet_holder()};
    rate(RULE_MESSAGES_PER_SECOND, 100);
    for (unsigned i = 0; i < 2; i++)
        say_pings(r[i], 200);
    hear_for(1000, 5);
    unsigned heard = answers_of_all(r, 2);
    cr_assert(heard >= 30 && heard <= 110, "%u in a second", heard);
    cr_assert_geq(answers(r[0]), heard / 3, "both are heard");
    cr_assert_geq(answers(r[1]), heard / 3, "both are heard");
    rate(RULE_MESSAGES_PER_SECOND, 0);
    hear_for(50, 5);
    AWAIT(answers_of_all(r, 2) == 400); /* nothing is lost */
    raw_close(r[0]);
    raw_close(r[1]);
    quiet();
    no_policy();
}

static unsigned unread(const struct raw *r) {
    int bytes = 0;
    ioctl(r->fd, FIONREAD, &bytes);
    return (unsigned)bytes;
}

Test(peer_turns, questions_have_a_rate_of_their_own) {
    struct peer_msg m = {.type = PEER_MSG_NAMES_REQ, .names_req.ref = 9};
    struct peer_msg rep = {.type = PEER_MSG_NAMES_REP};
    uint8_t frame[PEER_WIRE_MAX];
    unsigned rep_bytes = (unsigned)peer_wire_encode(&rep, frame);
    size_t size = peer_wire_encode(&m, frame);
    struct raw *r = greet_holder();
    unsigned before = answers(r);
    rate(RULE_QUESTIONS_PER_SECOND, 10);
    say_pings(r, 100);
    hear_for(20, 5);
    cr_assert_eq(answers(r) - before, 100, "a ping is no question");
    before = unread(r);
    for (unsigned i = 0; i < 20; i++)
        cr_assert_eq(send(r->fd, frame, size, MSG_NOSIGNAL), (ssize_t)size);
    hear_for(1000, 5);
    unsigned names = (unread(r) - before) / rep_bytes;
    cr_assert(names >= 3 && names <= 13, "%u questions were answered in a second", names);
    raw_close(r);
    quiet();
    no_policy();
}

/* Else what it has would stay for as long as it takes to hear it. */
Test(peer_turns, what_was_said_before_an_end_is_heard_at_whatever_rate) {
    struct raw *r = greet_holder();
    rate(RULE_MESSAGES_PER_SECOND, 1);
    say_pings(r, 300);
    turn();
    raw_close(r);
    for (unsigned i = 0; i < 200; i++) {
        fake_answer_all();
        turn();
    }
    cr_assert_eq(peers_count(rig.st.peers), 0, "a connection that has gone is kept by its rate");
    no_policy();
}

/* ---- that a peer is held ------------------------------------------------------------------- */

static uint64_t throttled(const char *cause) {
    static struct audit_counts counts;
    audit_count(&counts);
    for (unsigned i = 0; i < counts.used; i++)
        if (counts.row[i].event == AUDIT_THROTTLED && !strcmp(counts.row[i].cause, cause))
            return counts.row[i].count;
    return 0;
}

/* However many connections its name has. */
Test(peer_turns, that_a_name_is_held_is_told_once_a_minute_of_each_rate) {
    struct peer_msg m = {.type = PEER_MSG_NAMES_REQ, .names_req.ref = 9};
    uint8_t frame[PEER_WIRE_MAX];
    size_t size = peer_wire_encode(&m, frame);
    struct raw *r[2] = {greet_holder(), greet_holder()};
    hear_for(20, 5);
    cr_assert_eq(throttled("rate.messages"), 0);
    rate(RULE_MESSAGES_PER_SECOND, 10);
    for (unsigned i = 0; i < 2; i++)
        say_pings(r[i], 500);
    hear_for(30000, 50);
    cr_assert_eq(throttled("rate.messages"), 1, "%u", (unsigned)throttled("rate.messages"));
    hear_for(32000, 50);
    cr_assert_eq(throttled("rate.messages"), 2, "%u", (unsigned)throttled("rate.messages"));
    cr_assert_eq(throttled("rate.questions"), 0);
    rate(RULE_MESSAGES_PER_SECOND, 0);
    rate(RULE_QUESTIONS_PER_SECOND, 2);
    hear_for(50, 5);
    for (unsigned i = 0; i < 20; i++)
        cr_assert_eq(send(r[0]->fd, frame, size, MSG_NOSIGNAL), (ssize_t)size);
    hear_for(3000, 50);
    cr_assert_eq(throttled("rate.questions"), 1, "%u", (unsigned)throttled("rate.questions"));
    cr_assert_eq(throttled("rate.messages"), 2);
    raw_close(r[0]);
    raw_close(r[1]);
    quiet();
    no_policy();
}

/* As workers tell of it; r lives. */
static void held_by_bytes(struct raw *r, uint64_t peer, unsigned seconds) {
    for (unsigned i = 0; i < seconds; i++) {
        peers_throttled(rig.st.peers, peer, PLANE_RATE_BYTES);
        say_pings(r, 1);
        hear_for(1000, 500);
    }
}

/* Several workers tell of it. */
Test(peer_turns, that_a_share_holds_a_connection_is_told_once_a_minute) {
    struct raw *r = greet_holder();
    const struct peer *p = list_entry(list_first(&rig.st.peers->all), struct peer, node);
    held_by_bytes(r, p->id, 10);
    cr_assert_eq(throttled("rate.bytes"), 0, "it has no such rate any more");
    rate(RULE_BYTES_PER_SECOND, 1000);
    held_by_bytes(r, p->id + 1, 1);
    cr_assert_eq(throttled("rate.bytes"), 0, "that peer is gone");
    held_by_bytes(r, p->id, 55);
    cr_assert_eq(throttled("rate.bytes"), 1, "%u", (unsigned)throttled("rate.bytes"));
    held_by_bytes(r, p->id, 10);
    cr_assert_eq(throttled("rate.bytes"), 2, "%u", (unsigned)throttled("rate.bytes"));
    peers_throttled(rig.st.peers, p->id, PLANE_RATE_OPS);
    cr_assert_eq(throttled("rate.ops"), 0, "it has no rate of ops");
    raw_close(r);
    quiet();
    no_policy();
}
