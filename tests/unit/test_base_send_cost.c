/* SPDX-License-Identifier: MIT */
/* Who makes a thread's sends long is sent to the more rarely, and nobody else. */
#include "daemon/base/send_cost.h"
#include <criterion/criterion.h>

static struct send_rest user;

static struct send_cost doubted(void) {
    return (struct send_cost){.rest = &user, .doubted = true};
}

Test(send_cost, what_proved_to_be_long_rests_so_much_longer) {
    struct send_cost c = doubted();
    uint64_t now = clock_now_ns();
    send_cost_judge(&c, 50 * NSEC_PER_MSEC, now);
    cr_expect_eq(user.until_ns, now + SEND_REST_TIMES * 50 * NSEC_PER_MSEC);
    cr_expect(send_cost_rests(&c));
    user.until_ns = now;
    cr_expect_not(send_cost_rests(&c));
}

Test(send_cost, sockets_of_a_user_rest_one_after_the_other) {
    struct send_cost a = doubted(), b = doubted();
    send_cost_judge(&a, NSEC_PER_MSEC, 1000);
    send_cost_judge(&b, NSEC_PER_MSEC, 2000);
    cr_expect_eq(user.until_ns, 1000 + 2 * SEND_REST_TIMES * NSEC_PER_MSEC);
}

Test(send_cost, one_that_was_short_is_doubted_no_more_and_does_not_rest) {
    struct send_cost c = doubted();
    user.until_ns = CLOCK_NEVER; /* by others of the user's */
    send_cost_judge(&c, SEND_LONG_NS - 1, 1000);
    cr_expect_not(c.doubted);
    cr_expect_not(send_cost_rests(&c));
}

Test(send_cost, a_thread_that_others_kept_from_running_proves_nothing) {
    struct send_cost c = {.rest = &user};
    struct timespec moment = {.tv_nsec = 5 * (long)NSEC_PER_MSEC};
    struct send_look look = send_cost_begin(&c);
    nanosleep(&moment, NULL);
    send_cost_end(&c, look);
    cr_expect(c.doubted, "it took long by the clock");
    cr_expect_not(send_cost_rests(&c));
    /* A page fault of the thread's own takes its time, too, so one of many is enough. */
    for (int i = 0; i < 50 && c.doubted; i++) {
        user.until_ns = 0;
        look = send_cost_begin(&c);
        nanosleep(&moment, NULL);
        send_cost_end(&c, look);
    }
    cr_expect(!c.doubted && !user.until_ns, "none of many took nothing of the thread's time");
}

/* As in a virtual machine whose processor was taken for so long: clients wait for 30 s. */
Test(send_cost, a_machine_that_stood_still_in_a_send_is_silent_for_some_seconds_only) {
    struct send_cost c = doubted();
    send_cost_judge(&c, 2 * NSEC_PER_SEC, 1000);
    cr_expect_eq(user.until_ns, 1000 + SEND_REST_TIMES * SEND_COUNTS_NS);
    cr_expect_leq(SEND_REST_TIMES * SEND_COUNTS_NS, 10 * NSEC_PER_SEC);
}

Test(send_cost, nothing_wraps_around) {
    struct send_cost c = doubted();
    send_cost_judge(&c, CLOCK_NEVER, CLOCK_NEVER - 1);
    cr_expect_eq(user.until_ns, CLOCK_NEVER);
    send_cost_judge(&c, CLOCK_NEVER, 1000);
    cr_expect_eq(user.until_ns, CLOCK_NEVER);
}
