/* SPDX-License-Identifier: MIT */
/*
 * Quotas: all three accounts are charged or none, and a charge comes back exactly once.
 */
#include "daemon/config/config.h"
#include "daemon/state/limits.h"
#include "daemon/state/quota.h"
#include <criterion/criterion.h>
#include <stdio.h>
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

/* Of 20 all may have, 2 stay free, or half of what is left. */
Test(quota, the_last_part_of_a_total_is_for_others) {
    static const struct {
        uint64_t others, may;
    } row[] = {{0, 18}, {10, 8}, {16, 2}, {17, 2}, {18, 1}, {19, 1}, {20, 0}};
    struct quota_account *second = quota_uid_ref(&q, 8);
    for (int r = 0; r < QUOTA_COUNT; r++)
        q.limits.uid[r] = q.limits.session[r] = UINT64_MAX;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct quota_charge theirs = {0}, mine = {0}, more = {0};
        struct error e;
        q.keeps_last = false;
        cr_assert_eq(quota_charge(&q, NULL, second, QUOTA_BYTES, row[i].others, &theirs, NULL), 0);
        quota_keep_last(&q);
        cr_expect_eq(quota_charge(&q, NULL, uid, QUOTA_BYTES, row[i].may, &mine, &e), 0, "row %zu",
                     i);
        cr_expect_eq(quota_charge(&q, NULL, uid, QUOTA_BYTES, 1, &more, &e), RDMAD_E_LIMIT,
                     "row %zu", i);
        quota_discharge(&more);
        quota_discharge(&mine);
        quota_discharge(&theirs);
    }
    quota_uid_unref(&q, second);
}

Test(quota, what_is_kept_for_others_is_said_in_words) {
    struct quota_charge a = {0}, b = {0};
    struct error e;
    quota_keep_last(&q);
    q.limits.uid[QUOTA_BYTES] = q.limits.session[QUOTA_BYTES] = 20;
    cr_assert_eq(quota_charge(&q, &session, uid, QUOTA_BYTES, 17, &a, NULL), 0);
    cr_assert_eq(quota_charge(&q, &session, uid, QUOTA_BYTES, 2, &b, &e), RDMAD_E_LIMIT);
    cr_assert_str_eq(e.text,
                     "of 20 bytes of pools and rings others have 0 and uid 7 may have 18 so "
                     "that some are left; it has 17 and asked for 2 more; give some back "
                     "or raise limits.pool_bytes");
    quota_discharge(&a);
}

Test(quota, a_tenants_user_has_an_account_of_its_own_and_limits_may_be_a_users_own) {
    struct quota_account *boxed = quota_user_ref(&q, 7, 1);
    struct quota_limits own = q.limits;
    struct quota_charge a = {0}, b = {0};
    cr_assert_neq(boxed, uid);
    cr_assert_eq(quota_find(&q, 7, 1), boxed);
    cr_assert_null(quota_find(&q, 7, 2));
    own.uid[QUOTA_BYTES] = 3;
    cr_assert_eq(quota_set_own(boxed, &own), 0);
    cr_assert_eq(quota_charge(&q, NULL, boxed, QUOTA_BYTES, 4, &a, NULL), RDMAD_E_LIMIT);
    cr_assert_eq(quota_charge(&q, NULL, uid, QUOTA_BYTES, 4, &b, NULL), 0);
    cr_assert_eq(quota_set_own(boxed, NULL), 0);
    cr_assert_eq(quota_charge(&q, NULL, boxed, QUOTA_BYTES, 4, &a, NULL), 0);
    quota_discharge(&a);
    quota_discharge(&b);
    quota_uid_unref(&q, boxed);
}

/* A refusal names a setting; that setting leads back to what was refused. */
Test(quota, the_setting_that_a_refusal_names_limits_what_was_refused) {
    enum quota_resource of;
    bool of_session;
    char key[64];
    for (enum quota_resource r = 0; r < QUOTA_COUNT; r++)
        for (unsigned i = 0; i < 2; i++) {
            struct error err = {0};
            struct quota_charge c = {0};
            uint64_t more = i ? 11 : 16;
            if (i && (r == QUOTA_SESSIONS || r == QUOTA_MAPPINGS))
                continue; /* a session has no limit of these */
            cr_assert_eq(quota_charge(&q, i ? &session : NULL, uid, r, more, &c, &err),
                         RDMAD_E_LIMIT);
            const char *named = strstr(err.text, "raise limits.");
            cr_assert(named && sscanf(named, "raise %63s", key) == 1, "%s", err.text);
            cr_assert(quota_find_key(key, &of, &of_session), "%s", key);
            cr_expect_eq(of, r, "%s", key);
            cr_expect_eq(of_session, i == 1, "%s", key);
        }
    cr_expect_not(quota_find_key("limits.ops_per_uid", &of, &of_session));
    cr_expect_not(quota_find_key("limits.pool_bytes", &of, &of_session));
}

Test(quota, a_charge_that_outlives_its_session_is_the_uids_until_it_is_undone) {
    struct quota_charge a = {0}, kept = {0};
    struct quota_account *late = quota_uid_ref(&q, 9), other = {.uid = 9};
    cr_assert_eq(quota_charge(&q, &other, late, QUOTA_ATTACHES, 1, &a, NULL), 0);
    quota_keep(&a, QUOTA_QUESTIONS, &kept);
    cr_expect_eq(other.used[QUOTA_ATTACHES] + late->used[QUOTA_ATTACHES], 0);
    cr_expect_eq(other.used[QUOTA_QUESTIONS], 0);
    cr_expect_eq(late->used[QUOTA_QUESTIONS], 1);
    q.limits.uid[QUOTA_QUESTIONS] = 1;
    cr_expect_eq(quota_room(&q, late, QUOTA_QUESTIONS, NULL), 0);
    q.limits.uid[QUOTA_QUESTIONS] = 0;
    cr_expect_eq(quota_room(&q, late, QUOTA_QUESTIONS, NULL), RDMAD_E_LIMIT);
    quota_uid_unref(&q, late); /* the account stays for what was kept */
    cr_expect_eq(quota_find(&q, 9, 0), late);
    quota_discharge(&a);
    quota_discharge(&kept);
    cr_expect_null(quota_find(&q, 9, 0));
    cr_expect_eq(q.total.used[QUOTA_QUESTIONS], 0);
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

Test(limits, what_a_user_has_of_objects_is_that_of_64_sessions_or_as_it_is_set) {
    struct config c;
    struct quota_limits l;
    config_defaults(&c);
    c.max_leases_session = 10;
    c.max_sessions_uid = 100;
    c.max_rings_uid = 7;
    limits_of(&c, &l);
    cr_assert_eq(l.uid[QUOTA_LEASES], 640);
    cr_assert_eq(l.session[QUOTA_LEASES], 10);
    cr_assert_eq(l.uid[QUOTA_RINGS], 7);
    c.max_sessions_uid = 1000; /* each may have two in any case */
    limits_of(&c, &l);
    cr_assert_eq(l.uid[QUOTA_LEASES], 2000);
}
