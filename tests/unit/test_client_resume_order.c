/* SPDX-License-Identifier: MIT */
/*
 * Two sessions of a process at one daemon, each of which is lessee of somebody's lease. A fake
 * daemon serves one session, so two of them take turns at the same path.
 */
#include "libclient/base/session.h" /* first: its parameters are named as our globals */

#include "libclient/base/clock.h"
#include "libclient/control/control.h"
#include "tests/unit/client_rig.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

enum { LIVES = 6 }; /* either session may be the first to find the next daemon */

static struct fake_daemon other;
static rdmad_session *other_s;
static unsigned handed_back; /* atomic; in this life */
static bool asked_too_early; /* atomic; for a lease, before both were handed back */
static bool one_is_slow;     /* atomic; to be handed back, for longer than the other has patience */

static void move(const char *from_dir, const char *from, const char *to) {
    char old[128], new[128];
    snprintf(old, sizeof(old), "%s/%s", from_dir, from);
    snprintf(new, sizeof(new), "%s/%s", fake.dir, to);
    cr_assert_eq(rename(old, new), 0, "%s to %s", old, new);
}

static void swap_places(void) {
    move(fake.dir, "rdmad.sock", "was");
    move(fake.dir, "next", "rdmad.sock");
    move(fake.dir, "was", "next");
}

static void be_slow(void) {
    bool first = __atomic_load_n(&s->state, __ATOMIC_ACQUIRE) == RDMAD_SESSION_RESUMING;
    (first ? other_s : s)->call_timeout_ns = 2000 * RDMAD_NS_PER_MS;
    usleep(2000000);
}

static bool note_order(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    (void)f;
    (void)body;
    if (h->type == RDMAD_MSG_SESSION_RESUME &&
        __atomic_add_fetch(&handed_back, 1, __ATOMIC_ACQ_REL) == 1) {
        swap_places();
        if (__atomic_load_n(&one_is_slow, __ATOMIC_ACQUIRE))
            be_slow();
    }
    if (h->type == RDMAD_MSG_ATTACH_RESUME && __atomic_load_n(&handed_back, __ATOMIC_ACQUIRE) < 2)
        __atomic_store_n(&asked_too_early, true, __ATOMIC_RELEASE);
    return false;
}

static void up(void) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    rdmad_lease *its;
    fake.outlived = other.outlived = true;
    fake.hook = other.hook = note_order;
    rig_set_up();
    fake_start(&other);
    move(fake.dir, "rdmad.sock", "next");
    move(other.dir, "rdmad.sock", "rdmad.sock");
    o.runtime_dir = fake.dir;
    cr_assert_eq(rdmad_open(&o, &other_s), 0, "%s", rdmad_last_error(NULL));
    cr_assert_eq(rdmad_lease_attach(other_s, "name", 0, &its), 0);
}

static void down(void) {
    move(fake.dir, "next", "gone"); /* where it is removed */
    rdmad_close(other_s);
    rig_tear_down();
    fake_stop(&other);
}

TestSuite(resume_order, .init = up, .fini = down, .timeout = 60);

/* For long enough that both wait for some time between two looks. */
static void both_lose_their_daemon(void) {
    __atomic_store_n(&handed_back, 0, __ATOMIC_RELEASE);
    fake_hide(&fake);
    fake_hang_up(&other);
    fake_hang_up(&fake);
    while (rdmad_is_open(s) || rdmad_is_open(other_s))
        usleep(1000);
    usleep(400000);
}

static void expect_resumed(rdmad_session *which) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    cr_assert_eq(rdmad_next_event(which, 20000, &e), 0, "%s", rdmad_last_error(which));
    cr_assert_eq(e.type, RDMAD_EVENT_SESSION_RESUMED, "%u: %s", e.type, e.text);
}

Test(resume_order, what_all_have_is_handed_back_before_one_waits_for_what_others_have) {
    for (unsigned life = 0; life < LIVES; life++) {
        both_lose_their_daemon();
        fake_come_back(&fake);
        expect_resumed(s);
        expect_resumed(other_s);
        cr_expect_not(__atomic_load_n(&asked_too_early, __ATOMIC_ACQUIRE),
                      "life %u: one asked for its lease, and the other was not back", life);
    }
}

Test(resume_order, who_only_waits_for_another_session_is_tried_before_it_is_given_up) {
    __atomic_store_n(&one_is_slow, true, __ATOMIC_RELEASE);
    both_lose_their_daemon();
    fake_come_back(&fake);
    expect_resumed(s);
    expect_resumed(other_s);
}

/* ---- one session ---------------------------------------------------------------------------- */

/* The thread has begun to step it, for its rings, and waits for the lock. */
Test(resume_order_of_one, one_that_goes_away_as_it_is_looked_at_has_been_away_since_then,
     .timeout = 60) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    unsigned long long away_ms, since_ns = rdmad_monotonic_ns();
    fake.outlived = true;
    rig_set_up();
    pthread_mutex_lock(&s->lock);
    __atomic_store_n(&s->rings_wake_ns, 1, __ATOMIC_RELEASE);
    s->wake_resumer(s);
    usleep(300000);
    rdmad_control_gone(s, "as the test has it");
    pthread_mutex_unlock(&s->lock);
    cr_assert_eq(rdmad_next_event(s, 20000, &e), 0, "%s", rdmad_last_error(s));
    cr_assert_eq(e.type, RDMAD_EVENT_SESSION_RESUMED, "%u: %s", e.type, e.text);
    cr_assert_eq(sscanf(e.text, "rdmad had gone; after %llu ms", &away_ms), 1, "%s", e.text);
    cr_expect_leq(away_ms, (rdmad_monotonic_ns() - since_ns) / RDMAD_NS_PER_MS, "%s", e.text);
    rig_tear_down();
}
