/* SPDX-License-Identifier: MIT */
/*
 * The rate of a user's requests: a second's worth at once, and what took longer counts as more.
 */
#include "daemon/serve/pace.h"
#include "tests/unit/lease_rig.h"
#include <criterion/criterion.h>

TestSuite(pace, .init = rig_up, .fini = rig_down);

enum { RATE = 1000 };

static unsigned calls_at_once(struct session *s) {
    unsigned n = 0;
    while (pace_count(s) == 0)
        cr_assert_lt(++n, 2 * RATE, "there is no rate");
    return n;
}

Test(pace, a_second_of_calls_may_come_at_once_of_all_sessions_of_a_user) {
    struct session *s = rig_session(1), *same = rig_session(1), *other = rig_session(2);
    rig.config.max_calls_uid = RATE;
    rig_advance(10 * NSEC_PER_SEC);
    cr_expect_eq(calls_at_once(s), RATE);
    cr_expect_gt(pace_count(same), 0);
    cr_expect_eq(pace_count(other), 0);
}

Test(pace, what_took_as_long_as_many_counts_as_many) {
    struct session *s = rig_session(1);
    rig.config.max_calls_uid = RATE;
    rig_advance(10 * NSEC_PER_SEC);
    pace_charge(s, 0);
    pace_charge(s, RATE / 2);
    cr_expect_eq(calls_at_once(s), RATE / 2);
    pace_charge(s, 3 * RATE);
    cr_expect_gt(pace_count(s), 3 * NSEC_PER_SEC, "it waits for three seconds");
    pace_charge(s, UINT64_MAX / NSEC_PER_SEC);
    cr_expect_gt(pace_count(s), 3 * NSEC_PER_SEC, "nothing wraps around");
}
