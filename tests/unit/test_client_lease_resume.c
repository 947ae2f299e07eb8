/* SPDX-License-Identifier: MIT */
/*
 * What becomes of a lease when its daemon answers a call about it and goes before the thread that
 * made the call runs on.
 */
#include "libclient/base/session.h" /* first: its parameters are named as our globals */

#include "libclient/base/clock.h"
#include "tests/unit/stall_rig.h"
#include <criterion/criterion.h>
#include <unistd.h>

static rdmad_lease *grant;
static int result;

static void up(void) {
    fake.outlived = true;
    rig_set_up();
    cr_assert_eq(rdmad_lease_grant(s, memory, 4096, NULL, &grant), 0, "%s", rdmad_last_error(s));
}

TestSuite(lease_resume, .init = up, .fini = rig_tear_down);

/* ---- owners -------------------------------------------------------------------------------- */

static void expect_dead_at_the_next_daemon(void) {
    unsigned resumed = stall_asked(RDMAD_MSG_LEASE_RESUME, NULL, 0);
    cr_expect(!resumed || stall_asked(RDMAD_MSG_LEASE_REVOKE, NULL, 0) > resumed,
              "the next daemon has the lease");
}

static void revoke_grant(void) {
    result = rdmad_lease_revoke(grant);
}

Test(lease_resume, a_revoked_lease_is_not_alive_at_the_next_daemon) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    stall_call(RDMAD_MSG_LEASE_REVOKE, revoke_grant);
    cr_assert_eq(result, 0, "%s", rdmad_last_error(s));
    expect_dead_at_the_next_daemon();
    rdmad_lease_get_info(grant, &info);
    cr_expect_eq(info.ended, RDMAD_E_LEASE_REVOKED, "%d", info.ended);
    cr_expect_eq(stall_events(RDMAD_EVENT_LEASE_ENDED), 1);
}

static void free_grant(void) {
    rdmad_lease_free(grant);
}

Test(lease_resume, a_freed_lease_is_not_alive_at_the_next_daemon) {
    stall_call(RDMAD_MSG_LEASE_REVOKE, free_grant);
    expect_dead_at_the_next_daemon();
    cr_expect_eq(stall_events(RDMAD_EVENT_LEASE_ENDED), 0);
}

static bool end_before_the_answer(struct fake_daemon *f, const struct rdmad_msg_header *h,
                                  const void *body) {
    (void)body;
    if (h->type == RDMAD_MSG_LEASE_RESUME)
        fake_lease_ended(f, 7, 0, RDMAD_E_LEASE_REVOKED);
    return false;
}

static void renew_grant(void) {
    result = rdmad_lease_renew(grant, 60000);
}

Test(lease_resume, a_lease_that_ends_while_it_is_handed_back_is_revoked) {
    fake.hook = end_before_the_answer;
    stall_call(RDMAD_MSG_LEASE_RENEW, renew_grant);
    cr_expect(stall_asked(RDMAD_MSG_LEASE_RESUME, NULL, 0));
    expect_dead_at_the_next_daemon();
}

static void renew_for_long(void) {
    result = rdmad_lease_renew(grant, 3600000);
}

Test(lease_resume, the_next_daemon_hears_of_a_renewal_that_was_answered) {
    struct rdmad_lease_resume_req asked;
    stall_call(RDMAD_MSG_LEASE_RENEW, renew_for_long);
    cr_assert_eq(result, 0, "%s", rdmad_last_error(s));
    cr_assert(stall_asked(RDMAD_MSG_LEASE_RESUME, &asked, sizeof(asked)));
    cr_expect_eq(asked.grant.ttl_ns, UINT64_C(3600000000000));
    cr_expect_gt(asked.left_ns, UINT64_C(3000000000000), "%llu ns are left",
                 (unsigned long long)asked.left_ns);
}

/* ---- lessees ------------------------------------------------------------------------------- */

static void free_handle(void) {
    rdmad_lease_free(lease);
}

Test(lease_resume, a_released_handle_is_not_attached_at_the_next_daemon) {
    stall_call(RDMAD_MSG_LEASE_RELEASE, free_handle);
    unsigned resumed = stall_asked(RDMAD_MSG_ATTACH_RESUME, NULL, 0);
    cr_expect(!resumed || stall_asked(RDMAD_MSG_LEASE_RELEASE, NULL, 0) > resumed,
              "the next daemon has the handle");
}

static struct rdmad_msg_header attaching;
static bool owner_is_back;      /* atomic */
static unsigned held, releases; /* atomic */

/* The answer comes when the handle is released, and the daemon does not know it before. */
static bool attach_when_released(struct fake_daemon *f, const struct rdmad_msg_header *h,
                                 const void *body) {
    struct rdmad_lease_attach_rep rep = {
        .handle = 31, .lease = 7, .length = 4096, .ttl_ns = f->ttl_ns, .rights = RDMAD_RIGHTS_ALL};
    (void)body;
    if (h->type == RDMAD_MSG_ATTACH_RESUME) {
        attaching = *h;
        if (__atomic_load_n(&owner_is_back, __ATOMIC_ACQUIRE))
            __atomic_add_fetch(&held, 1, __ATOMIC_RELEASE);
        else
            fake_refuse(f, h, RDMAD_E_BUSY, "its owner is not back");
        return true;
    }
    if (h->type != RDMAD_MSG_LEASE_RELEASE)
        return false;
    if (__atomic_add_fetch(&releases, 1, __ATOMIC_RELEASE) > 1)
        return false;
    fake_reply(f, &attaching, &rep, sizeof(rep));
    fake_refuse(f, h, RDMAD_E_HANDLE, "there is none");
    return true;
}

static void await_count(const unsigned *count, unsigned value, const char *what) {
    for (unsigned i = 0; i < 20000 && __atomic_load_n(count, __ATOMIC_ACQUIRE) < value; i++)
        usleep(1000);
    cr_assert_geq(__atomic_load_n(count, __ATOMIC_ACQUIRE), value, "%s", what);
}

Test(lease_resume, a_handle_that_is_released_while_it_is_asked_for_is_given_back) {
    fake.hook = attach_when_released;
    rig_daemon_follows();
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
    __atomic_store_n(&owner_is_back, true, __ATOMIC_RELEASE);
    await_count(&held, 1, "it is not asked for again");
    rdmad_lease_free(lease);
    await_count(&releases, 2, "the daemon has the handle");
}

static void keep_handle(void) {
    result = rdmad_lease_keep(lease, 1);
}

Test(lease_resume, the_next_daemon_hears_of_a_keep_that_was_answered) {
    struct rdmad_lease_keep_req asked;
    stall_call(RDMAD_MSG_LEASE_KEEP, keep_handle);
    cr_assert_eq(result, 0, "%s", rdmad_last_error(s));
    cr_assert(stall_asked(RDMAD_MSG_LEASE_KEEP, &asked, sizeof(asked)), "it is not kept");
    cr_expect_eq(asked.handle, 31);
    cr_expect_eq(asked.on, 1);
}

static bool answer_request(struct fake_daemon *f, const struct rdmad_msg_header *h,
                           const void *body) {
    struct rdmad_lease_attach_rep rep = {.handle = 32, .lease = 8, .length = 64};
    (void)body;
    rep.ttl_ns = f->ttl_ns;
    if (h->type == RDMAD_MSG_LEASE_REQUEST)
        fake_reply(f, h, &rep, sizeof(rep));
    return h->type == RDMAD_MSG_LEASE_REQUEST;
}

static void hand_over(void) {
    result = rdmad_lease_hand_over(lease);
}

Test(lease_resume, a_lease_that_was_handed_over_does_not_end_with_its_daemon) {
    fake.hook = answer_request;
    cr_assert_eq(rdmad_lease_request(s, "rdmad:///service", 64, NULL, 0, &lease), 0, "%s",
                 rdmad_last_error(s));
    stall_call(RDMAD_MSG_LEASE_HAND_OVER, hand_over);
    cr_assert_eq(result, 0, "%s", rdmad_last_error(s));
    cr_expect_eq(stall_events(RDMAD_EVENT_LEASE_ENDED), 0, "its end was told");
}

/* ---- calls that wait for a daemon ---------------------------------------------------------- */

enum { TTL_MS = 60000, AWAY_MS = 300 };

static rdmad_lease *made;
static uint64_t back_ns;

static uint64_t ttl_ms(const rdmad_lease *of) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    rdmad_lease_get_info(of, &info);
    return info.ttl_ms;
}

static void *call_away(void *call) {
    ((void (*)(void))call)();
    return NULL;
}

/* Makes the call while there is no daemon. */
static void wait_for_a_daemon_in(void (*call)(void)) {
    pthread_t thread;
    fake.ttl_ns = UINT64_C(1000000) * TTL_MS;
    fake_go(&fake);
    while (rdmad_is_open(s))
        usleep(1000);
    cr_assert_eq(pthread_create(&thread, NULL, call_away, call), 0);
    usleep(AWAY_MS * 1000);
    back_ns = rdmad_boottime_ns();
    fake_come_back(&fake);
    pthread_join(thread, NULL);
    cr_assert_eq(result, 0, "%s", rdmad_last_error(s));
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
}

/* From when there was a daemon that could be asked; and so the next one gets it. */
static void expect_whole_ttl(const rdmad_lease *of) {
    const uint64_t left = ttl_ms(of), gone = (rdmad_boottime_ns() - back_ns) / RDMAD_NS_PER_MS + 1;
    cr_expect_leq(left, TTL_MS);
    cr_expect_geq(left + gone, TTL_MS, "%llu ms are missing",
                  (unsigned long long)(TTL_MS - left - gone));
    rig_daemon_follows();
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
}

static void grant_briefly(void) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    terms.ttl_ms = TTL_MS;
    result = rdmad_lease_grant(s, memory + 4096, 4096, &terms, &made);
}

Test(lease_resume, a_lease_has_its_ttl_from_the_daemon_that_granted_it) {
    wait_for_a_daemon_in(grant_briefly);
    expect_whole_ttl(made);
}

static void attach(void) {
    result = rdmad_lease_attach(s, "name", 0, &made);
}

Test(lease_resume, a_handle_has_its_ttl_from_the_daemon_that_attached_it) {
    wait_for_a_daemon_in(attach);
    expect_whole_ttl(made);
}

static void renew_briefly(void) {
    result = rdmad_lease_renew(grant, TTL_MS);
}

Test(lease_resume, a_renewed_lease_has_its_ttl_from_the_daemon_that_renewed_it) {
    wait_for_a_daemon_in(renew_briefly);
    expect_whole_ttl(grant);
}

/* ---- a daemon that is drained -------------------------------------------------------------- */

static uint16_t drained_for; /* refused once */
static unsigned asked;       /* atomic; for that */

static bool refuse_once(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    (void)body;
    if (h->type != drained_for || __atomic_fetch_add(&asked, 1, __ATOMIC_RELEASE))
        return false;
    fake_refuse(f, h, RDMAD_E_SHUTDOWN, "rdmad is drained (rdmactl drain)");
    return true;
}

static void expect_all_back_after_drain(uint16_t type) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    drained_for = type;
    fake.hook = refuse_once;
    rig_daemon_follows();
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
    rdmad_lease_get_info(grant, &info);
    cr_expect_eq(info.ended, 0, "%d", info.ended);
    cr_expect_eq(__atomic_load_n(&asked, __ATOMIC_ACQUIRE), 2, "%u", asked);
}

Test(lease_resume, a_drained_daemon_ends_no_lease_that_is_handed_back) {
    expect_all_back_after_drain(RDMAD_MSG_LEASE_RESUME);
}

Test(lease_resume, a_drained_daemon_ends_no_part_that_is_handed_back) {
    struct rdmad_part part = {.lease = 9, .parent = 7};
    fake_event(&fake, RDMAD_EV_LEASE_PART, &part, sizeof(part));
    expect_all_back_after_drain(RDMAD_MSG_PART_RESUME);
}
