/* SPDX-License-Identifier: MIT */
/*
 * Of which daemon a ring is, when that answers READY and goes before the thread that makes the ring
 * runs on.
 */
#include "libclient/base/session.h" /* first: its parameters are named as our globals */

#include "common/ringword.h"
#include "tests/unit/stall_rig.h"
#include <criterion/criterion.h>
#include <unistd.h>

static uint32_t untaken; /* what the page of a ring says once it is ready */
static rdmad_ring *second;

static bool tell_untaken(struct fake_daemon *f, const struct rdmad_msg_header *h,
                         const void *body) {
    const struct rdmad_ring_ready_req *req = body;
    if (h->type == RDMAD_MSG_RING_READY)
        ringword_publish(&f->rings[req->ring - 21].daemon->untaken, untaken);
    return false;
}

static void up(void) {
    fake.outlived = true;
    fake.hook = tell_untaken;
    rig_set_up();
}

TestSuite(ring_resume, .init = up, .fini = rig_tear_down);

static void make_second(void) {
    cr_expect_eq(rdmad_ring_create(s, RIG_ENTRIES, &second), 0, "%s", rdmad_last_error(s));
}

static void look_at(rdmad_ring *r) {
    const struct rdmad_cqe *cqe;
    cr_expect_eq(rdmad_ring_peek(r, &cqe), RDMAD_E_AGAIN);
}

static void look(void) {
    look_at(ring);
}

Test(ring_resume, notices_are_counted_by_a_ring_that_was_just_made_anew) {
    make_second();
    rig_daemon_follows();
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
    look_at(second);
    untaken = 3;
    stall_call(RDMAD_MSG_RING_READY, look);
    cr_assert_eq(stall_events(RDMAD_EVENT_NOTIFICATIONS_LOST), 1, "they are lost without a word");
}

Test(ring_resume, notices_are_counted_by_a_ring_that_was_just_made) {
    untaken = 3;
    stall_call(RDMAD_MSG_RING_READY, make_second);
    cr_assert_eq(stall_events(RDMAD_EVENT_NOTIFICATIONS_LOST), 1, "they are lost without a word");
}

/* Who listens to nothing but that the session goes on hears all that is lost before. */
Test(ring_resume, a_loss_is_told_before_the_session_goes_on_also_twice_in_a_row) {
    rig_daemon_follows();
    untaken = 3;
    make_second();
    rig_daemon_follows();
    while (!rdmad_is_open(s))
        usleep(1000);
    rig_expect_event(RDMAD_EVENT_NOTIFICATIONS_LOST);
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
}

Test(ring_resume, a_ring_that_was_made_anew_is_of_the_daemon_that_made_it) {
    rig_daemon_follows();
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
    stall_call(RDMAD_MSG_RING_READY, look);
    look();
    cr_assert(stall_asked(RDMAD_MSG_RING_READY, NULL, 0), "the daemon before has it");
}

Test(ring_resume, a_ring_that_was_made_is_of_the_daemon_that_made_it) {
    stall_call(RDMAD_MSG_RING_READY, make_second);
    look_at(second);
    cr_assert(stall_asked(RDMAD_MSG_RING_READY, NULL, 0), "the daemon before has it");
}
