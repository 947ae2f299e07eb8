/* SPDX-License-Identifier: MIT */
/*
 * Quotas: all three accounts are charged or none, and a charge comes back exactly once.
 */
#include "daemon/config/config.h"
#include "daemon/state/limits.h"
#include "daemon/state/quota.h"
#include <criterion/criterion.h>
#include <string.h>

static struct quota q;
static struct quota_account session;
static struct quota_account *uid;

static void set_up(void) {
    struct quota_limits l;
    for (int r = 0; r < QUOTA_COUNT; r++) {
        l.session[r] = 10;
        l.uid[r] = 15;
        l.total[r] = 20;
    }
    quota_init(&q, &l);
    session = (struct quota_account){.uid = 7};
    uid = quota_uid_ref(&q, 7);
}

static void tear_down(void) {
    quota_uid_unref(&q, uid);
    cr_assert(list_empty(&q.uids), "an account is left");
    quota_fini(&q);
}

TestSuite(quota, .init = set_up, .fini = tear_down);

Test(quota, a_charge_counts_for_session_uid_and_daemon_until_it_is_undone) {
    struct quota_charge c = {0};
    cr_assert_eq(quota_charge(&q, &session, uid, QUOTA_BYTES, 10, &c, NULL), 0);
    cr_assert_eq(session.used[QUOTA_BYTES], 10);
    cr_assert_eq(uid->used[QUOTA_BYTES], 10);
    cr_assert_eq(q.total.used[QUOTA_BYTES], 10);
    cr_assert_eq(q.total.used[QUOTA_POOLS], 0);
    quota_discharge(&c);
    quota_discharge(&c);
    cr_assert_eq(session.used[QUOTA_BYTES], 0);
    cr_assert_eq(uid->used[QUOTA_BYTES], 0);
    cr_assert_eq(q.total.used[QUOTA_BYTES], 0);
}

Test(quota, a_refusal_charges_nothing_and_names_used_asked_and_limit) {
    struct quota_charge a = {0}, b = {0};
    struct error e;
    cr_assert_eq(quota_charge(&q, &session, uid, QUOTA_BYTES, 4, &a, NULL), 0);
    cr_assert_eq(quota_charge(&q, &session, uid, QUOTA_BYTES, 7, &b, &e), RDMAD_E_LIMIT);
    cr_assert_str_eq(e.text,
                     "the session may have 10 bytes of pools and rings, has 4 and asked for "
                     "7 more; give some back or raise limits.pool_bytes_per_session");
    quota_discharge(&b);
    cr_assert_eq(session.used[QUOTA_BYTES], 4);
    cr_assert_eq(uid->used[QUOTA_BYTES], 4);
    cr_assert_eq(q.total.used[QUOTA_BYTES], 4);
    quota_discharge(&a);
}

Test(quota, a_uid_cannot_take_more_by_opening_more_sessions) {
    struct quota_account other = {.uid = 7};
    struct quota_charge a = {0}, b = {0};
    struct error e;
    cr_assert_eq(quota_charge(&q, &session, uid, QUOTA_BYTES, 10, &a, NULL), 0);
    cr_assert_eq(quota_charge(&q, &other, uid, QUOTA_BYTES, 6, &b, &e), RDMAD_E_LIMIT);
    cr_assert_not_null(strstr(e.text, "uid 7 may have 15 "));
    cr_assert_not_null(strstr(e.text, "limits.pool_bytes_per_uid"));
    cr_assert_eq(other.used[QUOTA_BYTES], 0);
    quota_discharge(&a);
}

Test(quota, all_uids_together_cannot_take_more_than_the_daemon_has) {
    struct quota_account *second = quota_uid_ref(&q, 8), other = {.uid = 8};
    struct quota_charge a = {0}, b = {0}, c = {0};
    struct error e;
    cr_assert_eq(quota_charge(&q, &session, uid, QUOTA_BYTES, 10, &a, NULL), 0);
    cr_assert_eq(quota_charge(&q, &other, second, QUOTA_BYTES, 10, &b, NULL), 0);
    cr_assert_eq(quota_charge(&q, NULL, second, QUOTA_BYTES, 1, &c, &e), RDMAD_E_LIMIT);
    cr_assert_not_null(strstr(e.text, "the daemon may have 20 "));
    quota_discharge(&a);
    quota_discharge(&b);
    quota_uid_unref(&q, second);
}

Test(quota, an_amount_that_overflows_is_refused) {
    struct quota_charge a = {0}, b = {0};
    q.limits.session[QUOTA_BYTES] = q.limits.uid[QUOTA_BYTES] = q.limits.total[QUOTA_BYTES] =
        UINT64_MAX;
    cr_assert_eq(quota_charge(&q, &session, uid, QUOTA_BYTES, 10, &a, NULL), 0);
    cr_assert_eq(quota_charge(&q, &session, uid, QUOTA_BYTES, UINT64_MAX - 9, &b, NULL),
                 RDMAD_E_LIMIT);
    cr_assert_eq(session.used[QUOTA_BYTES], 10);
    quota_discharge(&a);
}

Test(quota, one_account_a_uid_lives_as_long_as_somebody_uses_it) {
    struct quota_account *again = quota_uid_ref(&q, 7), *other = quota_uid_ref(&q, 9);
    cr_assert_eq(again, uid);
    cr_assert_neq(other, uid);
    quota_uid_unref(&q, again);
    quota_uid_unref(&q, other);
    quota_uid_unref(&q, NULL);
}

Test(limits, by_default_no_session_and_no_user_may_have_everything) {
    struct config c;
    struct quota_limits l;
    config_defaults(&c);
    limits_of(&c, &l);
    cr_assert_gt(l.session[QUOTA_BYTES], 0);
    cr_assert_lt(l.session[QUOTA_BYTES], l.uid[QUOTA_BYTES]);
    cr_assert_lt(l.uid[QUOTA_BYTES], l.total[QUOTA_BYTES]);
    c.max_pool_bytes = 1000;
    c.max_pool_bytes_session = 1;
    limits_of(&c, &l);
    cr_assert_eq(l.total[QUOTA_BYTES], 1000);
    cr_assert_eq(l.uid[QUOTA_BYTES], 750);
    cr_assert_eq(l.session[QUOTA_BYTES], 1);
}

/* vm.max_map_count is 65530 by default; a pool is one mapping, a ring two. */
Test(limits, one_user_cannot_use_up_what_the_process_shares) {
    struct config c;
    struct quota_limits l;
    config_defaults(&c);
    limits_of(&c, &l);
    cr_assert_lt(l.uid[QUOTA_POOLS] + 2 * l.uid[QUOTA_RINGS], 65530 / 2);
    cr_assert_lt(l.uid[QUOTA_LEASES], 1u << 20);
    cr_assert_lt(l.uid[QUOTA_ATTACHES], 1u << 20);
}

Test(limits, a_small_share_for_each_session_still_lets_a_user_have_all_his_sessions) {
    struct config c;
    struct quota_limits l;
    config_defaults(&c);
    c.max_rings_session = 1;
    c.max_sessions_uid = 2000;
    limits_of(&c, &l);
    cr_assert_geq(l.uid[QUOTA_RINGS], 2000);
}

Test(limits, registered_bytes_are_sixteen_times_those_of_pools_unless_set) {
    struct config c;
    struct quota_limits l;
    config_defaults(&c);
    c.max_pool_bytes = 1000;
    c.max_registered_bytes_uid = 5;
    limits_of(&c, &l);
    cr_assert_eq(l.total[QUOTA_REGISTERED], 16000);
    cr_assert_eq(l.session[QUOTA_REGISTERED], 8000);
    cr_assert_eq(l.uid[QUOTA_REGISTERED], 5);
    c.max_pool_bytes = UINT64_MAX;
    limits_of(&c, &l);
    cr_assert_eq(l.total[QUOTA_REGISTERED], UINT64_MAX);
}
