/* SPDX-License-Identifier: MIT */
/*
 * Leases of leases, and leases that are renewed by others than their owner, on a scripted clock.
 */
#include "daemon/state/delegate.h"
#include "tests/unit/lease_rig.h"
#include <criterion/criterion.h>
#include <string.h>

static struct session *owner;

static void up(void) {
    rig_up();
    owner = rig_session(1);
}

static void down(void) {
    rig_close(owner);
    fake_answer_all();
    rig_down();
}

TestSuite(delegate, .init = up, .fini = down);
TestSuite(keep, .init = up, .fini = down);

static struct lease *part(struct lease *l, uint64_t ttl_ms, uint32_t rights) {
    struct lease_part p = {
        .offset = 8, .length = l->terms.length - 8, .ttl_ns = ttl_ms * MS, .rights = rights};
    struct lease *child;
    struct error err;
    cr_assert_eq(lease_delegate(l, &p, &child, &err), 0, "%s", err.text);
    return child;
}

static int no_part(struct lease *l, const struct lease_part *p, const char *words) {
    struct lease *child;
    struct error err;
    int rc = lease_delegate(l, p, &child, &err);
    cr_expect_not_null(strstr(err.text, words), "\"%s\" does not say \"%s\"", err.text, words);
    return rc;
}

Test(delegate, a_part_has_its_own_secret_and_its_leases_range_and_scope) {
    struct lease_terms t = rig_terms(1000);
    strcpy(t.scope_peer, "10.0.0.1");
    t.scope = RDMAD_SCOPE_PEER;
    struct lease *l = rig_grant_terms(owner, &t), *child = part(l, 5000, 0);
    cr_expect_eq(child->terms.offset, l->terms.offset + 8);
    cr_expect_eq(child->terms.length, l->terms.length - 8);
    cr_expect_eq(child->terms.rights, RDMAD_RIGHTS_ALL & ~RDMAD_RIGHT_DELEGATE);
    cr_expect_eq(child->deadline_ns, l->deadline_ns, "not later than its lease");
    cr_expect_neq(memcmp(child->key, l->key, sizeof(l->key)), 0);
    struct rig_peer other = {0};
    struct error err;
    cr_expect_eq(rig_peer_try(&other, child, "10.0.0.2", &err), RDMAD_E_SCOPE);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_LEASES], 2, "on the owner's account");
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    cr_expect_eq(leases_count(rig.st.leases), 0);
    cr_expect_eq(rig_events(owner, RDMAD_EV_LEASE_ENDED), 1, "it never heard of the part");
}

Test(delegate, tombstones_of_parts_do_not_crowd_out_those_of_what_was_granted) {
    struct lease *l = rig_grant(owner, 1000);
    struct lease_view v;
    uint64_t granted[4], last = 0;
    for (int i = 0; i < 4; i++) {
        struct lease *other = rig_grant(owner, 1000);
        granted[i] = other->id;
        lease_end(other, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    }
    for (int i = 0; i < 30; i++) { /* a lessee can, without its owner */
        struct lease *child = part(l, 1000, 0);
        last = child->id;
        lease_end(child, RDMAD_E_LEASE_RELEASED, NULL, NULL);
    }
    for (int i = 0; i < 4; i++)
        cr_expect(lease_ended_view(rig.st.leases, granted[i], &v), "%d", i);
    cr_expect(lease_ended_view(rig.st.leases, last, &v));
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
}

Test(delegate, a_revoke_is_over_when_the_parts_are) {
    struct lease *l = rig_grant(owner, 1000), *child = part(l, 1000, RDMAD_RIGHTS_ALL);
    struct lease *grandchild = part(child, 1000, 0);
    struct rig_peer *p = rig_peer(grandchild, "10.0.0.2");
    struct rig_done done = {0};
    lease_end(l, RDMAD_E_LEASE_REVOKED, rig_done, &done);
    cr_expect(p->stopped);
    cr_expect_eq(done.calls, 0);
    attachment_stopped(&p->a);
    cr_expect_eq(done.calls, 0, "its window is not closed yet");
    fake_answer_all();
    cr_expect_eq(done.calls, 1);
}

Test(delegate, a_part_ends_alone_and_makes_room_for_another) {
    struct lease *l = rig_grant(owner, 100000), *child = NULL;
    for (unsigned i = 0; i < LEASE_CHILDREN_MAX; i++)
        child = part(l, 1000, 0);
    struct lease_part p = {.length = 8, .ttl_ns = 1};
    cr_expect_eq(no_part(l, &p, "256"), RDMAD_E_LIMIT);
    lease_end(child, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    cr_expect_eq(l->descendants, LEASE_CHILDREN_MAX - 1);
    part(l, 1000, 0);
    rig_advance(1000 * MS);
    cr_expect_eq(leases_count(rig.st.leases), 1);
    cr_expect_eq(l->stage, LEASE_LIVE);
}

Test(delegate, parts_of_parts_are_bounded_in_depth) {
    struct lease *l = rig_grant(owner, 1000);
    for (unsigned i = 0; i < LEASE_DEPTH_MAX; i++) {
        struct lease_part p = {.length = l->terms.length, .ttl_ns = 1000, .rights = 15};
        struct error err;
        cr_assert_eq(lease_delegate(l, &p, &l, &err), 0, "%s", err.text);
    }
    struct lease_part p = {.length = 8, .ttl_ns = 1};
    cr_expect_eq(no_part(l, &p, "in a row"), RDMAD_E_LIMIT);
}

Test(delegate, what_is_not_there_is_not_handed_on) {
    struct lease_terms t = rig_terms(1000);
    struct lease *l = rig_grant(owner, 1000), *plain;
    struct lease_part good = {.offset = 8, .length = 8, .ttl_ns = 1}, p;
    t.rights = RDMAD_RIGHT_READ | RDMAD_RIGHT_DELEGATE;
    struct lease *reader = rig_grant_terms(owner, &t);
    t.rights = RDMAD_RIGHT_READ;
    plain = rig_grant_terms(owner, &t);
    cr_expect_eq(no_part(plain, &good, "RDMAD_RIGHT_DELEGATE"), RDMAD_E_DELEGATE);
    p = good, p.offset = 8192;
    cr_expect_eq(no_part(l, &p, "8192"), RDMAD_E_RANGE);
    p = good, p.length = UINT64_MAX - 4;
    cr_expect_eq(no_part(l, &p, "no part"), RDMAD_E_RANGE);
    p = good, p.rights = RDMAD_RIGHT_WRITE;
    cr_expect_eq(no_part(reader, &p, "0x2"), RDMAD_E_RIGHTS);
    p = good, p.rights = RDMAD_RIGHT_DELEGATE;
    cr_expect_eq(no_part(l, &p, "must have"), RDMAD_E_RIGHTS);
    p = good, p.rights = RDMAD_RIGHT_ATOMIC, p.offset = 4;
    cr_expect_eq(no_part(l, &p, "multiple of 8"), RDMAD_E_ALIGN);
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    cr_expect_eq(leases_count(rig.st.leases), 2);
}

Test(delegate, a_renewal_that_shortens_shortens_the_parts) {
    struct lease *l = rig_grant(owner, 1000), *child = part(l, 900, RDMAD_RIGHTS_ALL);
    struct lease *grandchild = part(child, 800, 0), *brief = part(l, 50, 0);
    struct error err;
    cr_assert_eq(lease_renew(l, 100 * MS, &err), 0);
    cr_expect_eq(child->deadline_ns, l->deadline_ns);
    cr_expect_eq(grandchild->deadline_ns, l->deadline_ns);
    cr_expect_lt(brief->deadline_ns, l->deadline_ns);
    cr_assert_eq(lease_renew(l, 5000 * MS, &err), 0);
    cr_expect_lt(child->deadline_ns, l->deadline_ns, "a longer life is the lease's own");
    rig_advance(100 * MS);
    cr_expect_eq(leases_count(rig.st.leases), 1);
}

/* ---- who renews ---- */

static struct lease *flagged(uint64_t ttl_ms, uint32_t flags) {
    struct lease_terms t = rig_terms(ttl_ms);
    t.flags = flags;
    return rig_grant_terms(owner, &t);
}

Test(keep, a_lease_is_kept_alive_as_long_as_its_owner_lives) {
    struct lease *l = flagged(1000, RDMAD_LEASE_KEEP_ALIVE);
    for (unsigned i = 0; i < 50; i++)
        rig_advance(400 * MS);
    cr_expect_eq(l->stage, LEASE_LIVE);
    cr_expect_gt(l->deadline_ns, rig.now_ns);
    rig_close(owner);
    fake_answer_all();
    cr_expect_eq(leases_count(rig.st.leases), 0);
    cr_expect_eq(timers_next(&rig.st.timers), CLOCK_NEVER);
    owner = rig_session(1);
}

Test(keep, a_lessee_of_this_daemon_renews_in_time_and_no_more_often) {
    struct session *s = rig_session(2);
    struct lease *l = flagged(3000, RDMAD_LEASE_RENEWABLE);
    struct rig_done attached = {0}, kept = {0};
    struct error err;
    struct handle *h;
    cr_assert_eq(handle_new(s, &h, &err), 0);
    cr_assert_eq(handle_attach_local(h, l, rig_done, &attached, &err), 0);
    fake_answer_all();
    handle_keep(h, true, rig_done, &kept);
    cr_expect_eq(kept.calls, 1);
    cr_expect_eq(kept.code, 0, "%s", kept.text);
    unsigned before = fake_count(FAKE_LEASE_EXTEND);
    for (unsigned i = 0; i < 300; i++)
        rig_advance(100 * MS);
    cr_expect_eq(l->stage, LEASE_LIVE);
    cr_expect_leq(fake_count(FAKE_LEASE_EXTEND) - before, 16, "every 2 s");
    handle_keep(h, false, rig_done, &kept);
    rig_advance(3001 * MS);
    fake_answer_all();
    cr_expect_eq(leases_count(rig.st.leases), 0);
    rig_close(s);
    fake_answer_all();
}

Test(keep, only_what_may_be_renewed_is) {
    struct lease *l = flagged(3000, 0), *may = flagged(3000, RDMAD_LEASE_RENEWABLE);
    struct error err;
    uint64_t deadline = may->deadline_ns;
    cr_expect_eq(lease_keep(l, &err), RDMAD_E_PERM);
    cr_expect_eq(lease_keep(may, &err), 0);
    cr_expect_eq(may->deadline_ns, deadline, "there is enough left");
    rig.now_ns += 1501 * MS;
    cr_expect_eq(lease_keep(may, &err), 0);
    cr_expect_eq(may->deadline_ns, rig.now_ns + 3000 * MS);
    cr_expect_eq(lease_renew(may, 999 * MS, &err), RDMAD_E_INVAL, "too short to be kept");
}

Test(keep, a_lease_ends_after_so_many_releases_but_not_losses) {
    struct lease_terms t = rig_terms(1000);
    t.ends_after = 2;
    struct lease *l = rig_grant_terms(owner, &t);
    struct rig_peer *p[4];
    for (unsigned i = 0; i < 4; i++)
        p[i] = rig_peer(l, "10.0.0.2");
    attachment_drop(&p[0]->a);
    attachment_release(&p[1]->a);
    cr_expect_eq(l->stage, LEASE_LIVE);
    p[3]->answer_at_once = true;
    attachment_release(&p[2]->a);
    cr_expect(p[3]->stopped);
    cr_expect_eq(p[3]->reason, RDMAD_E_LEASE_RELEASED);
    fake_answer_all();
    cr_expect_eq(leases_count(rig.st.leases), 0);
}

/* ---- the data plane ---- */

Test(keep, an_owner_hears_of_its_lease_when_the_data_plane_knows_it) {
    struct rig_done taken = {0}, ended = {0};
    fake_grants_at_once = false;
    struct lease *l = rig_grant(owner, 1000);
    lease_when_taken(l, rig_done, &taken);
    cr_expect_eq(taken.calls, 0);
    fake_answer(fake_call(FAKE_GRANT_ADD, 0), 0);
    cr_expect_eq(taken.calls, 1);
    cr_expect_eq(taken.code, 0);
    lease_end(l, RDMAD_E_LEASE_REVOKED, rig_done, &ended);
    cr_expect_eq(ended.calls, 0, "notifications are still being dropped");
    cr_expect_eq(fake_call(FAKE_GRANT_DROP, 0)->reason, RDMAD_E_LEASE_REVOKED);
    fake_answer_all();
    cr_expect_eq(ended.calls, 1);
    cr_expect_eq(rig_events(owner, RDMAD_EV_LEASE_ENDED), 1);
}

Test(keep, a_lease_the_data_plane_cannot_know_is_none) {
    struct rig_done taken = {0};
    fake_grants_at_once = false;
    struct lease *l = rig_grant(owner, 1000);
    lease_when_taken(l, rig_done, &taken);
    fake_answer(fake_call(FAKE_GRANT_ADD, 0), RDMAD_E_NOMEM);
    cr_expect_eq(taken.code, RDMAD_E_NOMEM);
    fake_answer_all();
    cr_expect_eq(leases_count(rig.st.leases), 0);
}

Test(keep, a_lease_revoked_before_the_data_plane_knows_it_is_told_so) {
    struct rig_done taken = {0}, ended = {0};
    fake_grants_at_once = false;
    struct lease *l = rig_grant(owner, 1000);
    lease_when_taken(l, rig_done, &taken);
    lease_end(l, RDMAD_E_LEASE_EXPIRED, rig_done, &ended);
    fake_answer_all();
    cr_expect_eq(taken.code, RDMAD_E_LEASE_EXPIRED, "%s", taken.text);
    cr_expect_eq(ended.calls, 1);
}

/* Its end comes when the data plane has let go of its owner; nobody stops the daemon. */
Test(delegate, a_lease_whose_owner_is_going_has_no_more_parts) {
    struct session *going = rig_session(2);
    struct lease *l = rig_grant(going, 1000);
    struct lease_part p = {.length = 8, .ttl_ns = MS};
    rig_close(going);
    cr_expect_eq(l->stage, LEASE_LIVE);
    cr_expect_eq(no_part(l, &p, "its owner is gone"), RDMAD_E_LEASE_ORPHANED);
    fake_answer_all();
    cr_expect(rig_closed(going));
}

/* Of a lease with children or without: each is something that the daemon keeps for a client that
 * asks without waiting for answers. */
Test(delegate, only_so_many_calls_wait_for_the_end_of_one) {
    struct lease *l = rig_grant(owner, 1000);
    struct rig_peer *p = rig_peer(l, "127.0.0.2");
    struct rig_done waiting = {0}, more = {0};

    for (unsigned i = 0; i < LEASE_WAITERS_MAX; i++)
        lease_end(l, RDMAD_E_LEASE_REVOKED, rig_done, &waiting);
    cr_expect_eq(waiting.calls, 0);
    lease_end(l, RDMAD_E_LEASE_REVOKED, rig_done, &more);
    cr_expect_eq(more.calls, 1);
    cr_expect_eq(more.code, RDMAD_E_BUSY, "%s", more.text);
    attachment_stopped(&p->a);
    fake_answer_all();
    cr_expect_eq(waiting.calls, LEASE_WAITERS_MAX);
    cr_expect_eq(waiting.code, 0);
    cr_expect_eq(more.calls, 1);
}
