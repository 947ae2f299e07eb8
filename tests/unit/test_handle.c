/* SPDX-License-Identifier: MIT */
/*
 * Leases at their lessee: what a session may name in its sqes, and how it stops being able to.
 */
#include "daemon/base/clock.h"
#include "daemon/state/delegate.h"
#include "daemon/state/late_event.h"
#include "tests/unit/lease_rig.h"
#include <criterion/criterion.h>
#include <string.h>

TestSuite(handle, .init = rig_up, .fini = rig_down);

static struct handle *new_handle(struct session *s) {
    struct handle *h = NULL;
    struct error err = {0};
    cr_assert_eq(handle_new(s, &h, &err), 0, "%s", err.text);
    return h;
}

/* A handle of s on l, asked for but not yet answered by the data plane. */
static struct handle *attaching(struct session *s, struct lease *l, struct rig_done *done) {
    struct handle *h = new_handle(s);
    struct error err = {0};
    cr_assert_eq(handle_attach_local(h, l, rig_done, done, &err), 0, "%s", err.text);
    return h;
}

static struct handle *attached(struct session *s, struct lease *l) {
    struct rig_done done = {0};
    struct handle *h = attaching(s, l, &done);
    fake_answer(fake_call(FAKE_LEASE_ADD, -1), 0);
    cr_assert_eq(done.calls, 1);
    cr_assert_eq(done.code, 0);
    return h;
}

/* What peer/ would know of a handle. */
static struct {
    unsigned canceled, let_go, kept;
    bool returned;
} record;

static void record_cancel(struct handle *h) {
    record.canceled++;
    h->ops = NULL;
    handle_free(h);
}
static void record_let_go(struct handle *h, bool returned) {
    cr_expect_eq(h->peer_record, &record);
    record.let_go++;
    record.returned = returned;
}
static void record_keep(struct handle *h) {
    (void)h;
    record.kept++;
}
static const struct handle_ops record_ops = {record_cancel, record_let_go, record_keep};

static struct handle *remote_attaching(struct session *s, uint64_t ttl_ms, struct rig_done *done) {
    struct handle *h = new_handle(s);
    struct plane_lease_spec spec = {
        .lease_id = 40, .length = 100, .rights = 1, .deadline_ns = rig.now_ns + ttl_ms * MS};
    memset(&record, 0, sizeof(record));
    handle_attach_remote(h, &spec, &record_ops, &record, rig_done, done);
    return h;
}

static struct handle *remote(struct session *s, uint64_t ttl_ms) {
    struct rig_done done = {0};
    struct handle *h = remote_attaching(s, ttl_ms, &done);
    fake_answer(fake_call(FAKE_LEASE_ADD, -1), 0);
    cr_assert_eq(done.calls, 1);
    cr_assert_eq(done.code, 0);
    return h;
}

static void finish(struct lease *l) {
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    fake_answer_all();
}

static void finish_session(struct session *s) {
    rig_close(s);
    fake_answer_all();
    cr_expect(rig_closed(s));
}

/* ---- local ----------------------------------------------------------------------------------- */

Test(handle, a_local_attach_gives_the_data_plane_exactly_the_range) {
    struct session *owner = rig_session(1), *s = rig_session(2);
    struct lease *l = rig_grant(owner, 1000);
    struct handle *h = attached(s, l);
    const struct fake_call *c = fake_call(FAKE_LEASE_ADD, 0);
    cr_expect_eq(c->number, h->number);
    cr_expect_eq(c->spec.base, (char *)rig_pool(owner)->base + 4096);
    cr_expect_eq(c->spec.length, 8192);
    cr_expect_eq(c->spec.deadline_ns, l->deadline_ns);
    cr_expect_eq(c->spec.audit, &h->attachment.audit);
    cr_expect_null(c->spec.lane);
    cr_expect_eq(handle_find(s, h->number), h);
    finish(l);
    finish_session(s);
}

Test(handle, what_lessees_tell_of_a_part_is_told_of_the_whole) {
    struct session *owner = rig_session(1), *s = rig_session(2);
    struct lease *l = rig_grant(owner, 1000), *part, *deeper;
    struct lease_part whole = {.length = 64, .ttl_ns = 1000 * MS, .rights = RDMAD_RIGHTS_ALL};
    struct error err;
    cr_assert_eq(lease_delegate(l, &whole, &part, &err), 0, "%s", err.text);
    cr_assert_eq(lease_delegate(part, &whole, &deeper, &err), 0, "%s", err.text);
    struct lease *each[] = {l, part, deeper};
    for (size_t i = 0; i < 3; i++) {
        attached(s, each[i]);
        const struct plane_lease_spec *spec = &fake_call(FAKE_LEASE_ADD, -1)->spec;
        cr_expect_eq(spec->lease_id, each[i]->id);
        cr_expect_eq(spec->owner, owner->plane);
        cr_expect_eq(spec->notify_lease, l->id, "lease %zu", i);
    }
    cr_expect_eq(fake_count(FAKE_GRANT_ADD), 1, "its owner has no number of a part");
    finish(l);
    cr_expect_eq(fake_count(FAKE_GRANT_DROP), 1);
    finish_session(s);
}

Test(handle, a_revoke_ends_the_use_before_owner_and_lessee_hear_of_it) {
    struct session *owner = rig_session(1), *s = rig_session(2);
    struct lease *l = rig_grant(owner, 1000);
    struct rig_done done = {0};
    struct handle *h = attached(s, l);
    uint64_t number = h->number;

    lease_end(l, RDMAD_E_LEASE_REVOKED, rig_done, &done);
    cr_assert_eq(fake_pending(FAKE_LEASE_END), 1);
    cr_expect_eq(fake_call(FAKE_LEASE_END, 0)->number, number);
    cr_expect_eq(fake_call(FAKE_LEASE_END, 0)->reason, RDMAD_E_LEASE_REVOKED);
    cr_expect_eq(rig.nevents, 0);
    rig_advance(200 * MS);
    cr_expect_eq(done.calls, 0, "our own data plane always answers; there is nothing to cut");
    fake_answer(fake_call(FAKE_LEASE_END, 0), 0);
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(rig_events(s, RDMAD_EV_LEASE_ENDED), 1);
    cr_expect_eq(rig_last_event(s)->handle, number);
    cr_expect_eq(rig_last_event(s)->reason, RDMAD_E_LEASE_REVOKED);
    cr_expect_not_null(strstr(rig_last_event(s)->text, "lease 1"));
    finish_session(s);
}

Test(handle, an_ended_handle_says_why_until_it_is_released) {
    struct session *owner = rig_session(1), *s = rig_session(2);
    struct lease *l = rig_grant(owner, 1000);
    struct handle *h = attached(s, l);
    struct rig_done done = {0};
    rig_advance(1000 * MS);
    fake_answer_all();
    cr_expect_eq(rig_last_event(s)->reason, RDMAD_E_LEASE_EXPIRED);
    cr_expect_eq(fake_count(FAKE_LEASE_FORGET), 0, "sqes are still answered");
    cr_expect_eq(rig.st.quota.total.used[QUOTA_ATTACHES], 0, "it costs nothing any more");
    cr_assert_eq(handle_find(s, h->number), h);
    handle_release(h, rig_done, &done);
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(fake_count(FAKE_LEASE_FORGET), 1);
    cr_expect_eq(s->handles.used, 0);
    cr_expect_eq(rig_events(s, RDMAD_EV_LEASE_ENDED), 1);
}

Test(handle, only_the_latest_ended_handles_are_kept) {
    struct session *owner = rig_session(1), *s = rig_session(2);
    uint64_t first = 0;
    for (unsigned i = 0; i < HANDLES_ENDED_MAX + 3; i++) {
        struct lease *l = rig_grant(owner, 1000);
        struct handle *h = attached(s, l);
        if (i == 0)
            first = h->number;
        finish(l);
    }
    cr_expect_eq(s->handles.used, HANDLES_ENDED_MAX);
    cr_expect_eq(fake_count(FAKE_LEASE_FORGET), 3);
    cr_expect_eq(fake_call(FAKE_LEASE_FORGET, 0)->number, first);
    finish_session(s);
}

Test(handle, a_release_waits_for_the_data_plane_and_needs_no_event) {
    struct session *owner = rig_session(1), *s = rig_session(2);
    struct lease *l = rig_grant(owner, 1000);
    struct handle *h = attached(s, l);
    struct rig_done done = {0};
    handle_release(h, rig_done, &done);
    cr_expect_eq(done.calls, 0);
    cr_expect_eq(l->attached, 1);
    fake_answer(fake_call(FAKE_LEASE_END, 0), 0);
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(l->attached, 0);
    cr_expect_eq(l->stage, LEASE_LIVE);
    cr_expect_eq(rig.nevents, 0);
    cr_expect_eq(s->handles.used, 0);
    finish(l);
}

Test(handle, a_release_of_a_lease_for_one_ends_it) {
    struct session *owner = rig_session(1), *s = rig_session(2);
    struct lease_terms t = rig_terms(1000);
    t.max_attaches = 1;
    struct handle *h = attached(s, rig_grant_terms(owner, &t));
    handle_release(h, NULL, NULL);
    fake_answer_all();
    cr_expect_eq(rig_last_event(owner)->reason, RDMAD_E_LEASE_RELEASED);
    cr_expect_eq(rig_events(s, RDMAD_EV_LEASE_ENDED), 0);
}

Test(handle, a_revoke_during_a_release_waits_for_the_same_drain) {
    struct session *owner = rig_session(1), *s = rig_session(2);
    struct lease *l = rig_grant(owner, 1000);
    struct handle *h = attached(s, l);
    struct rig_done released = {0}, revoked = {0};
    handle_release(h, rig_done, &released);
    lease_end(l, RDMAD_E_LEASE_REVOKED, rig_done, &revoked);
    cr_expect_eq(fake_count(FAKE_LEASE_END), 1, "asked once");
    cr_expect_eq(revoked.calls, 0);
    fake_answer_all();
    cr_expect_eq(released.calls, 1);
    cr_expect_eq(revoked.calls, 1);
}

Test(handle, a_release_during_a_revoke_is_answered_and_frees_the_handle) {
    struct session *owner = rig_session(1), *s = rig_session(2);
    struct lease *l = rig_grant(owner, 1000);
    struct handle *h = attached(s, l);
    struct rig_done done = {0};
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    handle_release(h, rig_done, &done);
    cr_expect_eq(done.calls, 0);
    fake_answer_all();
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(s->handles.used, 0);
}

/* ---- ends during the attach ------------------------------------------------------------------ */

static void ends_while_adding(bool add_answered_first) {
    struct session *owner = rig_session(1), *s = rig_session(2);
    struct lease *l = rig_grant(owner, 1000);
    struct rig_done done = {0};
    attaching(s, l, &done);
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    cr_assert_eq(fake_pending(FAKE_LEASE_END), 1);
    fake_answer(fake_call(add_answered_first ? FAKE_LEASE_ADD : FAKE_LEASE_END, 0), 0);
    cr_expect_eq(done.calls, 0);
    cr_expect_eq(leases_count(rig.st.leases), 1, "the data plane still owes an answer");
    fake_answer_all();
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(done.code, RDMAD_E_LEASE_REVOKED);
    cr_expect_not_null(strstr(done.text, "lease 1"), "%s", done.text);
    cr_expect_eq(rig_events(s, RDMAD_EV_LEASE_ENDED), 0, "the client never knew the handle");
    cr_expect_eq(s->handles.used, 0);
    cr_expect_eq(leases_count(rig.st.leases), 0);
}

Test(handle, an_attach_whose_lease_ends_meanwhile_fails_with_the_reason) {
    ends_while_adding(true);
}
Test(handle, an_attach_whose_lease_ends_meanwhile_fails_in_either_order) {
    ends_while_adding(false);
}

Test(handle, an_attach_that_the_data_plane_refuses_leaves_nothing) {
    struct session *owner = rig_session(1), *s = rig_session(2);
    struct lease_terms t = rig_terms(1000);
    struct rig_done done = {0};
    t.max_attaches = 1;
    struct lease *l = rig_grant_terms(owner, &t);
    attaching(s, l, &done);
    fake_answer(fake_call(FAKE_LEASE_ADD, 0), RDMAD_E_NOMEM);
    cr_expect_eq(done.code, RDMAD_E_NOMEM);
    cr_expect_eq(l->attached, 0);
    cr_expect_eq(l->stage, LEASE_LIVE, "what the lessee never had it cannot release");
    cr_expect_eq(s->handles.used, 0);
    finish(l);
}

/* ---- remote ---------------------------------------------------------------------------------- */

Test(handle, a_remote_handle_expires_by_its_own_timer_and_once) {
    struct session *s = rig_session(2);
    struct handle *h = remote(s, 2000);
    rig_advance(1999 * MS);
    cr_expect_eq(fake_count(FAKE_LEASE_END), 0);
    rig_advance(1 * MS);
    cr_assert_eq(fake_pending(FAKE_LEASE_END), 1);
    handle_end(h, RDMAD_E_LEASE_EXPIRED, "the owner says so too");
    fake_answer_all();
    cr_expect_eq(record.let_go, 1);
    cr_expect_not(record.returned);
    cr_expect_eq(rig_events(s, RDMAD_EV_LEASE_ENDED), 1);
    cr_expect_not_null(strstr(rig_last_event(s)->text, "lease 40 expired"));
    finish_session(s);
}

Test(handle, a_remote_end_drains_before_the_owner_hears) {
    struct session *s = rig_session(2);
    struct handle *h = remote(s, 2000);
    handle_end(h, RDMAD_E_LEASE_REVOKED, "lease 40 was revoked by its owner");
    cr_expect_eq(record.let_go, 0);
    fake_answer_all();
    cr_expect_eq(record.let_go, 1);
    cr_expect_eq(rig_last_event(s)->reason, RDMAD_E_LEASE_REVOKED);
    rig_advance(3000 * MS); /* its own timer is gone */
    cr_expect_eq(rig_events(s, RDMAD_EV_LEASE_ENDED), 1);
    finish_session(s);
}

Test(handle, a_remote_release_tells_the_owner_that_it_was_wanted) {
    struct session *s = rig_session(2);
    struct rig_done done = {0};
    handle_release(remote(s, 2000), rig_done, &done);
    cr_expect_eq(record.let_go, 0);
    fake_answer_all();
    cr_expect_eq(record.let_go, 1);
    cr_expect(record.returned);
    cr_expect_eq(done.calls, 1);
}

Test(handle, a_renewal_reaches_data_plane_timer_and_client) {
    struct session *s = rig_session(2);
    struct handle *h = remote(s, 1000);
    rig_advance(500 * MS);
    handle_renewed(h, rig.now_ns + 1000 * MS);
    cr_assert_eq(fake_count(FAKE_LEASE_EXTEND), 1);
    cr_expect_eq(fake_call(FAKE_LEASE_EXTEND, 0)->deadline_ns, rig.now_ns + 1000 * MS);
    cr_expect_eq(rig_last_event(s)->ttl_ns, 1000 * MS);
    rig_advance(999 * MS);
    cr_expect_eq(fake_count(FAKE_LEASE_END), 0);
    rig_advance(1 * MS);
    cr_expect_eq(fake_count(FAKE_LEASE_END), 1);
    handle_renewed(h, rig.now_ns + 1000 * MS); /* too late */
    cr_expect_eq(fake_count(FAKE_LEASE_EXTEND), 1);
    fake_answer_all();
    finish_session(s);
}

Test(handle, a_local_renewal_is_the_leases) {
    struct session *owner = rig_session(1), *s = rig_session(2);
    struct lease *l = rig_grant(owner, 1000);
    struct error err;
    attached(s, l);
    cr_assert_eq(lease_renew(l, 5000 * MS, &err), 0);
    cr_expect_eq(fake_call(FAKE_LEASE_EXTEND, 0)->deadline_ns, l->deadline_ns);
    cr_expect_eq(rig_events(s, RDMAD_EV_LEASE_RENEWED), 1);
    finish(l);
    finish_session(s);
}

Test(handle, renewals_wait_as_one_for_a_client_that_does_not_read) {
    struct session *s = rig_session(2);
    struct handle *h = remote(s, 1000), *ending = remote(s, 1000);
    rig.lags = true;
    for (unsigned i = 1; i <= 500; i++) {
        handle_renewed(h, rig.now_ns + (1000 + i) * MS);
        handle_renewed(ending, rig.now_ns + 1000 * MS);
    }
    handle_end(ending, RDMAD_E_LEASE_REVOKED, "over");
    session_tell_late(s);
    cr_expect_eq(rig_events(s, RDMAD_EV_LEASE_RENEWED), 0, "it still does not read");
    rig.lags = false;
    session_tell_late(s);
    session_tell_late(s);
    cr_expect_eq(rig_events(s, RDMAD_EV_LEASE_RENEWED), 1, "of the one that lives, and once");
    cr_expect_eq(rig_last_event(s)->handle, h->number);
    cr_expect_eq(rig_last_event(s)->ttl_ns, 1500 * MS, "the last renewal is what counts");
    fake_answer_all();
    finish_session(s);
}

Test(handle, what_a_client_missed_it_hears_in_the_order_in_which_it_happened) {
    struct session *s = rig_session(2);
    struct handle *renewed = remote(s, 1000), *ending = remote(s, 1000), *last = remote(s, 1000);
    rig.lags = true;
    handle_renewed(renewed, rig.now_ns + 2000 * MS);
    handle_end(ending, RDMAD_E_LEASE_REVOKED, "over");
    fake_answer_all();
    handle_renewed(last, rig.now_ns + 2000 * MS);
    handle_renewed(renewed, rig.now_ns + 3000 * MS);
    rig.lags = false;
    session_tell_late(s);
    cr_assert_eq(rig.nevents, 3);
    cr_expect_eq(rig.events[0].handle, renewed->number);
    cr_expect_eq(rig.events[0].ttl_ns, 3000 * MS);
    cr_expect_eq(rig.events[1].handle, ending->number);
    cr_expect_eq(rig.events[2].handle, last->number);
    fake_answer_all();
    finish_session(s);
}

Test(handle, ends_wait_charged_for_a_client_that_does_not_read) {
    enum { MANY = HANDLES_ENDED_MAX + 10 };
    struct session *s = rig_session(2);
    uint64_t first = 0, last = 0;
    struct rig_done done = {0};
    rig.lags = true;
    for (unsigned i = 0; i < MANY; i++) {
        struct handle *h = remote(s, 1000);
        first = i ? first : h->number;
        last = h->number;
        handle_end(h, RDMAD_E_LEASE_REVOKED, "over");
        fake_answer_all();
    }
    cr_expect_eq(rig_events(s, RDMAD_EV_LEASE_ENDED), 0);
    cr_expect_eq(s->account.used[QUOTA_ATTACHES], MANY, "it may have no more than its limit so");
    cr_expect_eq(s->handles.used, MANY, "why each ended is known until it has heard");
    handle_release(handle_find(s, last), rig_done, &done); /* what it gives back it need not hear */
    cr_expect_eq(done.calls, 1);

    rig.lags = false;
    rig.lags_after = 5; /* and falls behind again */
    session_tell_late(s);
    cr_expect_eq(rig_events(s, RDMAD_EV_LEASE_ENDED), 5);
    cr_expect_eq(rig.events[0].handle, first);
    rig.lags_after = 0;
    session_tell_late(s);
    session_tell_late(s);
    cr_expect_eq(rig_events(s, RDMAD_EV_LEASE_ENDED), MANY - 1);
    cr_expect_eq(s->account.used[QUOTA_ATTACHES], 0);
    cr_expect_eq(s->handles.used, HANDLES_ENDED_MAX);
    cr_expect_null(handle_find(s, first), "those that were told first are forgotten first");
    finish_session(s);
}

Test(handle, a_client_that_goes_without_reading_leaves_no_ends_behind) {
    struct session *s = rig_session(2);
    rig.lags = true;
    handle_end(remote(s, 1000), RDMAD_E_LEASE_REVOKED, "over");
    fake_answer_all();
    finish_session(s);
}

/* ---- the session closes, at each stage ------------------------------------------------------- */

/* Closes s and answers the drop; what still waits after that is the caller's. */
static void close_and_drop(struct session *s) {
    rig_close(s);
    fake_answer(fake_call(FAKE_SESSION_DROP, -1), 0);
}

Test(handle, closing_while_new_gives_the_attach_up) {
    struct session *s = rig_session(2);
    struct handle *h = new_handle(s);
    memset(&record, 0, sizeof(record));
    h->ops = &record_ops;
    h->peer_record = &record;
    close_and_drop(s);
    cr_expect_eq(record.canceled, 1);
    cr_expect(rig_closed(s));
}

Test(handle, closing_while_adding_waits_for_the_answer) {
    struct session *owner = rig_session(1), *s = rig_session(2);
    struct lease *l = rig_grant(owner, 1000);
    struct rig_done done = {0};
    attaching(s, l, &done);
    close_and_drop(s);
    cr_expect_not(rig_closed(s));
    fake_answer_all();
    cr_expect(rig_closed(s));
    cr_expect_eq(done.calls, 1);
    cr_expect_neq(done.code, 0);
    cr_expect_eq(l->attached, 0);
    cr_expect_eq(fake_count(FAKE_LEASE_END), 0, "nothing is asked of a dropped data plane");
    finish(l);
}

Test(handle, closing_while_usable_releases_at_the_owner) {
    struct session *owner = rig_session(1), *s = rig_session(2);
    struct lease *l = rig_grant(owner, 1000);
    attached(s, l);
    remote(s, 1000);
    close_and_drop(s);
    cr_expect(rig_closed(s));
    cr_expect_eq(l->attached, 0);
    cr_expect_eq(record.let_go, 1);
    cr_expect(record.returned);
    cr_expect_eq(fake_count(FAKE_LEASE_END) + fake_count(FAKE_LEASE_FORGET), 0);
    cr_expect_eq(rig.nevents, 0);
    finish(l);
}

Test(handle, closing_while_ending_does_not_wait_twice) {
    struct session *owner = rig_session(1), *s = rig_session(2);
    struct lease *l = rig_grant(owner, 1000);
    struct rig_done done = {0};
    attached(s, l);
    lease_end(l, RDMAD_E_LEASE_REVOKED, rig_done, &done);
    close_and_drop(s);
    cr_expect_not(rig_closed(s));
    fake_answer_all();
    cr_expect(rig_closed(s));
    cr_expect_eq(done.calls, 1);
}

Test(handle, closing_after_an_end_frees_what_was_kept) {
    struct session *owner = rig_session(1), *s = rig_session(2);
    struct lease *l = rig_grant(owner, 1000);
    attached(s, l);
    finish(l);
    cr_expect_eq(s->handles.used, 1);
    close_and_drop(s);
    cr_expect(rig_closed(s));
    cr_expect_eq(fake_count(FAKE_LEASE_FORGET), 0);
}

Test(handle, a_revoke_while_the_lessee_closes_waits_for_its_data_plane) {
    struct session *owner = rig_session(1), *s = rig_session(2);
    struct lease *l = rig_grant(owner, 1000);
    struct rig_done done = {0};
    attached(s, l);
    rig_close(s);
    lease_end(l, RDMAD_E_LEASE_REVOKED, rig_done, &done);
    cr_expect_eq(done.calls, 0, "ops of the session may still be under way");
    fake_answer(fake_call(FAKE_SESSION_DROP, 0), 0);
    cr_expect_eq(done.calls, 1);
    cr_expect(rig_closed(s));
}

Test(handle, owner_and_lessee_may_be_one_session_that_closes) {
    struct session *s = rig_session(1);
    attached(s, rig_grant(s, 1000));
    close_and_drop(s);
    cr_expect(rig_closed(s));
    cr_expect_eq(leases_count(rig.st.leases), 0);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

Test(handle, the_limit_on_attaches_is_named) {
    struct session *s = rig_session(2);
    struct handle *h = NULL, *more = NULL;
    struct error err;
    rig.st.quota.limits.session[QUOTA_ATTACHES] = 1;
    h = new_handle(s);
    cr_expect_eq(handle_new(s, &more, &err), RDMAD_E_LIMIT, "%s", err.text);
    handle_free(h);
    cr_expect_eq(handle_new(s, &more, &err), 0);
    handle_free(more);
}

Test(handle, a_number_that_was_not_given_out_finds_nothing) {
    struct session *owner = rig_session(1), *s = rig_session(2);
    struct lease *l = rig_grant(owner, 1000);
    struct rig_done done = {0};
    struct handle *h = attaching(s, l, &done);
    uint64_t number = h->number;
    cr_expect_null(handle_find(s, number), "the client cannot know it yet");
    fake_answer_all();
    cr_expect_eq(handle_find(s, number), h);
    cr_expect_null(handle_find(s, number + 1));
    cr_expect_null(handle_find(s, 0));
    handle_release(h, NULL, NULL);
    fake_answer_all();
    cr_expect_null(handle_find(s, number));
    struct handle *next = new_handle(s);
    cr_expect_neq(next->number, number, "an old number never names a new handle");
    handle_free(next);
    finish(l);
    finish_session(s);
}

/* A request waits until its memory is zeroed: its lease can come while the data plane lets go of
 * the session, before its handles are released. */
Test(handle, a_lease_that_comes_for_a_session_that_closes_is_not_attached_to) {
    struct rig_done done = {0};
    struct session *owner = rig_session(1), *s = rig_session(2);
    struct lease *l = rig_grant(owner, 1000);
    struct handle *h;
    struct error err;

    cr_assert_eq(handle_new(s, &h, &err), 0);
    rig_close(s); /* the data plane has not answered yet */
    cr_assert_eq(handle_attach_local(h, l, rig_done, &done, &err), RDMAD_E_CANCELED);
    cr_expect_eq(l->attached, 0);
    cr_expect_eq(fake_count(FAKE_LEASE_ADD), 0);
    handle_free(h);
    fake_answer_all();
    cr_expect(rig_closed(s));
    cr_expect_eq(done.calls, 0);
    rig_close(owner);
    fake_answer_all();
}
