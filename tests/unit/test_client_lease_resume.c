/* SPDX-License-Identifier: MIT */
/*
 * What becomes of a lease when its daemon answers a call about it and goes before the thread that
 * made the call runs on.
 */
#include "tests/unit/stall_rig.h"
#include <criterion/criterion.h>

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

static void revoke(void) {
    result = rdmad_lease_revoke(grant);
}

Test(lease_resume, a_revoked_lease_is_not_alive_at_the_next_daemon) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    stall_call(RDMAD_MSG_LEASE_REVOKE, revoke);
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

static void renew(void) {
    result = rdmad_lease_renew(grant, 60000);
}

Test(lease_resume, a_lease_that_ends_while_it_is_handed_back_is_revoked) {
    fake.hook = end_before_the_answer;
    stall_call(RDMAD_MSG_LEASE_RENEW, renew);
    cr_expect(stall_asked(RDMAD_MSG_LEASE_RESUME, NULL, 0));
    expect_dead_at_the_next_daemon();
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
