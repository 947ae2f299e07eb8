/* SPDX-License-Identifier: MIT */
/* What is asked, and when, by threads that wait: and that they end when the daemon hangs. */
#include "libclient/control/presence.h" /* first: their parameters are named as our globals */

#include "libclient/base/clock.h"
#include "libclient/control/control.h"
#include "tests/unit/client_rig.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_NS \
    UINT64_C(600000000) /* a busy machine must not make a daemon look as if it hung */
/* Longer than a case takes; twice as long ago there was a clock already, also on a machine that was
 * started a moment ago. */
#define LONG_NS UINT64_C(40000000000)

static bool silent;    /* atomic; the daemon hangs */
static unsigned asked; /* atomic; whether it is there */

static bool answer(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    (void)f;
    const struct rdmad_names_unwatch_req *req = body; /* what no daemon counts as refused */
    if (h->type == RDMAD_MSG_NAMES_UNWATCH && req->watch == 0)
        __atomic_add_fetch(&asked, 1, __ATOMIC_RELEASE);
    return __atomic_load_n(&silent, __ATOMIC_ACQUIRE);
}

static void patient(uint64_t call_timeout_ns) {
    s->call_timeout_ns = call_timeout_ns;
    rdmad_presence_begin(s);
}

/* Its process does not end with the session. */
static void presence_set_up(void) {
    static int life[2];
    cr_assert_eq(pipe2(life, O_CLOEXEC), 0);
    fake.lifeline = life[0];
    fake.hook = answer;
    rig_set_up();
    patient(LONG_NS);
}

static void resumes_set_up(void) {
    fake.outlived = true;
    presence_set_up();
}

TestSuite(presence, .init = presence_set_up, .fini = rig_tear_down, .timeout = 20);
TestSuite(presence_resumes, .init = resumes_set_up, .fini = rig_tear_down, .timeout = 20);

static void hang(void) {
    __atomic_store_n(&silent, true, __ATOMIC_RELEASE);
}

static unsigned questions(void) {
    return __atomic_load_n(&asked, __ATOMIC_ACQUIRE);
}

/* ---- when ---------------------------------------------------------------------------------- */

/* A question was due so long ago. */
static void due_since(uint64_t ns) {
    __atomic_store_n(&s->ask_ns, rdmad_monotonic_ns() - ns, __ATOMIC_RELAXED);
}

/* The answer lies in the socket, where nobody has looked yet. */
static void answered(void) {
    struct pollfd p = {.fd = s->sock, .events = POLLIN};
    cr_assert_eq(poll(&p, 1, 10000), 1, "no answer");
}

static void expect_lost(void) {
    cr_assert(rdmad_is_lost(s), "it is waited for");
    cr_assert_eq(s->lost_reason, RDMAD_E_TIMEOUT);
    cr_assert(strstr(s->lost_text, "asked to say whether it is there and has said nothing for"),
              "%s", s->lost_text);
}

Test(presence, nothing_is_asked_before_it_is_due) {
    rdmad_presence_ask(s);
    patient(UINT64_MAX); /* it never is */
    rdmad_presence_ask(s);
    usleep(20000);
    cr_assert_eq(questions(), 0);
}

Test(presence, what_is_due_is_asked_once) {
    due_since(1);
    rdmad_presence_ask(s);
    rdmad_presence_ask(s);
    answered();
    rdmad_presence_ask(s);
    cr_assert_eq(questions(), 1);
    uint64_t now = rdmad_monotonic_ns(), due_ns = rdmad_presence_due_ns(s);
    cr_assert(due_ns > now + LONG_NS / 2 && due_ns <= now + LONG_NS,
              "the next is due at another time");
}

Test(presence, a_daemon_that_answers_is_asked_time_and_again) {
    for (unsigned i = 1; i <= 5; i++) {
        due_since(1);
        rdmad_presence_ask(s);
        answered();
        cr_assert_eq(questions(), i);
    }
    cr_assert(rdmad_is_open(s));
}

/* Whatever it says, and whoever has read it. */
Test(presence, what_is_said_meanwhile_is_an_answer) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    hang();
    due_since(1);
    rdmad_presence_ask(s);
    fake_lease_ended(&fake, 0, 31, RDMAD_E_LEASE_EXPIRED);
    cr_assert_eq(rdmad_next_event(s, 10000, &e), 0);
    due_since(1);
    rdmad_presence_ask(s);
    cr_assert(rdmad_is_open(s), "%s", s->lost_text);
}

Test(presence, a_daemon_that_is_silent_is_lost) {
    rig_submit_write(1);
    hang();
    due_since(1);
    rdmad_presence_ask(s);
    cr_assert(rdmad_is_open(s), "it was not asked before");
    due_since(1);
    rdmad_presence_ask(s);
    expect_lost();
    struct rdmad_cqe cqe = rig_reap(); /* it was waited for enough */
    cr_assert_eq(cqe.status, RDMAD_E_DAEMON_LOST);
    cr_assert_eq(cqe.outcome, RDMAD_UNKNOWN);
}

/* It was stopped itself, or has not waited: once that is no sign of a daemon that hangs. */
Test(presence, who_looks_late_asks_again_but_once) {
    hang();
    due_since(1);
    rdmad_presence_ask(s);
    due_since(2 * LONG_NS);
    rdmad_presence_ask(s);
    cr_assert(rdmad_is_open(s), "judged by one who was not there");
    due_since(2 * LONG_NS);
    rdmad_presence_ask(s);
    expect_lost();
}

Test(presence, an_answer_makes_good_that_one_was_late) {
    for (unsigned i = 0; i < 3; i++) {
        __atomic_store_n(&silent, true, __ATOMIC_RELEASE);
        due_since(1);
        rdmad_presence_ask(s);
        due_since(2 * LONG_NS);
        __atomic_store_n(&silent, false, __ATOMIC_RELEASE);
        rdmad_presence_ask(s);
        answered();
    }
    cr_assert(rdmad_is_open(s), "%s", s->lost_text);
}

/* ---- a daemon that is away, or another ----------------------------------------------------- */

Test(presence_resumes, a_daemon_that_is_away_does_not_hang) {
    due_since(1);
    rdmad_presence_ask(s);
    answered();
    fake_go(&fake);
    while (!rdmad_check_gone(s))
        usleep(1000);
    for (unsigned i = 0; i < 3; i++) {
        due_since(1);
        rdmad_presence_ask(s);
    }
    cr_assert(!rdmad_is_lost(s), "%s", s->lost_text);
    cr_assert_eq(questions(), 1, "there was nobody to ask");
    fake_come_back(&fake);
    while (!rdmad_is_open(s))
        usleep(1000);
    due_since(1);
    rdmad_presence_ask(s);
    answered();
    cr_assert(rdmad_is_open(s), "%s", s->lost_text);
    cr_assert_eq(questions(), 2);
}

/* A thread that waits for events sleeps meanwhile, and asks the next daemon. */
Test(presence_resumes, a_wait_for_events_goes_on_with_the_next_daemon) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    patient(PATIENCE_NS);
    fake_go(&fake);
    while (!rdmad_check_gone(s))
        usleep(1000);
    fake_come_back(&fake);
    cr_assert_eq(rdmad_next_event(s, -1, &e), 0);
    cr_assert_eq(e.type, RDMAD_EVENT_SESSION_RESUMED);
    hang();
    cr_assert_eq(rdmad_next_event(s, -1, &e), 0);
    cr_assert_eq(e.type, RDMAD_EVENT_SESSION_LOST);
    expect_lost();
}

/* ---- who waits ----------------------------------------------------------------------------- */

static uint64_t began_ns;

static void hang_and_wait(void) {
    hang();
    patient(PATIENCE_NS);
    began_ns = rdmad_monotonic_ns();
    due_since(1);
}

static void expect_found(void) {
    expect_lost();
    cr_assert(rdmad_monotonic_ns() - began_ns >= PATIENCE_NS, "it was judged too early");
    /* One, and one more if this machine let it look too late. */
    cr_assert(questions() == 1 || questions() == 2, "%u questions", questions());
}

static void expect_end(const struct rdmad_cqe *cqe) {
    cr_assert_eq(cqe->user_data, 1);
    cr_assert_eq(cqe->status, RDMAD_E_DAEMON_LOST, "%s", rdmad_errname(cqe->status));
    cr_assert_eq(cqe->outcome, RDMAD_UNKNOWN);
    expect_found();
}

Test(presence, a_wait_without_a_limit_ends) {
    const struct rdmad_cqe *cqe;
    hang_and_wait();
    rig_submit_write(1);
    cr_assert_eq(rdmad_ring_wait(ring, -1, &cqe), 0);
    expect_end(cqe);
    rdmad_ring_seen(ring, cqe);
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(presence, short_waits_in_a_row_find_out_too) {
    const struct rdmad_cqe *cqe;
    hang_and_wait();
    rig_submit_write(1);
    while (rdmad_ring_wait(ring, 20, &cqe) == RDMAD_E_TIMEOUT)
        ;
    expect_end(cqe);
    rdmad_ring_seen(ring, cqe);
}

Test(presence, looks_in_a_row_find_out_too) {
    const struct rdmad_cqe *cqe;
    hang_and_wait();
    rig_submit_write(1);
    while (rdmad_ring_peek(ring, &cqe) == RDMAD_E_AGAIN)
        ;
    expect_end(cqe);
    rdmad_ring_seen(ring, cqe);
}

Test(presence, looks_with_nothing_in_flight_ask_nothing) {
    const struct rdmad_cqe *cqe;
    uint64_t until_ns = rdmad_monotonic_ns() + 50000000;
    due_since(1);
    while (rdmad_monotonic_ns() < until_ns)
        cr_assert_eq(rdmad_ring_peek(ring, &cqe), RDMAD_E_AGAIN);
    cr_assert_eq(questions(), 0);
}

static void called(void *arg, const struct rdmad_cqe *cqe) {
    *(struct rdmad_cqe *)arg = *cqe;
}

Test(presence, a_dispatch_without_a_limit_ends) {
    struct rdmad_cqe cqe = {.status = 0};
    hang_and_wait();
    cr_assert_eq(rdmad_sqe_set_callback(ring, rig_prep_write(1), called, &cqe), 0);
    cr_assert_eq(rdmad_ring_submit(ring), 1);
    cr_assert_eq(rdmad_ring_dispatch(ring, -1, 0), 1);
    expect_end(&cqe);
}

/* With all entries taken by nobody there is none for the cancel. */
Test(presence, a_cancel_on_a_full_ring_ends) {
    struct rdmad_cqe cqe;
    hang_and_wait();
    for (unsigned i = 1; i <= RIG_ENTRIES; i++)
        rig_submit_write(i);
    cr_assert_eq(rdmad_ring_cancel(ring, 1, &cqe), 0);
    expect_end(&cqe);
}

Test(presence, a_wait_for_a_connection_ends) {
    rdmad_service *service;
    struct rdmad_incoming who = RDMAD_INCOMING_INIT;
    cr_assert_eq(rdmad_listen(s, "service", NULL, &service), 0);
    hang_and_wait();
    cr_assert_eq(rdmad_next_incoming(service, -1, &who), RDMAD_E_DAEMON_LOST);
    expect_found();
    rdmad_channel *channel;
    cr_assert_eq(rdmad_accept(service, NULL, -1, &channel), RDMAD_E_DAEMON_LOST);
}

/* An event loop that sleeps on descriptors of its own can ask in these ways. */
Test(presence, who_arms_a_ring_now_and_then_finds_out_too) {
    const struct rdmad_cqe *cqe;
    hang_and_wait();
    rig_submit_write(1);
    while (rdmad_ring_arm(ring) == 0)
        usleep(20000);
    cr_assert_eq(rdmad_ring_peek(ring, &cqe), 0);
    expect_end(cqe);
    rdmad_ring_seen(ring, cqe);
}

Test(presence, looks_for_events_find_out_too) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    hang_and_wait();
    while (rdmad_next_event(s, 0, &e) == RDMAD_E_TIMEOUT)
        usleep(20000);
    cr_assert_eq(e.type, RDMAD_EVENT_SESSION_LOST);
    expect_found();
}

/* ---- many, and a daemon that is there ------------------------------------------------------ */

static void *write_blocking(void *from) {
    cr_assert_eq(rdmad_write(lease, 0, from, 64), RDMAD_E_DAEMON_LOST);
    cr_assert_eq(rdmad_last_outcome(), RDMAD_UNKNOWN);
    cr_assert(strstr(rdmad_last_error(s), "has said nothing for 600 ms"), "%s",
              rdmad_last_error(s));
    return NULL;
}

static void *wait_for_event(void *unused) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    cr_assert_eq(rdmad_next_event(s, -1, &e), 0);
    cr_assert_eq(e.type, RDMAD_EVENT_SESSION_LOST);
    cr_assert_eq(e.reason, RDMAD_E_TIMEOUT);
    return unused;
}

static void *wait_at_ring(void *unused) {
    const struct rdmad_cqe *cqe;
    cr_assert_eq(rdmad_ring_wait(ring, -1, &cqe), 0);
    cr_assert_eq(cqe->status, RDMAD_E_DAEMON_LOST);
    rdmad_ring_seen(ring, cqe);
    return unused;
}

/* Two share a ring, one has its own, one waits for events. They wait as long as the daemon is
 * there, ask one question among them each time, and all end when it hangs. */
Test(presence, many_that_wait_ask_together) {
    void *(*const how[])(void *) = {write_blocking, write_blocking, wait_at_ring, wait_for_event};
    pthread_t thread[4];
    patient(PATIENCE_NS);
    began_ns = rdmad_monotonic_ns();
    rig_submit_write(1);
    for (unsigned i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, how[i], memory + 4096 * (i + 1)), 0);
    while (questions() < 3)
        usleep(1000);
    cr_assert(rdmad_is_open(s), "%s", s->lost_text);
    hang();
    for (unsigned i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    uint64_t lasted_ns = rdmad_monotonic_ns() - began_ns;
    cr_assert(questions() <= lasted_ns / PATIENCE_NS, "%u questions in %lu ms", questions(),
              (unsigned long)(lasted_ns / RDMAD_NS_PER_MS));
}

/* What completes soon costs no question, whatever is due. */
Test(presence, who_does_not_sleep_asks_nothing) {
    const struct rdmad_cqe *cqe;
    for (unsigned i = 0; i < 100; i++) {
        rig_submit_write(i);
        struct rdmad_sqe sqe = rig_take();
        rig_complete(&sqe, 0);
        due_since(1);
        cr_assert_eq(rdmad_ring_wait(ring, -1, &cqe), 0);
        rdmad_ring_seen(ring, cqe);
    }
    usleep(20000);
    cr_assert_eq(questions(), 0);
}
