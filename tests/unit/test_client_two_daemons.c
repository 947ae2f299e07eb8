/* SPDX-License-Identifier: MIT */
/* Two sessions of a process, each with a daemon of its own, and a thread for each that resumes it.
 */
#include "libclient/base/session.h" /* first: its parameters are named as our globals */

#include "libclient/base/clock.h"
#include "tests/unit/client_rig.h"
#include <criterion/criterion.h>
#include <unistd.h>

static struct fake_daemon other;
static rdmad_session *other_s;
static bool hangs;       /* atomic; the first daemon, in its next lives */
static unsigned greeted; /* atomic; how often that one was */

static bool say_nothing(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    (void)f;
    (void)body;
    if (h->type == RDMAD_MSG_HELLO)
        __atomic_add_fetch(&greeted, 1, __ATOMIC_RELEASE);
    return __atomic_load_n(&hangs, __ATOMIC_ACQUIRE);
}

static void up(void) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    fake.outlived = other.outlived = true;
    fake.hook = say_nothing;
    rig_set_up();
    s->call_timeout_ns = UINT64_MAX;
    fake_start(&other);
    o.runtime_dir = other.dir;
    cr_assert_eq(rdmad_open(&o, &other_s), 0, "%s", rdmad_last_error(NULL));
}

static void down(void) {
    rdmad_close(other_s);
    rig_tear_down();
    fake_stop(&other);
}

TestSuite(two_daemons, .init = up, .fini = down, .timeout = 60);

static void await_greeted(unsigned times) {
    for (unsigned ms = 0; ms < 20000 && __atomic_load_n(&greeted, __ATOMIC_ACQUIRE) < times; ms++)
        usleep(1000);
    cr_assert_geq(__atomic_load_n(&greeted, __ATOMIC_ACQUIRE), times, "it was not greeted again");
}

static void first_hangs(void) {
    __atomic_store_n(&hangs, true, __ATOMIC_RELEASE);
    fake_go(&fake);
    fake_come_back(&fake);
    await_greeted(2);
}

Test(two_daemons, one_that_hangs_when_it_comes_keeps_no_other_from_being_resumed) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    s->resume_call_ns = UINT64_MAX;
    first_hangs();
    fake_go(&other);
    fake_come_back(&other);
    cr_assert_eq(rdmad_next_event(other_s, 10000, &e), 0, "the other one is not resumed");
    cr_assert_eq(e.type, RDMAD_EVENT_SESSION_RESUMED, "%u: %s", e.type, e.text);
}

Test(two_daemons, one_that_hung_when_it_came_is_tried_again) {
    s->resume_call_ns = 400 * RDMAD_NS_PER_MS;
    first_hangs();
    await_greeted(3);
    cr_assert_not(rdmad_is_lost(s), "it was to be waited for without a limit");
    __atomic_store_n(&hangs, false, __ATOMIC_RELEASE);
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
}

Test(two_daemons, one_that_hangs_when_it_comes_is_waited_for_no_longer_than_was_chosen) {
    s->call_timeout_ns = 1000 * RDMAD_NS_PER_MS;
    first_hangs();
    rig_expect_event(RDMAD_EVENT_SESSION_LOST);
}
