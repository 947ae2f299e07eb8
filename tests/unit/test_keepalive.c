/* SPDX-License-Identifier: MIT */
/*
 * Keep-alive between the programs of a channel, on a scripted clock: when a program is silent, who
 * is told of it, how often it is looked at, and that nobody is who does not ask.
 */
#include "daemon/state/alive.h"
#include "daemon/state/keepalive.h"
#include "tests/unit/channel_steps.h"

static struct session *a, *b; /* who asks, who is asked about */
static struct channel *ca, *cb;
static struct rig_done da, db;
static bool b_lives;

static void up(void) {
    rig_up();
    a = rig_session(1000);
    b = rig_session(2000);
    struct service *sv = service_up(b, "rpc", 0);
    da = db = (struct rig_done){0};
    ca = end_of(a, &da);
    channel_connect_local(ca, "rpc", 1000 * MS);
    cb = end_of(b, &db);
    incoming_accept(waiting(sv), cb, 1000 * MS);
    fake_answer_all();
    cr_assert_eq(da.calls + db.calls, 2);
    b_lives = true;
}

static void down(void) {
    rig_close(a);
    rig_close(b);
    fake_answer_all();
    cr_expect(rig_closed(a) && rig_closed(b));
    cr_expect_eq(a->uid_account->keepalive_questions, 0);
    rig_down();
}

TestSuite(keepalive, .init = up, .fini = down);

static void want(uint64_t ms, bool ends) {
    struct keepalive_terms terms = {.silent_ns = ms * MS, .ends = ends};
    struct error err;
    cr_assert_eq(keepalive_set(ca, &terms, &err), 0, "%s", err.text);
}

/* The worker answers as soon as it is asked. */
static void pass(uint64_t ms) {
    for (uint64_t i = 0; i < ms; i += 5) {
        rig_advance(5 * MS);
        for (int k = (int)fake_count(FAKE_SESSION_ALIVE) - 1; k >= 0; k--)
            if (fake_call(FAKE_SESSION_ALIVE, k)->pending)
                fake_answer(fake_call(FAKE_SESSION_ALIVE, k), b_lives ? RDMAD_OK : RDMAD_E_AGAIN);
    }
}

static unsigned told(void) {
    return rig_events(a, RDMAD_EV_CHANNEL_SILENT);
}

Test(keepalive, nobody_is_looked_at_who_is_not_asked_about) {
    pass(5000);
    cr_expect_eq(fake_count(FAKE_SESSION_ALIVE), 0);
    want(1000, false);
    pass(2000);
    unsigned looks = fake_count(FAKE_SESSION_ALIVE);
    cr_expect_geq(looks, 8);
    want(0, false);
    pass(5000);
    cr_expect_eq(fake_count(FAKE_SESSION_ALIVE), looks, "it was asked on");
    cr_expect_eq(timers_next(&rig.st.timers), CLOCK_NEVER);
    cr_expect_eq(told(), 0);
}

Test(keepalive, a_silence_is_told_in_time_once_and_so_is_its_end) {
    want(1000, false);
    pass(3000);
    cr_expect_eq(told(), 0);
    b_lives = false;
    pass(990);
    cr_expect_eq(told(), 0, "too early");
    pass(260); /* a quarter later at most */
    cr_assert_eq(told(), 1);
    cr_expect_eq(rig_last_event(a)->kind, 1);
    cr_expect_eq(rig_last_event(a)->handle, ca->handle);
    cr_expect_geq(rig_last_event(a)->ttl_ns, 1000 * MS);
    pass(5000);
    cr_expect_eq(told(), 1, "it was told again");
    b_lives = true;
    pass(505); /* the look, and the question after it */
    cr_assert_eq(told(), 2);
    cr_expect_eq(rig_last_event(a)->kind, 0);
    cr_expect_eq(ca->stage, CHANNEL_OPEN);
    cr_expect_eq(rig_events(b, RDMAD_EV_CHANNEL_SILENT), 0, "who did not ask was told");
}

/* The time counts from when it was asked for, not from the last sign of long ago. */
Test(keepalive, one_that_nobody_asked_about_is_not_silent_at_once) {
    b_lives = false;
    want(1000, false);
    pass(1300);
    cr_assert_eq(told(), 1);
    want(0, false);
    pass(3600000);
    want(1000, false);
    pass(700);
    cr_expect_eq(told(), 1);
    pass(600);
    cr_expect_eq(told(), 2);
}

Test(keepalive, a_long_time_does_not_count_from_when_it_was_last_looked_at) {
    want(60000, false); /* longer than what is forgotten, so the questions must come more often */
    pass(10000);
    b_lives = false;
    pass(59000);
    cr_expect_eq(told(), 0);
    pass(3000);
    cr_expect_eq(told(), 1);
}

Test(keepalive, a_program_is_looked_at_ten_times_a_second_whoever_asks) {
    pass(1000);
    for (unsigned i = 0; i < 1000; i++) {
        (void)alive_silent_ns(b);
        rig_advance(1 * MS);
        if (fake_pending(FAKE_SESSION_ALIVE))
            fake_answer(fake_call(FAKE_SESSION_ALIVE, -1), RDMAD_OK);
    }
    cr_expect_leq(fake_count(FAKE_SESSION_ALIVE), 10);
    cr_expect_geq(fake_count(FAKE_SESSION_ALIVE), 9);
}

Test(keepalive, what_a_users_channels_ask_together_is_limited) {
    struct keepalive_terms terms = {.silent_ns = 1000 * MS};
    struct error err = {0};
    want(500, false);
    cr_assert_eq(a->uid_account->keepalive_questions, 8);
    want(60000, false);
    cr_assert_eq(a->uid_account->keepalive_questions, 1, "what there was is given back");
    a->uid_account->keepalive_questions += KEEPALIVE_QUESTIONS_MAX - 4; /* of other channels */
    cr_expect_eq(keepalive_set(ca, &terms, &err), 0, "%s", err.text);
    a->uid_account->keepalive_questions += 1;
    cr_expect_eq(keepalive_set(ca, &terms, &err), RDMAD_E_LIMIT);
    cr_expect_not_null(strstr(err.text, "have fewer"), "%s", err.text);
    cr_expect_not_null(ca->keepalive, "what is refused takes away what there was");
    a->uid_account->keepalive_questions -= KEEPALIVE_QUESTIONS_MAX - 3;
}

Test(keepalive, a_worker_that_has_not_answered_is_not_asked_again) {
    want(500, false);
    rig_advance(300 * MS);
    rig_advance(300 * MS);
    rig_advance(300 * MS);
    cr_expect_eq(fake_count(FAKE_SESSION_ALIVE), 1);
    fake_answer_all();
}

Test(keepalive, who_does_not_read_is_told_how_it_is_when_he_reads) {
    want(500, false);
    rig.lags = true;
    b_lives = false;
    pass(1000);
    b_lives = true;
    pass(1000);
    rig.lags = false;
    session_tell_late(a);
    cr_expect_eq(told(), 0, "a silence that is over, and of which it never knew");
    b_lives = false;
    rig.lags = true;
    pass(1000);
    rig.lags = false;
    session_tell_late(a);
    cr_expect_eq(told(), 1);
}

/* It may have been told of a silence by the daemon before. */
Test(keepalive, who_has_come_from_an_earlier_life_is_told_once_that_the_other_end_lives) {
    ca->resumed = true;
    want(1000, false);
    pass(1750);
    cr_assert_eq(told(), 1);
    cr_expect_eq(rig_last_event(a)->kind, 0);
    pass(5000);
    cr_expect_eq(told(), 1, "it was told again");
}

Test(keepalive, one_that_was_silent_in_an_earlier_life_and_still_is_is_not_said_to_live) {
    b_lives = false;
    ca->resumed = true;
    want(1000, false);
    pass(3000);
    cr_assert_eq(told(), 1);
    cr_expect_eq(rig_last_event(a)->kind, 1);
    b_lives = true;
    pass(505);
    cr_assert_eq(told(), 2);
    cr_expect_eq(rig_last_event(a)->kind, 0);
}

Test(keepalive, the_channel_ends_for_both_if_that_was_chosen) {
    want(500, true);
    b_lives = false;
    pass(750);
    fake_answer_all();
    fake_answer_all();
    cr_expect_eq(told(), 0);
    cr_assert_eq(rig_events(a, RDMAD_EV_CHANNEL_CLOSED), 1);
    cr_assert_eq(rig_events(b, RDMAD_EV_CHANNEL_CLOSED), 1);
    cr_expect_eq(rig_last_event(a)->reason, RDMAD_E_TIMEOUT);
    cr_expect_not_null(strstr(rig_last_event(a)->text, "no sign of life"));
    cr_expect_eq(rig_last_event(b)->reason, RDMAD_E_CANCELED);
    pass(2000);
    cr_expect_eq(timers_next(&rig.st.timers), CLOCK_NEVER, "it ticks on after the end");
}

Test(keepalive, a_session_may_close_while_it_is_looked_at) {
    want(500, false);
    rig_advance(200 * MS);
    cr_assert_eq(fake_pending(FAKE_SESSION_ALIVE), 1);
    cr_expect_eq(b->holds, 3, "of itself, its channel and the look");
}
