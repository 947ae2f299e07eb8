/* SPDX-License-Identifier: MIT */
/*
 * A daemon that connects anew is answered when nothing of its former connection can take effect any
 * more; and nobody else can end that one.
 */
#include "tests/unit/owner_steps.h"

static void up(void) {
    owner_up(40);
}

TestSuite(peer_former, .init = up, .fini = owner_down, .timeout = 60);

/* What the node with that secret says in its nth life, by that line. */
static struct peer_msg hello_of(uint8_t secret, uint32_t number, uint64_t serial, uint8_t line) {
    uint8_t bytes[HASH_BYTES] = {secret};
    struct peer_msg m = raw_hello();
    life_make(bytes, number, &m.hello.life);
    memset(m.hello.node_id, (int)number, sizeof(m.hello.node_id));
    memset(m.hello.line, line, sizeof(m.hello.line));
    m.hello.serial = serial;
    return m;
}

static struct raw *say(const struct peer_msg *hello) {
    struct raw *r = raw_dial();
    raw_send(r, hello);
    return r;
}

static struct raw *greet_as(const struct peer_msg *hello) {
    struct raw *r = say(hello);
    raw_expect(r, PEER_MSG_HELLO);
    return r;
}

static void expect_alive(struct raw *r) {
    struct peer_msg ping = {.type = PEER_MSG_PING, .ping.seq = 3};
    raw_send(r, &ping);
    raw_expect(r, PEER_MSG_PONG);
}

/* What came before, at life and serial, is expelled before that hello is answered. */
static void expect_expelled_first(const struct peer_msg *before, const struct peer_msg *hello) {
    struct raw *old = greet_as(before);
    attach(old);
    struct raw *new = say(hello);
    AWAIT(fake_pending(FAKE_WINDOW_CLOSE) == 1 && fake_pending(FAKE_EXPEL) == 1);
    cr_expect(raw_silent(new), "the answer came before the window was closed");
    fake_answer(fake_call(FAKE_WINDOW_CLOSE, -1), 0);
    cr_expect(raw_silent(new), "the answer came before the links were gone");
    fake_answer(fake_call(FAKE_EXPEL, -1), 0);
    raw_expect(new, PEER_MSG_HELLO);
    cr_expect(raw_eof(old));
    attach(new);
}

Test(peer_former, what_is_left_of_an_earlier_life_is_expelled_before_the_answer) {
    struct peer_msg first = hello_of(1, 1, 9, 1), second = hello_of(1, 2, 1, 2);
    expect_expelled_first(&first, &second);
}

Test(peer_former, what_is_left_of_a_connection_that_was_given_up_is_expelled_before_the_answer) {
    struct peer_msg first = hello_of(1, 1, 1, 1), second = hello_of(1, 1, 2, 1);
    expect_expelled_first(&first, &second);
}

Test(peer_former, links_may_be_gone_before_windows_are_closed) {
    struct peer_msg first = hello_of(1, 1, 1, 1), second = hello_of(1, 1, 2, 1);
    struct raw *old = greet_as(&first);
    attach(old);
    struct raw *new = say(&second);
    AWAIT(fake_pending(FAKE_EXPEL) == 1);
    fake_answer(fake_call(FAKE_EXPEL, -1), 0);
    cr_expect(raw_silent(new));
    fake_answer(fake_call(FAKE_WINDOW_CLOSE, -1), 0);
    raw_expect(new, PEER_MSG_HELLO);
}

/* Its end was noticed, and is under way: the answer waits all the same. */
Test(peer_former, a_connection_that_is_ending_already_is_waited_for) {
    struct peer_msg first = hello_of(1, 1, 1, 1), second = hello_of(1, 2, 2, 1);
    struct raw *old = greet_as(&first);
    attach(old);
    raw_close(old);
    AWAIT(fake_pending(FAKE_EXPEL) == 1);
    struct raw *new = say(&second);
    cr_expect(raw_silent(new));
    fake_answer_all();
    raw_expect(new, PEER_MSG_HELLO);
}

Test(peer_former, the_last_of_several_starts_is_answered_when_all_others_are_gone) {
    struct peer_msg hello[] = {hello_of(1, 1, 1, 1), hello_of(1, 2, 1, 1), hello_of(1, 3, 1, 1)};
    struct raw *first = greet_as(&hello[0]);
    attach(first);
    struct raw *second = say(&hello[1]);
    cr_expect(raw_silent(second));
    struct raw *third = say(&hello[2]);
    cr_expect(raw_eof(second));
    cr_expect(raw_silent(third));
    fake_answer_all();
    raw_expect(third, PEER_MSG_HELLO);
}

Test(peer_former, other_lines_and_other_nodes_live_beside) {
    struct peer_msg hello[] = {hello_of(1, 2, 1, 1), hello_of(1, 2, 2, 2), hello_of(2, 3, 3, 1),
                               raw_hello(), raw_hello()};
    struct raw *r[5];
    for (unsigned i = 0; i < 5; i++)
        r[i] = greet_as(&hello[i]);
    for (unsigned i = 0; i < 5; i++)
        expect_alive(r[i]);
}

Test(peer_former, a_stranger_expels_nobody_by_what_it_makes_up_or_repeats) {
    struct peer_msg hello = hello_of(1, 4, 1, 1);
    struct raw *r = greet_as(&hello);
    struct peer_msg forged[] = {hello, hello, hello, hello_of(2, 5, 9, 1)};
    forged[0].hello.life.number = 5; /* a key that everybody may have seen */
    forged[1].hello.serial = 2;      /* of this life, by a line that it had to guess */
    forged[1].hello.line[15] ^= 1;
    forged[2].hello.life.number = 3;
    memcpy(forged[3].hello.life.node, hello.hello.life.node, sizeof(hello.hello.life.node));
    for (unsigned i = 0; i < 4; i++)
        raw_close(greet_as(&forged[i]));
    expect_alive(r);
}

/* On the way it was overtaken by what its daemon said later. */
Test(peer_former, a_hello_that_comes_too_late_is_refused) {
    struct peer_msg late = hello_of(1, 1, 1, 1), now = hello_of(1, 1, 2, 1);
    struct raw *r = greet_as(&now);
    cr_expect_not_null(strstr(raw_expect(say(&late), PEER_MSG_BYE).bye.text, "a later connection"));
    expect_alive(r);
}

Test(peer_former, who_waits_for_a_window_that_does_not_close_is_refused_in_the_end) {
    struct peer_msg first = hello_of(1, 1, 1, 1), second = hello_of(1, 2, 2, 1);
    attach(greet_as(&first));
    struct raw *new = say(&second);
    cr_expect(raw_silent(new));
    rig_advance(rig.config.peer_dead_ms * MS - 1);
    cr_expect(raw_silent(new));
    rig_advance(1);
    cr_expect(raw_eof(new));
}

Test(peer_former, who_waits_for_its_answer_says_nothing) {
    struct peer_msg first = hello_of(1, 1, 1, 1), second = hello_of(1, 2, 2, 1);
    attach(greet_as(&first));
    struct raw *new = say(&second);
    raw_send(new, &second);
    cr_expect_not_null(strstr(raw_expect(new, PEER_MSG_BYE).bye.text, "second HELLO"));
}
