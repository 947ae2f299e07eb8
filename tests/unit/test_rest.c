/* SPDX-License-Identifier: MIT */
/*
 * For how long the library asks for handles that the next daemon could not give back at once.
 */
#include "daemon/config/config.h"
#include "libclient/base/rest.h"
#include <criterion/criterion.h>
#include <stdio.h>

#define MS UINT64_C(1000000)
#define SECONDS (1000 * MS)

Test(rest, what_no_daemon_waits_for_is_given_up_after_ten_seconds) {
    cr_expect_not(rest_is_over(10 * SECONDS, false));
    cr_expect(rest_is_over(10 * SECONDS + 1, false));
}

Test(rest, a_daemon_that_says_busy_for_ever_is_not_believed_for_ever) {
    cr_expect_not(rest_is_over(600 * SECONDS, true));
    cr_expect(rest_is_over(600 * SECONDS + 1, true));
}

Test(rest, nor_is_one_given_up_that_may_be_told_to_wait_for_so_long) {
    struct config c;
    struct error err = {0};
    char longest_ms[24];
    config_defaults(&c);
    snprintf(longest_ms, sizeof(longest_ms), "%llu", (unsigned long long)(REST_AWAITED_NS / MS));
    cr_expect_eq(config_set(&c, "peer.return_ms", longest_ms, &err), 0, "%s", err.text);
    cr_expect_neq(config_set(&c, "peer.return_ms", "600001", &err), 0);
}

Test(rest, the_longer_it_has_lasted_the_more_rarely_it_is_asked_for) {
    cr_expect_eq(rest_pause_ns(0), 20 * MS);
    cr_expect_eq(rest_pause_ns(SECONDS), 62500000);
    cr_expect_eq(rest_pause_ns(600 * SECONDS), 250 * MS);
}
