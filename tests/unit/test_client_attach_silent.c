/* SPDX-License-Identifier: MIT */
/*
 * Handles whose owners' daemons are silent when the next daemon takes their session over: each
 * answer takes as long as a daemon waits for another.
 */
#include "libclient/base/clock.h"
#include "tests/unit/client_rig.h"
#include <criterion/criterion.h>
#include <limits.h>
#include <unistd.h>

enum { HANDLES = 100, FIRST = 31, QUESTIONS = 1024, TOGETHER_MS = 10000 };

static rdmad_lease *handle[HANDLES];
static unsigned handles = HANDLES, attached;
static unsigned asked[HANDLES], questions; /* atomic */
static unsigned asked_once;                /* how many handles */
static bool asked_unfairly;                /* one for a second time before all were once */
static bool placed[HANDLES];               /* it was asked for, or its place */
static unsigned unplaced = UINT_MAX;       /* how many were not, when the program attached anew */

/* What waits for an answer, which another thread gives: the daemon reads on meanwhile. */
static struct {
    struct rdmad_msg_header header;
    uint64_t number, came_ns;
} question[QUESTIONS];

static unsigned asked_so_far(void) {
    return __atomic_load_n(&questions, __ATOMIC_ACQUIRE);
}

static void count_unplaced(void) {
    unplaced = 0;
    for (unsigned i = 0; i < handles; i++)
        unplaced += !placed[i];
}

static bool note_question(struct fake_daemon *f, const struct rdmad_msg_header *h,
                          const void *body) {
    const struct rdmad_attach_resume_req *again = body;
    unsigned n = questions;
    (void)f;
    if (h->type == RDMAD_MSG_LEASE_ATTACH) {
        count_unplaced();
        fake_reply_attached(&fake, h, FIRST + attached++);
        return true;
    }
    if (h->type != RDMAD_MSG_ATTACH_RESUME)
        return false;
    placed[again->handle - FIRST] = true;
    if (again->attach.timeout_ns == RDMAD_ATTACH_RESERVE_NS) {
        fake_refuse(&fake, h, RDMAD_E_TIMEOUT, "as the test has it");
        return true;
    }
    cr_assert_lt(n, QUESTIONS);
    question[n].header = *h;
    question[n].number = again->handle;
    question[n].came_ns = rdmad_monotonic_ns();
    if (__atomic_fetch_add(&asked[question[n].number - FIRST], 1, __ATOMIC_RELEASE) == 0)
        asked_once++;
    else if (asked_once < handles)
        asked_unfairly = true;
    __atomic_store_n(&questions, n + 1, __ATOMIC_RELEASE);
    return true;
}

static void up(unsigned how_many) {
    handles = how_many;
    fake.outlived = true;
    fake.hook = note_question;
    rig_set_up();
    handle[0] = lease;
    for (unsigned i = 1; i < handles; i++)
        cr_assert_eq(rdmad_lease_attach(s, "name", 0, &handle[i]), 0, "%s", rdmad_last_error(s));
}

/* ---- at the same time ----------------------------------------------------------------------- */

static bool together;

TestSuite(attach_silent, .timeout = 120);

/* Nobody is answered before all have asked. */
static void *answer_together(void *unused) {
    for (unsigned ms = 0; ms < TOGETHER_MS && asked_so_far() < handles; ms += 10)
        usleep(10000);
    together = asked_so_far() == handles;
    for (unsigned n = 0; n < handles; n++) {
        while (n == asked_so_far())
            usleep(1000);
        fake_reply_attached(&fake, &question[n].header, question[n].number);
    }
    return unused;
}

Test(attach_silent, no_handle_waits_for_the_answer_to_another) {
    pthread_t t;
    up(20);
    cr_assert_eq(pthread_create(&t, NULL, answer_together, NULL), 0);
    rig_daemon_follows();
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
    pthread_join(t, NULL);
    cr_expect(together, "the first was waited for before the others were asked for");
    rig_tear_down();
}

/* ---- more than are asked for at once -------------------------------------------------------- */

enum { ANSWER_MS = 4000 };

static bool stop; /* atomic */

static void *answer_late(void *unused) {
    for (unsigned n = 0; !__atomic_load_n(&stop, __ATOMIC_ACQUIRE);) {
        if (n == asked_so_far() ||
            rdmad_monotonic_ns() < question[n].came_ns + ANSWER_MS * RDMAD_NS_PER_MS) {
            usleep(1000);
            continue;
        }
        fake_refuse(&fake, &question[n++].header, RDMAD_E_NO_LEASE, "as the test has it");
    }
    return unused;
}

static unsigned index_of(const rdmad_lease *which) {
    unsigned i = 0;
    while (i < handles && handle[i] != which)
        i++;
    cr_assert_lt(i, handles);
    return i;
}

Test(attach_silent, many_neither_keep_the_session_closed_nor_are_given_up_unasked) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    pthread_t t;
    up(HANDLES);
    cr_assert_eq(pthread_create(&t, NULL, answer_late, NULL), 0);
    rig_daemon_follows();
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
    cr_expect_lt(asked_so_far(), HANDLES, "the session was not open before all had answered");
    for (unsigned i = 0; i < HANDLES; i++) {
        cr_assert_eq(rdmad_next_event(s, 60000, &e), 0, "%s", rdmad_last_error(s));
        cr_assert_eq(e.type, RDMAD_EVENT_LEASE_ENDED, "%u: %s", e.type, e.text);
        cr_assert_eq(e.reason, RDMAD_E_NO_LEASE, "%s", e.text);
        cr_expect_geq(__atomic_load_n(&asked[index_of(e.lease)], __ATOMIC_ACQUIRE), 1,
                      "handle %u was given up, and not asked for", index_of(e.lease));
    }
    cr_expect_not(asked_unfairly, "a handle was asked for again before another was at all");
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    pthread_join(t, NULL);
    rig_tear_down();
}

Test(attach_silent, none_loses_its_place_to_a_lease_that_is_attached_first) {
    rdmad_lease *other;
    pthread_t t;
    up(HANDLES);
    cr_assert_eq(pthread_create(&t, NULL, answer_late, NULL), 0);
    rig_daemon_follows();
    cr_assert_eq(rdmad_lease_attach(s, "other", 0, &other), 0, "%s", rdmad_last_error(s));
    cr_expect_eq(unplaced, 0, "%u handles had no place yet", unplaced);
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    pthread_join(t, NULL);
    rig_tear_down();
}
