/* SPDX-License-Identifier: MIT */
/*
 * Leases at their owner: every way to end, and who hears of it when.
 */
#include "daemon/base/clock.h"
#include "daemon/state/late_event.h"
#include "daemon/state/lease_table.h"
#include "daemon/state/lease_terms.h"
#include "tests/unit/lease_rig.h"
#include <criterion/criterion.h>
#include <inttypes.h>
#include <string.h>

TestSuite(lease, .init = rig_up, .fini = rig_down);

/* ---- order ----------------------------------------------------------------------------------- */

Test(lease, the_owner_is_told_only_after_every_window_is_closed) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 1000);
    struct rig_peer *a = rig_peer(l, "127.0.0.2"), *b = rig_peer(l, "127.0.0.3");
    struct rig_done done = {0};

    lease_end(l, RDMAD_E_LEASE_REVOKED, rig_done, &done);
    cr_expect(a->stopped && b->stopped);
    cr_expect_eq(fake_count(FAKE_WINDOW_CLOSE), 0, "peers may drain first");
    attachment_stopped(&a->a);
    attachment_stopped(&b->a);
    cr_assert_eq(fake_pending(FAKE_WINDOW_CLOSE), 2);
    cr_expect_eq(done.calls, 0);
    fake_answer(fake_call(FAKE_WINDOW_CLOSE, 1), 0);
    cr_expect(b->gone && !a->gone);
    cr_expect_eq(done.calls, 0);
    cr_expect_eq(rig.nevents, 0);
    fake_answer(fake_call(FAKE_WINDOW_CLOSE, 0), 0);
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(done.code, 0);
    cr_expect_eq(rig_events(owner, RDMAD_EV_LEASE_ENDED), 1);
    cr_expect_eq(rig_last_event(owner)->reason, RDMAD_E_LEASE_REVOKED);
    cr_expect_eq(rig_last_event(owner)->handle, 0);
}

Test(lease, whatever_the_order_of_goodbyes_the_owner_is_told_once_at_the_last) {
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    struct session *owner = rig_session(1);
    for (int i = 0; i < 6; i++) {
        struct lease *l = rig_grant(owner, 1000);
        struct rig_peer *p[3];
        struct rig_done done = {0};
        for (int k = 0; k < 3; k++) {
            p[k] = rig_peer(l, "127.0.0.2");
            p[k]->answer_at_once = k == i % 3;
        }
        int first = (int)fake_count(FAKE_WINDOW_CLOSE);
        lease_end(l, RDMAD_E_LEASE_REVOKED, rig_done, &done);
        for (int k = 0; k < 3; k++)
            attachment_stopped(&p[k]->a); /* saying it twice does no harm */
        for (int k = 0; k < 3; k++) {
            cr_expect_eq(done.calls, 0);
            fake_answer(fake_call(FAKE_WINDOW_CLOSE, first + orders[i][k]), 0);
        }
        cr_expect_eq(done.calls, 1);
    }
    cr_expect_eq(rig_events(owner, RDMAD_EV_LEASE_ENDED), 6);
}

Test(lease, an_end_without_lessees_is_immediate) {
    struct session *owner = rig_session(1);
    struct rig_done done = {0};
    lease_end(rig_grant(owner, 1000), RDMAD_E_LEASE_REVOKED, rig_done, &done);
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(rig_events(owner, RDMAD_EV_LEASE_ENDED), 1);
}

Test(lease, ending_twice_tells_both_askers_and_the_owner_once) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 50);
    struct rig_peer *p = rig_peer(l, "127.0.0.2");
    struct rig_done one = {0}, two = {0};

    lease_end(l, RDMAD_E_LEASE_REVOKED, rig_done, &one);
    lease_end(l, RDMAD_E_LEASE_ORPHANED, rig_done, &two);
    rig_advance(60 * MS); /* and the deadline passes */
    fake_answer_all();
    cr_expect_eq(one.calls, 1);
    cr_expect_eq(two.calls, 1);
    cr_expect_eq(rig_events(owner, RDMAD_EV_LEASE_ENDED), 1);
    cr_expect_eq(rig_last_event(owner)->reason, RDMAD_E_LEASE_REVOKED, "the first reason counts");
    cr_expect(p->gone);
}

/* ---- an owner that does not read ------------------------------------------------------------- */

Test(lease, ends_wait_charged_for_an_owner_that_does_not_read_and_are_told_once_in_order) {
    struct session *owner = rig_session(1);
    struct rig_done done = {0};
    uint64_t ids[5];
    rig.lags = true;
    for (int i = 0; i < 5; i++) {
        struct lease *l = rig_grant(owner, 1000);
        ids[i] = l->id;
        lease_end(l, i % 2 ? RDMAD_E_LEASE_REVOKED : RDMAD_E_LEASE_EXPIRED, rig_done, &done);
    }
    cr_expect_eq(rig.nevents, 0);
    cr_expect_eq(done.calls, 5, "that nobody reaches the memory is true whether it reads or not");
    cr_expect_eq(leases_count(rig.st.leases), 0);
    cr_expect_eq(owner->account.used[QUOTA_LEASES], 5, "it may have no more than its limit so");

    rig.lags = false;
    rig.lags_after = 2; /* and falls behind again */
    session_tell_late(owner);
    cr_expect_eq(rig.nevents, 2);
    cr_expect_eq(owner->account.used[QUOTA_LEASES], 3);
    rig.lags_after = 0;
    session_tell_late(owner);
    session_tell_late(owner);
    cr_assert_eq(rig.nevents, 5);
    for (int i = 0; i < 5; i++) {
        cr_expect_eq(rig.events[i].lease, ids[i]);
        cr_expect_eq(rig.events[i].handle, 0);
        cr_expect_eq(rig.events[i].reason, i % 2 ? RDMAD_E_LEASE_REVOKED : RDMAD_E_LEASE_EXPIRED);
    }
    cr_expect_eq(owner->account.used[QUOTA_LEASES], 0);
}

Test(lease, an_owner_that_goes_without_reading_leaves_no_ends_behind) {
    struct session *owner = rig_session(1);
    rig.lags = true;
    lease_end(rig_grant(owner, 1000), RDMAD_E_LEASE_REVOKED, NULL, NULL);
    rig_grant(owner, 1000);
    rig_close(owner);
    fake_answer_all();
    cr_expect(rig_closed(owner));
}

/* ---- grace and expiry ------------------------------------------------------------------------ */

Test(lease, a_lessee_that_does_not_answer_is_cut_when_the_grace_is_over) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 10000);
    struct rig_peer *p = rig_peer(l, "127.0.0.2");

    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    rig_advance(99 * MS);
    cr_expect_eq(fake_count(FAKE_WINDOW_CLOSE), 0);
    rig_advance(1 * MS);
    cr_assert_eq(fake_pending(FAKE_WINDOW_CLOSE), 1);
    cr_expect_eq(fake_call(FAKE_WINDOW_CLOSE, 0)->reason, RDMAD_E_LEASE_REVOKED);
    attachment_stopped(&p->a); /* too late: no second close */
    cr_expect_eq(fake_count(FAKE_WINDOW_CLOSE), 1);
    cr_expect_eq(rig.nevents, 0);
    fake_answer_all();
    cr_expect_eq(rig.nevents, 1);
}

Test(lease, expiry_has_no_grace) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 2000);
    struct rig_peer *p = rig_peer(l, "127.0.0.2");

    rig_advance(1999 * MS);
    cr_expect_not(p->stopped);
    rig_advance(1 * MS);
    cr_expect(p->stopped, "the lessee is told");
    cr_assert_eq(fake_pending(FAKE_WINDOW_CLOSE), 1);
    cr_expect_eq(fake_call(FAKE_WINDOW_CLOSE, 0)->reason, RDMAD_E_LEASE_EXPIRED);
    fake_answer_all();
    cr_expect_eq(rig_last_event(owner)->reason, RDMAD_E_LEASE_EXPIRED);
}

Test(lease, a_grace_never_outlives_the_deadline) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 1000);
    rig_peer(l, "127.0.0.2");
    rig_advance(980 * MS);
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    rig_advance(20 * MS);
    cr_assert_eq(fake_pending(FAKE_WINDOW_CLOSE), 1);
    fake_answer_all();
}

Test(lease, nobody_attaches_once_the_end_has_begun_or_the_deadline_has_passed) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 1000), *late = rig_grant(owner, 1000);
    struct rdmad_uri uri = rig_uri(l);
    struct rig_peer other = {0};
    struct error err;
    rig_peer(l, "127.0.0.2");
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    cr_expect_eq(rig_peer_try(&other, l, "127.0.0.2", &err), RDMAD_E_LEASE_REVOKED);
    cr_expect_eq(rig_find_error(&uri, &err), RDMAD_E_LEASE_REVOKED);
    cr_expect_not_null(strstr(err.text, "lease 1"), "%s", err.text);
    rig.now_ns += 1000 * MS; /* the timer has not run yet */
    cr_expect_eq(rig_peer_try(&other, late, "127.0.0.2", &err), RDMAD_E_LEASE_EXPIRED);
    cr_expect_not_null(strstr(err.text, "lease 2 expired"), "%s", err.text);
    rig_finish(l);
}

/* ---- release --------------------------------------------------------------------------------- */

static struct lease *grant_max(struct session *owner, uint32_t max) {
    struct lease_terms t = rig_terms(1000);
    t.max_attaches = max;
    return rig_grant_terms(owner, &t);
}

Test(lease, the_sole_lessees_release_ends_a_lease_for_one) {
    struct session *owner = rig_session(1);
    struct rig_peer *p = rig_peer(grant_max(owner, 1), "127.0.0.2");
    attachment_release(&p->a);
    cr_expect_not(p->stopped, "it stopped by itself");
    cr_expect_eq(rig.nevents, 0);
    fake_answer_all();
    cr_expect(p->gone);
    cr_expect_eq(rig_last_event(owner)->reason, RDMAD_E_LEASE_RELEASED);
    cr_expect_eq(leases_count(rig.st.leases), 0);
}

Test(lease, a_release_leaves_a_lease_for_many_alive) {
    struct session *owner = rig_session(1);
    struct lease *l = grant_max(owner, 2);
    struct rig_peer *p = rig_peer(l, "127.0.0.2");
    attachment_release(&p->a);
    fake_answer_all();
    cr_expect(p->gone);
    cr_expect_eq(l->stage, LEASE_LIVE);
    cr_expect_eq(l->attached, 0);
    cr_expect_eq(l->attached_total, 1);
    rig_finish(l);
}

Test(lease, an_attach_that_was_lost_does_not_end_a_lease_for_one) {
    struct session *owner = rig_session(1);
    struct lease *l = grant_max(owner, 1);
    struct rig_peer *p = rig_peer(l, "127.0.0.2");
    attachment_drop(&p->a);
    fake_answer_all();
    cr_expect(p->gone);
    cr_expect_eq(l->stage, LEASE_LIVE);
    rig_peer(l, "127.0.0.2"); /* there is room again */
    rig_finish(l);
}

Test(lease, no_more_attach_than_the_owner_allows) {
    struct session *owner = rig_session(1);
    struct lease *l = grant_max(owner, 2);
    struct rig_peer *a = rig_peer(l, "127.0.0.2"), third = {0};
    struct error err;
    rig_peer(l, "127.0.0.2");
    cr_expect_eq(rig_peer_try(&third, l, "127.0.0.2", &err), RDMAD_E_LIMIT);
    cr_expect_not_null(strstr(err.text, "2 of the 2 lessees"), "%s", err.text);
    attachment_release(&a->a);
    cr_expect_eq(rig_peer_try(&third, l, "127.0.0.2", &err), RDMAD_E_LIMIT, "not gone yet");
    fake_answer_all();
    cr_expect_eq(rig_peer_try(&third, l, "127.0.0.2", &err), 0, "%s", err.text);
    rig_finish(l);
}

/* ---- renew ----------------------------------------------------------------------------------- */

Test(lease, a_renewal_moves_the_deadline_of_lease_windows_and_lessees) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 1000);
    struct rig_peer *p = rig_peer(l, "127.0.0.2");
    struct error err;

    rig_advance(900 * MS);
    cr_expect_eq(lease_renew(l, 1000 * MS, &err), 0);
    cr_expect(p->renewed);
    cr_assert_eq(fake_count(FAKE_WINDOW_EXTEND), 1);
    cr_expect_eq(fake_call(FAKE_WINDOW_EXTEND, 0)->deadline_ns, rig.now_ns + 1000 * MS);
    rig_advance(999 * MS);
    cr_expect_eq(l->stage, LEASE_LIVE);
    rig_advance(1 * MS);
    fake_answer_all();
    cr_expect_eq(rig_last_event(owner)->reason, RDMAD_E_LEASE_EXPIRED);
}

Test(lease, a_renewal_can_also_shorten) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 10000);
    struct error err;
    cr_expect_eq(lease_renew(l, 5 * MS, &err), 0);
    rig_advance(5 * MS);
    cr_expect_eq(rig_events(owner, RDMAD_EV_LEASE_ENDED), 1);
}

Test(lease, a_ttl_beyond_the_limit_names_it) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 3600000), *none;
    struct lease_terms t = rig_terms(3600001);
    struct error err;
    cr_expect_eq(lease_renew(l, 3600000 * MS + 1, &err), RDMAD_E_LIMIT);
    cr_expect_not_null(strstr(err.text, "lease.max_ttl_ms is 3600000"), "%s", err.text);
    cr_expect_eq(lease_renew(l, UINT64_MAX, &err), RDMAD_E_LIMIT);
    cr_expect_eq(lease_renew(l, 0, &err), RDMAD_E_INVAL);
    cr_expect_eq(lease_grant(rig_pool(owner), &t, &none, &err), RDMAD_E_LIMIT);
    rig_finish(l);
}

Test(lease, an_ended_lease_is_not_renewed) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 1000);
    struct error err;
    rig_peer(l, "127.0.0.2");
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    cr_expect_eq(lease_renew(l, 1000 * MS, &err), RDMAD_E_LEASE_REVOKED);
    rig_finish(l);
    l = rig_grant(owner, 10);
    rig.now_ns += 10 * MS;
    cr_expect_eq(lease_renew(l, 1000 * MS, &err), RDMAD_E_LEASE_EXPIRED, "not by a late timer");
    rig_finish(l);
}

/* ---- grant ----------------------------------------------------------------------------------- */

Test(lease, bad_terms_are_refused_and_leave_nothing) {
    struct session *owner = rig_session(1);
    const struct lease_terms good = rig_terms(1000);
    struct lease *l = NULL;
    struct error err;
    struct {
        struct lease_terms t;
        int code;
    } bad[] = {{good, RDMAD_E_RANGE}, {good, RDMAD_E_RANGE},    {good, RDMAD_E_RANGE},
               {good, RDMAD_E_INVAL}, {good, RDMAD_E_INVAL},    {good, RDMAD_E_NAME},
               {good, RDMAD_E_INVAL}, {good, RDMAD_E_INVAL},    {good, RDMAD_E_INVAL},
               {good, RDMAD_E_INVAL}, {good, RDMAD_E_INVAL},    {good, RDMAD_E_INVAL},
               {good, RDMAD_E_ALIGN}, {good, RDMAD_E_RESERVED}, {good, RDMAD_E_INVAL}};
    bad[0].t.offset = (1 << 20) + 1;
    bad[1].t.offset = UINT64_MAX;
    bad[2].t.length = (1 << 20) - 4095;
    bad[3].t.rights = 0;
    bad[4].t.rights = 16;
    strcpy(bad[5].t.name, "no/slash");
    bad[6].t.scope = 3;
    bad[7].t.scope_uid = 1;
    strcpy(bad[8].t.scope_peer, "127.0.0.1");
    bad[9].t.scope = RDMAD_SCOPE_PEER;
    bad[10].t.ttl_ns = 0;
    bad[11].t.rights = RDMAD_RIGHT_DELEGATE; /* of nothing */
    bad[12].t.offset = 4;                    /* with atomics */
    bad[13].t.flags = 4;
    bad[14].t.flags = RDMAD_LEASE_KEEP_ALIVE;
    bad[14].t.ttl_ns = LEASE_KEEP_TTL_MIN_NS - 1;
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_expect_eq(lease_grant(rig_pool(owner), &bad[i].t, &l, &err), bad[i].code, "%u: %s", i,
                     err.text);
    cr_expect_null(l);
}

Test(lease, numbers_only_grow_and_secrets_differ) {
    struct session *owner = rig_session(1);
    uint64_t last = 0;
    uint8_t key[RDMAD_KEY_BYTES] = {0};
    for (int i = 0; i < 20; i++) {
        struct lease *l = rig_grant(owner, 1000);
        cr_expect_gt(l->id, last);
        cr_expect_neq(memcmp(l->key, key, sizeof(key)), 0);
        last = l->id;
        memcpy(key, l->key, sizeof(key));
        rig_finish(l);
    }
}

Test(lease, a_published_lease_is_found_by_name_and_its_uri_has_no_key) {
    struct session *owner = rig_session(1);
    struct lease_terms t = rig_terms(1000);
    struct lease *l, *found = NULL, *second = NULL;
    char text[RDMAD_URI_MAX + 1];
    struct error err;

    strcpy(t.name, "dataset-1");
    l = rig_grant_terms(owner, &t);
    lease_uri(l, text);
    cr_expect_str_eq(text, "rdmad://127.0.0.1:7471/dataset-1");
    struct rdmad_uri uri = rig_uri(l);
    cr_expect_eq(lease_find(rig.st.leases, &uri, &found, &err), 0);
    cr_expect_eq(found, l);
    cr_expect_eq(lease_grant(rig_pool(owner), &t, &second, &err), RDMAD_E_EXISTS);
    cr_expect_not_null(strstr(err.text, "published as \"dataset-1\" already"), "%s", err.text);

    rig_peer(l, "127.0.0.2");
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    cr_expect_eq(rig_find_error(&uri, &err), RDMAD_E_NO_LEASE);
    second = rig_grant_terms(owner, &t); /* the name is free as soon as the end begins */
    rig_finish(l);
    cr_expect_eq(lease_find(rig.st.leases, &uri, &found, &err), 0);
    cr_expect_eq(found, second);
    rig_finish(second);
}

/* ---- scope ----------------------------------------------------------------------------------- */

Test(lease, scope_peer_is_the_address_that_the_kernel_tells) {
    struct session *owner = rig_session(1);
    struct lease_terms t = rig_terms(1000);
    struct rig_peer other = {0};
    struct error err;
    t.scope = RDMAD_SCOPE_PEER;
    strcpy(t.scope_peer, "127.0.0.2");
    struct lease *l = rig_grant_terms(owner, &t);
    rig_peer(l, "127.0.0.2");
    rig_peer(l, "::ffff:127.0.0.2");
    cr_expect_eq(rig_peer_try(&other, l, "127.0.0.20", &err), RDMAD_E_SCOPE);
    cr_expect_not_null(strstr(err.text, "127.0.0.2 only"), "%s", err.text);
    struct lessee local = {.session = owner};
    cr_expect_eq(lease_attach(l, &local, &other.a, NULL, &err), RDMAD_E_SCOPE);
    rig_finish(l);
}

Test(lease, scope_uid_is_for_that_uid_on_this_node) {
    struct session *owner = rig_session(1), *friend = rig_session(7), *stranger = rig_session(8);
    struct lease_terms t = rig_terms(1000);
    struct rig_peer other = {0};
    struct rig_done done = {0};
    struct handle *h;
    struct error err;
    t.scope = RDMAD_SCOPE_UID;
    t.scope_uid = 7;
    struct lease *l = rig_grant_terms(owner, &t);
    cr_expect_eq(rig_peer_try(&other, l, "127.0.0.2", &err), RDMAD_E_SCOPE);
    cr_assert_eq(handle_new(stranger, &h, &err), 0);
    cr_expect_eq(handle_attach_local(h, l, rig_done, &done, &err), RDMAD_E_SCOPE);
    handle_free(h);
    cr_assert_eq(handle_new(friend, &h, &err), 0);
    cr_expect_eq(handle_attach_local(h, l, rig_done, &done, &err), 0);
    fake_answer_all();
    cr_expect_eq(done.calls, 1);
    rig_finish(l);
    rig_close(friend);
    fake_answer_all();
}

/* ---- what is remembered ---------------------------------------------------------------------- */
static bool any_view(void *arg, const struct lease_view *v) {
    return arg && v;
}
static bool ended_view(void *arg, const struct lease_view *v) {
    return arg && v->reason;
}
static void count_view(void *arg, const struct lease_view *v) {
    unsigned *n = arg;
    n[v->reason != 0]++;
}

Test(lease, show_lists_the_living_and_on_demand_the_ended) {
    struct session *owner = rig_session(1);
    unsigned n[2] = {0, 0};
    struct lease *l = rig_grant(owner, 1000);
    rig_finish(rig_grant(owner, 1000));
    leases_view(rig.st.leases, true, ended_view, count_view, n);
    leases_view(rig.st.leases, false, any_view, count_view, n);
    cr_expect(n[0] == 1 && n[1] == 1);
    leases_view(rig.st.leases, true, any_view, count_view, n);
    cr_expect(n[0] == 2 && n[1] == 2);
    rig_finish(l);
}

Test(lease, the_audit_sums_attachments_alive_and_gone) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 1000);
    struct rig_peer *a = rig_peer(l, "127.0.0.2"), *b = rig_peer(l, "127.0.0.2");
    struct fabric_audit sum;
    a->a.audit =
        (struct fabric_audit){.bytes_read = 1, .bytes_written = 10, .ops = 2, .last_use_ns = 500};
    b->a.audit = (struct fabric_audit){
        .bytes_read = 2, .bytes_written = 20, .ops = 3, .refused = 1, .last_use_ns = 400};
    attachment_drop(&a->a);
    fake_answer_all();
    lease_audit(l, &sum);
    cr_expect_eq(sum.bytes_read, 3);
    cr_expect_eq(sum.bytes_written, 30);
    cr_expect_eq(sum.ops, 5);
    cr_expect_eq(sum.refused, 1);
    cr_expect_eq(sum.last_use_ns, 500);
    rig_finish(l);
    struct lease_view v;
    cr_assert(lease_ended_view(rig.st.leases, 1, &v));
    cr_expect_eq(v.audit.bytes_written, 30, "remembered");
}

/* ---- the owner leaves ------------------------------------------------------------------------ */

Test(lease, a_sessions_leases_end_with_it_and_it_waits_for_the_last) {
    struct session *owner = rig_session(1);
    struct lease *a = rig_grant(owner, 1000), *b = rig_grant(owner, 1000);
    struct rdmad_uri uri = rig_uri(a);
    struct error err;
    rig_grant(owner, 1000);
    rig_peer(a, "127.0.0.2");
    rig_peer(b, "127.0.0.2");
    lease_end(b, RDMAD_E_LEASE_REVOKED, NULL, NULL); /* ending already */
    rig_close(owner);
    fake_answer(fake_call(FAKE_SESSION_DROP, 0), 0);
    cr_expect_not(rig_closed(owner));
    rig_advance(100 * MS);
    cr_assert_eq(fake_pending(FAKE_WINDOW_CLOSE), 2);
    fake_answer(fake_call(FAKE_WINDOW_CLOSE, 0), 0);
    cr_expect_not(rig_closed(owner));
    fake_answer(fake_call(FAKE_WINDOW_CLOSE, 1), 0);
    cr_expect(rig_closed(owner));
    cr_expect_eq(rig_find_error(&uri, &err), RDMAD_E_LEASE_ORPHANED);
}

Test(lease, a_stopping_daemon_grants_and_attaches_no_more) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 1000), *none;
    struct lease_terms t = rig_terms(1000);
    struct rig_peer p = {0};
    struct error err;
    rig.st.stopping = true;
    cr_expect_eq(lease_grant(rig_pool(owner), &t, &none, &err), RDMAD_E_SHUTDOWN);
    cr_expect_eq(rig_peer_try(&p, l, "127.0.0.2", &err), RDMAD_E_SHUTDOWN);
    rig_finish(l);
}

/* ---- what peers' attaches cost the owner ------------------------------------------------------
 */

Test(lease, each_peers_attach_is_charged_in_full_and_given_back_when_it_is_gone) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 5000);
    struct rig_peer *a = rig_peer(l, "10.0.0.1"), *b = rig_peer(l, "10.0.0.1");
    cr_expect_eq(owner->account.used[QUOTA_REGISTERED], 2 * 8192);
    cr_expect_eq(owner->uid_account->used[QUOTA_REGISTERED], 2 * 8192);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_REGISTERED], 2 * 8192);
    attachment_drop(&a->a);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_REGISTERED], 2 * 8192, "until the window is closed");
    fake_answer_all();
    cr_expect_eq(rig.st.quota.total.used[QUOTA_REGISTERED], 8192);
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    attachment_stopped(&b->a);
    fake_answer_all();
    cr_expect_eq(owner->account.used[QUOTA_REGISTERED], 0);
}

Test(lease, too_many_registered_bytes_are_refused_naming_limit_used_and_asked) {
    static const struct {
        const char *key;
        size_t which;
    } limits[] = {{"limits.registered_bytes_per_session", 0},
                  {"limits.registered_bytes_per_uid", 1},
                  {"limits.registered_bytes", 2}};
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 5000);
    struct quota_limits *max = &rig.st.quota.limits;
    for (unsigned i = 0; i < 3; i++) {
        uint64_t *limit[] = {max->session, max->uid, max->total};
        struct rig_peer *first = rig_peer(l, "10.0.0.1"), second = {0};
        struct error err = {0};
        limit[limits[i].which][QUOTA_REGISTERED] = 10000;
        cr_expect_eq(rig_peer_try(&second, l, "10.0.0.2", &err), RDMAD_E_LIMIT);
        cr_expect(strstr(err.text, "10000 bytes registered") && strstr(err.text, "has 8192") &&
                      strstr(err.text, "asked for 8192") && strstr(err.text, limits[i].key),
                  "%s", err.text);
        cr_expect_eq(l->attached, 1);
        limit[limits[i].which][QUOTA_REGISTERED] = UINT64_MAX;
        attachment_drop(&first->a);
        fake_answer_all();
    }
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
}

/* However many a life gives out: an old URI never names a new lease. */
Test(lease, no_number_of_one_life_is_one_of_another) {
    static const uint32_t lives[] = {1, 2, 3, LIFE_LAST - 1, LIFE_LAST};
    const uint64_t shorts = 1 << 24, longs = UINT64_C(1) << 40;
    for (size_t i = 0; i < sizeof(lives) / sizeof(lives[0]); i++) {
        uint64_t life = lives[i], first = lease_number_after(lives[i], 0);
        cr_expect_eq(first, (life - 1) * shorts + 1);
        cr_expect_eq(lease_number_after(lives[i], first), first + 1);
        uint64_t last = first + shorts - 1, next = lease_number_after(lives[i], last);
        cr_expect_eq(lease_number_after(lives[i], last - 1), last);
        cr_expect_eq(next, life * longs, "after %" PRIu64 " comes %" PRIu64, last, next);
        cr_expect_gt(next, LIFE_LAST * shorts, "it is another life's short one");
        cr_expect_eq(lease_number_after(lives[i], next), next + 1);
        cr_expect_leq(next + longs, UINT64_C(1) << 53, "JSON has not all of them");
    }
}

/* ---- in words -------------------------------------------------------------------------------- */

Test(lease, what_it_allows_and_whom_is_said_in_words) {
    const struct {
        struct lease_terms terms;
        const char *words;
    } cases[] = {
        {{.rights = RDMAD_RIGHT_READ}, "to read, for anybody"},
        {{.rights = RDMAD_RIGHT_WRITE, .name = "x"}, "to write, for anybody, named \"x\""},
        {{.rights = RDMAD_RIGHTS_ALL, .scope = RDMAD_SCOPE_UID, .scope_uid = 7},
         "to read and write and for atomics and to hand on, for uid 7"},
        {{.rights = RDMAD_RIGHTS_DEFAULT, .scope = RDMAD_SCOPE_PEER, .scope_peer = "node-b"},
         "to read and write, for the node node-b"},
    };
    char words[LEASE_WORDS];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        cr_expect_str_eq(lease_words(&cases[i].terms, words), cases[i].words, "%s", words);
}
