/* SPDX-License-Identifier: MIT */
/*
 * Handles whose owner is away when the next daemon takes their session over: a fake daemon says
 * BUSY to each, after a while.
 */
#include "tests/unit/client_rig.h"
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

enum { HANDLES = 4, FIRST = 31, ANSWER_MS = 200, PATIENCE_MS = 20000 };

static rdmad_lease *handle[HANDLES];
static unsigned attached, asked[HANDLES], given; /* atomic */
static bool back;                                /* atomic; the owner is */
static int refused_with = RDMAD_E_BUSY;

static void answer_again(struct fake_daemon *f, const struct rdmad_msg_header *h, uint64_t number) {
    cr_assert(number >= FIRST && number < FIRST + HANDLES);
    __atomic_add_fetch(&asked[number - FIRST], 1, __ATOMIC_RELEASE);
    if (__atomic_load_n(&back, __ATOMIC_ACQUIRE)) {
        fake_reply_attached(f, h, number);
        __atomic_add_fetch(&given, 1, __ATOMIC_RELEASE);
        return;
    }
    usleep(refused_with == RDMAD_E_BUSY ? 1000 * ANSWER_MS : 1000);
    fake_refuse(f, h, refused_with, "as the test has it");
}

static bool answer_attach(struct fake_daemon *f, const struct rdmad_msg_header *h,
                          const void *body) {
    if (h->type == RDMAD_MSG_LEASE_ATTACH)
        fake_reply_attached(f, h, FIRST + attached++);
    else if (h->type == RDMAD_MSG_ATTACH_RESUME)
        answer_again(f, h, ((const struct rdmad_attach_resume_req *)body)->handle);
    else
        return false;
    return true;
}

static void up(void) {
    fake.outlived = true;
    fake.hook = answer_attach;
    rig_set_up();
    handle[0] = lease;
    for (unsigned i = 1; i < HANDLES; i++)
        cr_assert_eq(rdmad_lease_attach(s, "name", 0, &handle[i]), 0, "%s", rdmad_last_error(s));
}

TestSuite(attach_resume, .init = up, .fini = rig_tear_down);

static unsigned least_asked(void) {
    unsigned least = UINT32_MAX;
    for (unsigned i = 0; i < HANDLES; i++) {
        unsigned n = __atomic_load_n(&asked[i], __ATOMIC_ACQUIRE);
        least = n < least ? n : least;
    }
    return least;
}

static void await_given(void) {
    __atomic_store_n(&back, true, __ATOMIC_RELEASE);
    for (unsigned ms = 0; ms < PATIENCE_MS; ms += 10) {
        if (__atomic_load_n(&given, __ATOMIC_ACQUIRE) == HANDLES)
            break;
        usleep(10000);
    }
    cr_expect_eq(given, HANDLES, "%u handles are back", given);
}

static void expect_alive(void) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    cr_expect_eq(rdmad_next_event(s, 0, &e), RDMAD_E_TIMEOUT, "%u: %s", e.type, e.text);
    for (unsigned i = 0; i < HANDLES; i++) {
        struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
        rdmad_lease_get_info(handle[i], &info);
        cr_expect_eq(info.ended, 0, "handle %u has ended with %d", i, info.ended);
    }
}

Test(attach_resume, each_handle_has_its_turn_however_slow_the_answers_are) {
    rig_daemon_follows();
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
    cr_expect_geq(least_asked(), 1, "the session is opened before each was asked for once");
    for (unsigned ms = 0; ms < PATIENCE_MS && least_asked() < 3; ms += 10)
        usleep(10000);
    cr_expect_geq(least_asked(), 3, "one handle is asked for without end, and another is not");
    expect_alive();
    await_given();
    usleep(500000);
    cr_expect_eq(given, HANDLES, "what is back is asked for again");
    expect_alive();
}

Test(attach_resume, what_a_moment_mends_is_asked_for_again) {
    static const int mends[] = {RDMAD_E_NOMEM, RDMAD_E_LIMIT};
    for (unsigned i = 0; i < sizeof(mends) / sizeof(*mends); i++) {
        refused_with = mends[i];
        given = 0;
        __atomic_store_n(&back, false, __ATOMIC_RELEASE);
        rig_daemon_follows();
        rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
        expect_alive();
        await_given();
        expect_alive();
    }
}
