/* SPDX-License-Identifier: MIT */
/*
 * A ring that the next daemon, or this process, has no room for just then: it is made anew later,
 * and what was submitted is done; the session goes on meanwhile.
 */
#include "libclient/ring/ring.h" /* first: its parameters are named as our globals */

#include "libclient/base/clock.h"
#include "libclient/control/presence.h"
#include "tests/unit/client_rig.h"
#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { SHORT_MS = 1000, TRIES_MOST = SHORT_MS / 10 };
/* A fake daemon that is not scheduled for as long is one that hangs. */
#define PATIENCE_NS (3000 * RDMAD_NS_PER_MS)

static uint16_t refused_type;
static int refused_with;
static uint64_t first_ns;
static unsigned tries, destroyed; /* atomic */
static bool for_ever;

/* For a second from the first try on. */
static bool is_short(void) {
    uint64_t now = rdmad_monotonic_ns();
    first_ns = first_ns ? first_ns : now;
    __atomic_add_fetch(&tries, 1, __ATOMIC_RELEASE);
    return for_ever || now - first_ns < SHORT_MS * RDMAD_NS_PER_MS;
}

/* READY is refused only once: a fake daemon has few rings. */
static bool refuse(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    (void)body;
    if (h->type == RDMAD_MSG_RING_DESTROY)
        __atomic_add_fetch(&destroyed, 1, __ATOMIC_RELEASE);
    if (h->type != refused_type || __atomic_load_n(&f->lives, __ATOMIC_ACQUIRE) < 2 || !is_short())
        return false;
    if (h->type == RDMAD_MSG_RING_READY)
        refused_type = 0;
    fake_refuse(f, h, refused_with, "as the test has it");
    return true;
}

static void up(void) {
    fake.outlived = true;
    fake.hook = refuse;
    refused_type = RDMAD_MSG_RING_CREATE;
    refused_with = RDMAD_E_LIMIT;
    rig_set_up();
}

TestSuite(ring_again, .init = up, .fini = rig_tear_down, .timeout = 60);

static bool done(struct fake_ring *r, const struct rdmad_sqe *sqe) {
    (void)r;
    cr_expect_eq(sqe->opcode, RDMAD_OP_WRITE);
    cr_expect_eq(sqe->length, 64);
    return false;
}

/* One op waits for the daemon that comes. */
static void postpone_one(void) {
    const struct rdmad_cqe *cqe;
    fake_go(&fake);
    while (rdmad_is_open(s))
        cr_assert_eq(rdmad_ring_peek(ring, &cqe), RDMAD_E_AGAIN);
    rig_submit_write(1);
    fake_come_back(&fake);
}

static void expect_done(void) {
    struct rdmad_cqe cqe = rig_reap();
    cr_expect_eq(cqe.user_data, 1);
    cr_expect_eq(cqe.status, 0, "%s", rdmad_last_error(s));
    cr_expect(rdmad_is_open(s), "the session is lost: %s", s->lost_text);
}

static void expect_pauses(void) {
    unsigned n = __atomic_load_n(&tries, __ATOMIC_ACQUIRE);
    cr_expect_geq(n, 2, "it was not tried again");
    cr_expect_leq(n, TRIES_MOST, "%u tries in a second", n);
}

Test(ring_again, a_ring_that_there_was_no_room_for_is_made_when_there_is) {
    static const int why[] = {RDMAD_E_LIMIT, RDMAD_E_NOMEM, RDMAD_E_SYSTEM, RDMAD_E_SHUTDOWN};
    rig_play(done);
    for (unsigned i = 0; i < sizeof(why) / sizeof(*why); i++) {
        refused_with = why[i];
        first_ns = tries = 0;
        postpone_one();
        expect_done();
        expect_pauses();
        rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
    }
}

Test(ring_again, a_ring_that_could_not_be_begun_is_made_again_with_what_was_submitted) {
    refused_type = RDMAD_MSG_RING_READY;
    refused_with = RDMAD_E_NOMEM;
    rig_play(done);
    postpone_one();
    expect_done();
    cr_expect_eq(__atomic_load_n(&destroyed, __ATOMIC_ACQUIRE), 1, "the daemon keeps the first");
}

Test(ring_again, a_shortage_that_lasts_costs_the_session_in_the_end) {
    struct rdmad_cqe cqe;
    for_ever = true;
    postpone_one();
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
    s->call_timeout_ns = PATIENCE_NS;
    cqe = rig_reap();
    cr_expect_eq(cqe.status, RDMAD_E_DAEMON_LOST);
    cr_expect_eq(s->lost_reason, RDMAD_E_LIMIT);
    cr_expect_not_null(strstr(s->lost_text, "cannot be made again"), "%s", s->lost_text);
    cr_expect_geq(__atomic_load_n(&tries, __ATOMIC_ACQUIRE), 2, "it was not tried again");
}

static unsigned tries_now(void) {
    return __atomic_load_n(&tries, __ATOMIC_ACQUIRE);
}

/* Looks until it was tried once more, or the session is lost. */
static void look(void) {
    const struct rdmad_cqe *cqe;
    unsigned before = tries_now();
    while (!rdmad_is_lost(s) && tries_now() == before)
        (void)rdmad_ring_peek(ring, &cqe);
}

/* As if nobody had looked for twice the patience since it could have been tried again. */
static void leave_alone(void) {
    cr_assert_neq(ring->again.next_ns, 0, "it is not to be tried again");
    ring->again.since_ns -= 2 * PATIENCE_NS;
    ring->again.next_ns -= 2 * PATIENCE_NS;
}

Test(ring_again, time_in_which_nobody_looks_for_completions_does_not_cost_the_session) {
    for_ever = true;
    postpone_one();
    look();
    s->call_timeout_ns = PATIENCE_NS;
    for (unsigned i = 0; i < 3; i++) {
        leave_alone();
        look();
        cr_assert(rdmad_is_open(s), "lost after %u tries: %s", tries_now(), s->lost_text);
    }
    for_ever = false;
    leave_alone();
    rig_play(done);
    expect_done();
}

Test(ring_again, a_shortage_that_lasts_ends_also_for_who_looks_seldom) {
    for_ever = true;
    postpone_one();
    look();
    s->call_timeout_ns = PATIENCE_NS;
    for (unsigned i = 0; i < 1000 && !rdmad_is_lost(s); i++) {
        leave_alone();
        look();
    }
    cr_expect_eq(s->lost_reason, RDMAD_E_LIMIT, "after %u tries: %s", tries_now(), s->lost_text);
}

Test(ring_again, a_blocking_transfer_waits_for_its_ring) {
    rig_play(done);
    cr_assert_eq(rdmad_write(lease, 0, memory, 64), 0, "%s", rdmad_last_error(s));
    rig_daemon_follows();
    cr_expect_eq(rdmad_write(lease, 0, memory, 64), 0, "%s", rdmad_last_error(s));
    expect_pauses();
}

/* ---- a daemon that does not answer --------------------------------------------------------- */

#define LATE_RING 77u

static bool silent, stop_answering; /* atomic */
static uint32_t asked_last;         /* atomic; the number of the last request for a ring */
static unsigned asks;               /* atomic */

static bool say_nothing_of_rings(struct fake_daemon *f, const struct rdmad_msg_header *h,
                                 const void *body) {
    if (h->type == RDMAD_MSG_RING_DESTROY)
        __atomic_add_fetch(&destroyed, 1, __ATOMIC_RELEASE);
    if (h->type == RDMAD_MSG_RING_READY &&
        ((const struct rdmad_ring_ready_req *)body)->ring == LATE_RING) {
        fake_reply(f, h, NULL, 0);
        return true;
    }
    if (__atomic_load_n(&stop_answering, __ATOMIC_ACQUIRE) && h->type == RDMAD_MSG_NAMES_UNWATCH)
        return true;
    if (h->type != RDMAD_MSG_RING_CREATE || __atomic_load_n(&f->lives, __ATOMIC_ACQUIRE) < 2)
        return false;
    __atomic_add_fetch(&asks, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&asked_last, h->seq, __ATOMIC_RELEASE);
    return __atomic_load_n(&silent, __ATOMIC_ACQUIRE);
}

static unsigned asks_now(void) {
    return __atomic_load_n(&asks, __ATOMIC_ACQUIRE);
}

/* It answers all else. */
static void next_one_is_silent(void) {
    fake.hook = say_nothing_of_rings;
    __atomic_store_n(&silent, true, __ATOMIC_RELEASE);
    postpone_one();
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
}

static void answer_late(void) {
    struct rdmad_ring_create_rep reply = {
        .ring = LATE_RING, .sq_entries = RIG_ENTRIES, .cq_entries = 2 * RIG_ENTRIES};
    static struct fake_ring late;
    int fds[RDMAD_RING_FDS];
    fake_ring_make(&late, RIG_ENTRIES, fds);
    fake_send(&fake, RDMAD_MSG_RING_CREATE | RDMAD_MSG_REPLY, asked_last, 0, &reply, sizeof(reply),
              fds, RDMAD_RING_FDS);
    for (unsigned i = 0; i < RDMAD_RING_FDS; i++)
        close(fds[i]);
}

static void refuse_late(void) {
    struct rdmad_msg_error e = {.text = "as the test has it"};
    fake_send(&fake, RDMAD_MSG_RING_CREATE | RDMAD_MSG_REPLY, asked_last, RDMAD_E_LIMIT, &e,
              sizeof(e), NULL, 0);
}

/* Looks until it is asked for, or until that is answered. */
static void look_until(bool asked) {
    const struct rdmad_cqe *cqe;
    for (unsigned i = 0; i < 5000 && !!ring->making != asked; i++) {
        cr_assert_eq(rdmad_ring_peek(ring, &cqe), RDMAD_E_AGAIN, "%s", s->lost_text);
        usleep(1000);
    }
    cr_assert_eq(!!ring->making, asked);
}

/* The answer is looked at before the time that was set for another look. */
Test(ring_again, how_long_a_ring_is_tried_does_not_grow_by_an_answer_that_is_early) {
    next_one_is_silent();
    look_until(true);
    refuse_late();
    look_until(false);
    look_until(true);
    uint64_t since_ns = ring->again.since_ns;
    ring->again.next_ns += 60000 * RDMAD_NS_PER_MS;
    refuse_late();
    look_until(false);
    cr_expect_eq(ring->again.since_ns, since_ns);
}

Test(ring_again, who_looks_for_completions_does_not_wait_for_a_daemon_that_hangs) {
    const struct rdmad_cqe *cqe;
    next_one_is_silent();
    for (unsigned i = 0; i < 20; i++) {
        uint64_t began = rdmad_monotonic_ns();
        cr_expect_eq(rdmad_ring_peek(ring, &cqe), RDMAD_E_AGAIN);
        cr_expect_eq(rdmad_ring_arm(ring), 0);
        cr_expect_eq(rdmad_ring_wait(ring, 20, &cqe), RDMAD_E_TIMEOUT);
        cr_expect_lt(rdmad_monotonic_ns() - began, 10000 * RDMAD_NS_PER_MS);
    }
    cr_expect_eq(asks_now(), 1, "it was asked %u times", asks_now());
    answer_late();
    for (unsigned i = 0; i < 1000 && ring->state != RDMAD_RING_LIVE; i++)
        rdmad_ring_wait(ring, 5, &cqe);
    cr_expect_eq(ring->handle, LATE_RING, "the late answer is not taken");
}

Test(ring_again, who_waits_for_ever_finds_that_the_daemon_hangs) {
    struct rdmad_cqe cqe;
    next_one_is_silent();
    s->call_timeout_ns = PATIENCE_NS / 10;
    rdmad_presence_begin(s);
    __atomic_store_n(&stop_answering, true, __ATOMIC_RELEASE);
    cqe = rig_reap();
    cr_expect_eq(cqe.status, RDMAD_E_DAEMON_LOST);
    cr_expect_eq(s->lost_reason, RDMAD_E_TIMEOUT, "%s", s->lost_text);
}

Test(ring_again, the_next_daemon_is_asked_when_one_has_not_answered) {
    const struct rdmad_cqe *cqe;
    rig_play(done);
    next_one_is_silent();
    cr_expect_eq(rdmad_ring_wait(ring, 50, &cqe), RDMAD_E_TIMEOUT);
    __atomic_store_n(&silent, false, __ATOMIC_RELEASE);
    rig_daemon_follows();
    expect_done();
    cr_expect_eq(asks_now(), 2);
}

Test(ring_again, what_was_asked_for_ends_with_its_ring) {
    const struct rdmad_cqe *cqe;
    next_one_is_silent();
    cr_expect_eq(rdmad_ring_wait(ring, 50, &cqe), RDMAD_E_TIMEOUT);
    answer_late();
    rdmad_ring_destroy(ring);
    for (unsigned i = 0; i < 5000 && !__atomic_load_n(&destroyed, __ATOMIC_ACQUIRE); i++)
        usleep(1000);
    cr_expect_eq(__atomic_load_n(&destroyed, __ATOMIC_ACQUIRE), 1, "the daemon keeps it");
}

/* ---- event loops ---------------------------------------------------------------------------- */

static unsigned wakes;

/* As a program does it: all that there is, then arm, then sleep. */
static void loop_until_done(int fd) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    const struct rdmad_cqe *cqe;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    for (;; wakes++) {
        while (rdmad_next_event(s, 0, &e) == 0)
            cr_assert_eq(e.type, RDMAD_EVENT_SESSION_RESUMED, "%u: %s", e.type, e.text);
        if (rdmad_ring_peek(ring, &cqe) == 0)
            break;
        int rc = rdmad_ring_arm(ring);
        if (rc == RDMAD_E_AGAIN)
            continue;
        cr_assert_eq(rc, 0, "%s", rdmad_last_error(s));
        cr_assert_eq(poll(&p, 1, 20000), 1, "nothing wakes the loop, after %u tries", tries);
    }
    cr_expect_eq(cqe->status, 0);
    rdmad_ring_seen(ring, cqe);
}

static void run_loop(int fd) {
    cr_assert_geq(fd, 0);
    rig_play(done);
    postpone_one();
    loop_until_done(fd);
    expect_pauses();
    cr_expect_leq(wakes, 2 * TRIES_MOST, "the loop was woken %u times in a second", wakes);
}

Test(ring_again, a_loop_on_the_rings_descriptor_is_woken_for_each_try) {
    run_loop(rdmad_ring_fd(ring));
}

Test(ring_again, a_loop_on_the_sessions_descriptor_is_woken_for_each_try) {
    run_loop(rdmad_session_fd(s));
}

Test(ring_again, a_loop_hears_of_a_session_that_is_lost_meanwhile) {
    int fd = rdmad_ring_fd(ring);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    for_ever = true;
    postpone_one();
    while (__atomic_load_n(&tries, __ATOMIC_ACQUIRE) < 2) {
        cr_assert_eq(rdmad_ring_arm(ring), 0, "%s", rdmad_last_error(s));
        cr_assert_eq(poll(&p, 1, 20000), 1, "nothing wakes the loop");
    }
    cr_assert_eq(rdmad_ring_arm(ring), 0, "%s", rdmad_last_error(s));
    s->call_timeout_ns = PATIENCE_NS;
    fake_go(&fake);
    while (!rdmad_is_lost(s))
        usleep(1000);
    cr_expect_eq(poll(&p, 1, 20000), 1, "nothing wakes the loop");
    cr_expect_eq(rdmad_ring_arm(ring), RDMAD_E_AGAIN, "the op has ended");
}
