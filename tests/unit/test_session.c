/* SPDX-License-Identifier: MIT */
/*
 * Sessions and their rings: whatever is interrupted at whatever moment, every byte, descriptor and
 * charge comes back, and not before nobody uses it any more. test_pool.c has the pools.
 */
#include "daemon/base/hole_guard.h"
#include "daemon/state/origin.h"
#include "daemon/state/pause.h"
#include "tests/unit/session_rig.h"

TestSuite(session, .init = rig_set_up, .fini = rig_tear_down);

/* ---- rings ---------------------------------------------------------------------------------- */

Test(session, a_ring_is_charged_and_goes_when_its_worker_let_go) {
    unsigned done = 0;
    struct error err;
    struct session *s = session();
    uint64_t handle = make_ring(s)->handle;
    cr_assert_eq(charged(QUOTA_RINGS), 1);
    cr_assert_eq(charged(QUOTA_BYTES), 8192);
    cr_assert_eq(ring_object_destroy(s, handle, on_done, &done, NULL), 0);
    cr_assert_eq(mappings_of("rdmad-ring"), 2);
    fake_answer(fake_call(FAKE_RING_DROP, -1), 0);
    cr_assert_eq(done, 1);
    UNTIL(charged(QUOTA_RINGS) == 0);
    cr_assert_eq(ring_object_destroy(s, handle, on_done, &done, &err), RDMAD_E_HANDLE);
    session_close(s, NULL);
}

Test(session, closing_while_a_worker_takes_a_ring_gives_all_of_it_back) {
    struct session *s = session();
    nearly_ready_ring(s);
    session_close(s, NULL);
    fake_answer(fake_call(FAKE_RING_ADD, -1), 0);
    cr_assert_eq(out.code, RDMAD_E_SHUTDOWN);
}

Test(session, closing_while_a_ring_is_made_gives_all_of_it_back) {
    struct session *s = session();
    ask_ring(s);
    session_close(s, NULL);
    UNTIL(out.calls);
    cr_assert_eq(out.code, RDMAD_E_SHUTDOWN);
}

Test(session, a_ring_that_the_worker_refuses_can_be_destroyed) {
    struct session *s = session();
    unsigned done = 0;
    struct ring_object *ro = nearly_ready_ring(s);
    fake_answer(fake_call(FAKE_RING_ADD, -1), RDMAD_E_NOMEM);
    cr_assert_eq(out.code, RDMAD_E_NOMEM);
    cr_assert_eq(ring_object_destroy(s, ro->handle, on_done, &done, NULL), 0);
    cr_assert_eq(done, 1);
    UNTIL(charged(QUOTA_RINGS) == 0);
    session_close(s, NULL);
}

Test(session, a_ring_destroyed_while_it_is_made_ready_is_freed_once) {
    for (int refused = 0; refused < 2; refused++) {
        unsigned done = 0;
        struct session *s = session();
        struct ring_object *ro = nearly_ready_ring(s);
        cr_assert_eq(ring_object_destroy(s, ro->handle, on_done, &done, NULL), 0);
        fake_answer(fake_call(FAKE_RING_ADD, -1), refused ? RDMAD_E_NOMEM : 0);
        cr_assert_eq(out.code, refused ? RDMAD_E_NOMEM : RDMAD_E_CANCELED);
        fake_answer(fake_call(FAKE_RING_DROP, -1), 0);
        cr_assert_eq(done, 1);
        UNTIL(charged(QUOTA_RINGS) == 0);
        session_close(s, NULL);
    }
}

Test(session, rings_of_one_session_are_limited) {
    struct session *s = session();
    st.quota.limits.session[QUOTA_RINGS] = 2;
    make_ring(s);
    make_ring(s);
    ask_ring(s);
    cr_assert_eq(out.code, RDMAD_E_LIMIT);
    cr_assert_not_null(strstr(out.text, "limits.rings_per_session"));
    session_close(s, NULL);
}

/* ---- sessions ------------------------------------------------------------------------------- */

Test(session, memory_is_unmapped_only_after_the_data_plane_dropped_the_session) {
    struct session *s = session();
    make_pool(s);
    make_pool(s);
    make_ring(s);
    session_close(s, NULL);
    session_close(s, NULL);
    cr_assert_eq(fake_count(FAKE_SESSION_DROP), 1, "closing twice is closing once");
    mailbox_drain(&box);
    cr_assert_eq(mappings_of("rdmad-"), 4);
    cr_assert_eq(charged(QUOTA_SESSIONS), 1);
    fake_answer(fake_call(FAKE_SESSION_DROP, -1), 0);
    UNTIL(list_empty(&st.sessions));
}

/* Of its user, who is the only one. */
static const struct usage_user *usage_of_user(void) {
    return list_entry(st.usage.users.next, struct usage_user, node);
}

Test(session, what_its_ops_came_to_outlives_it_to_the_last) {
    struct session *s = session(), *other = session();
    struct usage_sums sums = {0};
    struct histogram times = {0};
    struct plane_session *plane = s->plane;
    fake_session_did(plane, 1000, 7);
    fake_session_did(other->plane, 1000, 1);
    session_usage(s, &sums, &times);
    cr_expect(sums.ops == 7 && histogram_count(&times) == 7);
    session_hold(s);
    session_close(s, NULL);
    fake_session_did(plane, 2000, 1); /* while the worker lets go of it */
    session_usage(s, &sums, &times);
    cr_expect(sums.ops == 15 && histogram_count(&times) == 15, "it is still counted where it is");
    cr_expect_eq(usage_of_user()->sums.ops, 0, "and nowhere else");
    fake_answer(fake_call(FAKE_SESSION_DROP, -1), 0);
    cr_expect_eq(usage_of_user()->sums.ops, 8);
    cr_expect_eq(histogram_count(&usage_of_user()->latency), 8);
    cr_expect_eq(usage_of_user()->latency.sum_ns, 9000);
    mailbox_drain(&box);
    session_usage(s, &sums, &times);
    cr_expect_eq(sums.ops, 15, "its last word was said already");
    session_release(s);
    session_close(other, NULL);
}

Test(session, a_held_session_is_not_freed) {
    struct session *s = session();
    session_hold(s);
    session_close(s, NULL);
    fake_answer(fake_call(FAKE_SESSION_DROP, -1), 0);
    mailbox_drain(&box);
    cr_assert_eq(session_find(&st, s->id), s);
    session_release(s);
    cr_assert(list_empty(&st.sessions));
}

Test(session, sessions_are_limited_by_uid_and_refused_while_stopping) {
    struct session *s = session(), *other;
    struct error err;
    st.quota.limits.uid[QUOTA_SESSIONS] = 1;
    cr_assert_eq(session_new(&st, 1000, 1, 1, &other, &err), RDMAD_E_LIMIT);
    cr_assert_not_null(strstr(err.text, "uid 1000 may have 1 sessions"));
    cr_assert_eq(session_new(&st, 1001, 1, 1, &other, &err), 0);
    st.stopping = true;
    struct session *third;
    cr_assert_eq(session_new(&st, 1002, 1, 1, &third, &err), RDMAD_E_SHUTDOWN);
    session_close(s, NULL);
    session_close(other, NULL);
}

Test(session, a_session_number_is_never_used_twice) {
    struct session *a = session();
    uint64_t first = a->id;
    session_close(a, NULL);
    fake_answer_all();
    struct session *b = session();
    cr_assert_neq(b->id, first);
    cr_assert_null(session_find(&st, first));
    session_close(b, NULL);
}

static struct {
    struct session_call call;
    struct session *held;
    int code;
} waiting;

static void given_up(struct session_call *call, const struct error *why) {
    cr_assert_eq(call, &waiting.call);
    waiting.code = why->code;
    session_release(waiting.held);
}

Test(session, what_waits_for_an_answer_does_not_outlive_its_client) {
    struct session *s = session();
    waiting.held = s;
    waiting.call.give_up = given_up;
    list_append(&s->calls, &waiting.call.node);
    session_hold(s); /* as every request that is answered later does */
    session_close(s, NULL);
    fake_answer_all();
    cr_assert_eq(waiting.code, RDMAD_E_CANCELED);
    UNTIL(list_empty(&st.sessions));
}

/* ---- pause ---------------------------------------------------------------------------------- */

static int steer(struct session *s, bool pause, uid_t uid, bool by_admin, unsigned *done) {
    static struct error err;
    const struct pause_order order = {
        .pause = pause, .uid = uid, .by_admin = by_admin, .why = "look\nhere"};
    int rc = session_pause(s, &order, on_done, done, &err);
    if (!rc)
        fake_answer(fake_call(FAKE_SESSION_PAUSE, -1), 0);
    return rc;
}

Test(session, what_an_admin_paused_its_user_does_not_resume) {
    struct session *s = session();
    unsigned done = 0;
    cr_assert_eq(steer(s, true, 1000, false, &done), 0);
    cr_assert_eq(steer(s, false, 1000, false, &done), 0, "its own pause");
    cr_assert_null(session_paused(s));
    cr_assert_eq(steer(s, true, 0, true, &done), 0);
    cr_assert_eq(steer(s, false, 1000, false, &done), RDMAD_E_PERM);
    cr_assert_eq(steer(s, true, 1000, false, &done), RDMAD_E_PERM, "a pause of its own instead");
    cr_assert(session_paused(s) && session_paused(s)->by_admin);
    cr_assert_str_eq(session_paused(s)->why, "uid 0 paused the session: look?here");
    cr_assert_eq(steer(s, false, 0, true, &done), 0);
    cr_assert_null(session_paused(s));
    cr_assert_eq(done, 4);
    cr_assert_eq(fake_count(FAKE_SESSION_PAUSE), 4, "what is refused is not done");
    session_close(s, NULL);
}

Test(session, an_admin_takes_a_users_pause_over) {
    struct session *s = session();
    unsigned done = 0;
    cr_assert_eq(steer(s, true, 1000, false, &done), 0);
    cr_assert_eq(steer(s, true, 0, true, &done), 0);
    cr_assert_eq(steer(s, false, 1000, false, &done), RDMAD_E_PERM);
    session_close(s, NULL);
}

Test(session, a_paused_session_closes_before_its_pause_was_answered) {
    struct session *s = session();
    unsigned done = 0;
    const struct pause_order order = {.pause = true};
    make_pool(s);
    cr_assert_eq(session_pause(s, &order, on_done, &done, NULL), 0);
    session_close(s, NULL);
    cr_assert_null(session_paused(s));
    fake_answer_all();
    cr_assert_eq(done, 1);
    UNTIL(list_empty(&st.sessions));
}

/* ---- of one life and the next ---------------------------------------------------------------- */

static void numbers_begin_after(const struct slots *later, const struct slots *earlier,
                                const char *of) {
    cr_assert_gt(later->first_generation, earlier->last_generation, "%s", of);
    cr_assert_geq(later->last_generation - later->first_generation, 500000, "%s", of);
}

/* However often a place was used: what the client still knows of a life is nothing of the next. */
Test(session, numbers_of_a_life_end_before_those_of_the_next_begin) {
    struct rdmad_resume_proof proof;
    struct session before = {0};
    struct error err;
    hole_guard_install();
    if (hole_guard_missing())
        cr_skip_test("%s", hole_guard_missing());
    rig_kept_fds = 1;
    for (st.life.number = 4; st.life.number <= 6; st.life.number++) {
        struct session *s = session();
        int rc =
            st.life.number == 4 ? origin_offer(s, &proof, &err) : origin_resume(s, &proof, &err);
        cr_assert_eq(rc, 0, "%s", err.text);
        if (st.life.number > 4) {
            numbers_begin_after(&s->pools, &before.pools, "pools");
            numbers_begin_after(&s->rings, &before.rings, "rings");
            numbers_begin_after(&s->handles, &before.handles, "handles");
            numbers_begin_after(&s->channels, &before.channels, "channels");
        }
        before = *s;
        session_close(s, NULL);
        fake_answer_all();
        UNTIL(list_empty(&st.sessions));
    }
}

/* Places whose numbers are used up push others beyond what a session may have at a time. */
Test(session, a_number_that_is_brought_back_may_be_a_little_beyond_the_quota) {
    struct error err;
    struct session *s = session();
    st.quota.limits.session[QUOTA_POOLS] = 2;
    const uint64_t generation = UINT64_C(5) << 32;
    cr_assert_eq(origin_check_number(s, generation | 1, QUOTA_POOLS, 0, "pool", &err), 0);
    cr_assert_eq(origin_check_number(s, generation | 65, QUOTA_POOLS, 0, "pool", &err), 0);
    cr_assert_eq(origin_check_number(s, generation | 66, QUOTA_POOLS, 0, "pool", &err),
                 RDMAD_E_HANDLE);
    session_close(s, NULL);
}
