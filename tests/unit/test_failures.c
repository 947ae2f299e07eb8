/* SPDX-License-Identifier: MIT */
/*
 * Ops that failed become events while their session is open, on a scripted clock: when, how many,
 * and that a user whose programs fail without pause costs a bounded look a second and nobody else
 * an event.
 */
#include "daemon/base/events.h"
#include "daemon/state/failure_text.h"
#include "daemon/state/failures.h"
#include "tests/unit/session_rig.h"
#include <stdlib.h>

static uint64_t now_ns;
static uint64_t clock_of_test(void) {
    return now_ns;
}

static struct event_row rows[EVENTS_MAX];
static unsigned nrows;

static void up(void) {
    rig_set_up();
    now_ns = 1000 * NSEC_PER_SEC;
    st.clock = clock_of_test;
    events_forget();
}

static void close_all(void) {
    list_for_each_safe (node, &st.sessions)
        session_close(list_entry(node, struct session, node), NULL);
    fake_answer_all();
}

static void down(void) {
    close_all();
    rig_tear_down();
}
TestSuite(failures, .init = up, .fini = down);

static void pass_s(unsigned seconds) {
    for (unsigned i = 0; i < 10 * seconds; i++) {
        now_ns += NSEC_PER_SEC / 10;
        timers_run(&st.timers, now_ns);
    }
}

static struct session *session_of(uid_t uid) {
    struct session *s;
    cr_assert_eq(session_new(&st, uid, uid, 1, &s, NULL), 0);
    return s;
}

static void fail(struct session *s, int status, uint64_t user_data) {
    const struct plane_failure f = {.at_ns = now_ns,
                                    .user_data = user_data,
                                    .length = 64,
                                    .lease = 3,
                                    .status = status,
                                    .opcode = RDMAD_OP_WRITE,
                                    .outcome = RDMAD_FAILED_UNTOUCHED};
    if (fake_fail(s->plane, &f))
        failures_heard(s);
}

static bool is_of_ops(void *arg, const struct event_row *e) {
    return !strcmp(e->what, "op") && (!arg || e->uid == *(uid_t *)arg);
}

static unsigned told(void) {
    nrows = events_read(0, is_of_ops, NULL, rows, EVENTS_MAX);
    return nrows;
}

Test(failures, one_is_told_a_second_later_while_its_session_is_open) {
    struct session *s = session_of(1000);
    fail(s, RDMAD_E_TIMEOUT, 7);
    cr_expect_eq(told(), 0);
    pass_s(1);
    cr_assert_eq(told(), 1);
    cr_expect_str_eq(rows[0].cause, "RDMAD_E_TIMEOUT");
    cr_expect(rows[0].of_user && rows[0].uid == 1000);
    cr_expect(!strcmp(rows[0].object, "op") && rows[0].id == 7 && rows[0].session == s->id);
    cr_expect(strstr(rows[0].text, "WRITE 7 of session ") == rows[0].text, "%s", rows[0].text);
    pass_s(3600);
    cr_expect_eq(told(), 1, "it is told once");
    cr_expect_eq(timers_next(&st.timers), CLOCK_NEVER, "with nothing to tell nobody wakes up");
    session_close(s, NULL);
    fake_answer_all();
    cr_expect_eq(told(), 1, "also when its session ends");
}

/* Others may have to let go of a session before it is dropped; the tick comes meanwhile. */
Test(failures, a_session_that_is_closing_is_looked_at_as_any_other) {
    struct session *s = session_of(1000);
    fail(s, RDMAD_E_TIMEOUT, 7);
    s->leaving = s->plane;
    s->plane = NULL;
    pass_s(1);
    cr_expect_eq(told(), 1);
    s->plane = s->leaving;
    s->leaving = NULL;
}

Test(failures, whose_bytes_may_be_partly_written_is_told) {
    static const struct {
        uint8_t opcode;
        const char *words;
    } cases[] = {{RDMAD_OP_WRITE, "; the target may be partly written"},
                 {RDMAD_OP_READ, "; the reader's buffer may be partly written"},
                 {RDMAD_OP_RECV, "; the receiver's buffer may be partly written"}};
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct plane_failure f = {.status = RDMAD_E_PEER_LOST,
                                        .opcode = cases[i].opcode,
                                        .outcome = RDMAD_FAILED_PARTIAL};
        char text[RDMAD_TEXT_MAX + 1];
        failure_text(&f, 1, "", text);
        cr_expect_not_null(strstr(text, cases[i].words), "%s", text);
    }
}

Test(failures, of_a_range_it_is_told_where_it_begins) {
    struct plane_failure f = {.status = RDMAD_E_RANGE,
                              .opcode = RDMAD_OP_WRITE,
                              .length = 64,
                              .lease = 3,
                              .offset = 4000,
                              .outcome = RDMAD_FAILED_UNTOUCHED};
    char text[RDMAD_TEXT_MAX + 1];
    failure_text(&f, 1, "", text);
    cr_expect_not_null(strstr(text, "(64 bytes, "), "%s", text);
    cr_expect_not_null(strstr(text, "; from byte 4000 of its lease on it reaches past the end"),
                       "%s", text);
    f.lease = 0;
    failure_text(&f, 1, "", text);
    cr_expect_not_null(strstr(text, "; it reaches past the end"), "%s", text);
}

Test(failures, many_are_one_event_with_their_number_and_the_last) {
    struct session *s = session_of(1000);
    for (unsigned i = 1; i <= 100; i++)
        fail(s, RDMAD_E_TIMEOUT, i);
    pass_s(1);
    cr_assert_eq(told(), 1);
    cr_expect_eq(rows[0].id, 100);
    cr_expect(strstr(rows[0].text, "100 in the last 2 s, the last: WRITE 100 of "), "%s",
              rows[0].text);
}

Test(failures, of_one_status_are_told_once_a_minute_and_of_another_at_once) {
    struct session *s = session_of(1000);
    fail(s, RDMAD_E_TIMEOUT, 1);
    pass_s(1);
    for (unsigned i = 0; i < 590; i++) {
        now_ns += NSEC_PER_SEC / 10;
        fail(s, RDMAD_E_TIMEOUT, 2 + i);
        timers_run(&st.timers, now_ns);
    }
    cr_expect_eq(told(), 1, "%u in a minute", nrows);
    fail(s, RDMAD_E_RANGE, 9999);
    pass_s(2);
    cr_assert_eq(told(), 3);
    cr_expect_str_eq(rows[1].cause, "RDMAD_E_RANGE");
    cr_expect(strstr(rows[2].text, "590 in the last 61 s, the last: WRITE 591 of "), "%s",
              rows[2].text);
    pass_s(70);
    cr_expect_eq(told(), 3);
}

Test(failures, that_others_have_pushed_out_are_counted_all_the_same) {
    struct session *s = session_of(1000);
    for (unsigned i = 0; i < 5; i++)
        fail(s, RDMAD_E_PEER_LOST, i);
    for (unsigned i = 0; i < PLANE_FAILURES; i++)
        fail(s, RDMAD_E_RANGE, 100 + i);
    pass_s(1);
    cr_assert_eq(told(), 2);
    for (unsigned i = 0; i < 2; i++) {
        bool pushed = !strcmp(rows[i].cause, "RDMAD_E_PEER_LOST");
        cr_expect(strstr(rows[i].text, pushed ? "5 ops of session " : "8 in the last "), "%s",
                  rows[i].text);
        cr_expect_str_eq(rows[i].object, pushed ? "session" : "op");
    }
}

Test(failures, not_told_yet_are_one_event_of_each_status_when_their_session_ends) {
    struct session *s = session_of(1000);
    fail(s, RDMAD_E_TIMEOUT, 1);
    pass_s(1);
    for (unsigned i = 2; i <= 20; i++)
        fail(s, RDMAD_E_TIMEOUT, i);
    fail(s, RDMAD_E_RANGE, 21);
    session_close(s, NULL);
    fake_answer_all();
    cr_assert_eq(told(), 3);
    for (unsigned i = 1; i < nrows; i++) {
        bool range = !strcmp(rows[i].cause, "RDMAD_E_RANGE");
        cr_expect_eq(rows[i].id, range ? 21 : 20);
        cr_expect_eq(strstr(rows[i].text, "19 in the last ") == NULL, range, "%s", rows[i].text);
    }
    pass_s(10); /* nothing looks at it any more */
}

Test(failures, heard_of_a_session_that_closes_are_left_to_its_last_word) {
    struct session *s = session_of(1000);
    session_hold(s);
    session_close(s, NULL);
    failures_heard(s);
    cr_expect_eq(timers_next(&st.timers), CLOCK_NEVER);
    pass_s(2);
    session_release(s);
}

/* A thousand sessions of one user that fail in all ways without pause, and one op of another. */
Test(failures, a_flood_costs_a_bounded_look_a_second_and_makes_nobody_else_late) {
    enum { MANY = 1000, STATUSES = 30 };
    static struct session *many[MANY];
    uid_t other = 2000, hostile = 1000;
    for (unsigned i = 0; i < MANY; i++)
        many[i] = session_of(hostile);
    struct session *s = session_of(other);
    for (unsigned second = 0; second < 100; second++) {
        unsigned looks = fake_looks;
        uint64_t last = 0;
        if (events_read(0, NULL, NULL, rows, EVENTS_MAX))
            last = rows[events_read(0, NULL, NULL, rows, EVENTS_MAX) - 1].number;
        for (unsigned i = 0; i < MANY; i++)
            for (int status = 1; status <= STATUSES; status++)
                fail(many[i], -status, i);
        if (second == 50)
            fail(s, RDMAD_E_TIMEOUT, 77);
        pass_s(1);
        cr_assert_leq(fake_looks - looks, FAILURES_SESSIONS, "in second %u", second);
        unsigned new = events_read(last, NULL, NULL, rows, EVENTS_MAX);
        cr_assert_leq(new, FAILURES_SESSIONS * FAILURES_STATUSES, "in second %u", second);
        if (second == 51)
            cr_assert_eq(events_read(0, is_of_ops, &other, rows, EVENTS_MAX), 1,
                         "the other user's is late");
    }
    cr_expect_eq(events_read(0, is_of_ops, &other, rows, EVENTS_MAX), 1, "it was pushed out");
    cr_expect_gt(events_read(0, is_of_ops, &hostile, rows, EVENTS_MAX), EVENTS_MAX / 2);
}

/* Each session of a user has its turn. */
Test(failures, all_sessions_of_a_user_are_told_in_turn) {
    enum { MANY = 3 * FAILURES_SESSIONS };
    for (unsigned i = 0; i < MANY; i++)
        fail(session_of(1000), RDMAD_E_TIMEOUT, i);
    for (unsigned second = 1; second <= 3; second++) {
        pass_s(1);
        cr_expect_eq(told(), second * FAILURES_SESSIONS, "%u in second %u", nrows, second);
    }
}
