/* SPDX-License-Identifier: MIT */
/*
 * Silence: found at its bound, told once of each end, and never made of a stop of who looks.
 */
#include "daemon/base/silence.h"
#include <criterion/criterion.h>

#define EVERY 2u
#define BOUND 5u

static enum silence_news look(struct silence *s, bool answered, uint64_t since) {
    return silence_look(s, answered, since, EVERY, BOUND);
}

Test(silence, begins_at_its_bound_and_is_told_once) {
    struct silence s = {0};
    cr_assert_eq(look(&s, false, 2), SILENCE_NO_NEWS);
    cr_assert_eq(look(&s, false, 2), SILENCE_NO_NEWS);
    cr_assert_not(s.told);
    cr_assert_eq(look(&s, false, 2), SILENCE_BEGAN);
    cr_assert(s.told && s.silent_ns == 6);
    cr_assert_eq(look(&s, false, 3), SILENCE_NO_NEWS, "it was told");
    cr_assert_eq(s.silent_ns, 9);
}

Test(silence, ends_with_the_answer_and_is_told_if_its_beginning_was) {
    struct silence s = {0};
    (void)look(&s, false, 4);
    cr_assert_eq(look(&s, true, 2), SILENCE_NO_NEWS, "nobody had heard of it");
    cr_assert_eq(s.silent_ns, 0);
    (void)look(&s, false, 4);
    cr_assert_eq(look(&s, false, 1), SILENCE_BEGAN, "at the bound itself");
    cr_assert_eq(look(&s, true, 2), SILENCE_ENDED);
    cr_assert(!s.told && s.silent_ns == 0);
    cr_assert_eq(look(&s, true, 2), SILENCE_NO_NEWS);
}

Test(silence, a_late_look_counts_as_one_step_whoever_was_stopped) {
    struct silence s = {0};
    cr_assert_eq(look(&s, false, 1000000), SILENCE_NO_NEWS);
    cr_assert_eq(s.silent_ns, EVERY);
    cr_assert_eq(look(&s, true, 2), SILENCE_NO_NEWS, "all go on, and have answered by then");
    for (unsigned i = 0; i < 2; i++)
        cr_assert_eq(look(&s, false, 1000), SILENCE_NO_NEWS);
    cr_assert_eq(look(&s, false, 1000), SILENCE_BEGAN, "late looks find who hangs, too");
}
