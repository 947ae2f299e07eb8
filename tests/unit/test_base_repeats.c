/* SPDX-License-Identifier: MIT */
/* What happens again and again is told once a minute, whatever happens besides. */
#include "daemon/base/repeats.h"
#include <criterion/criterion.h>
#include <stdio.h>

#define SECOND 1000000000u

static struct repeats r;
static uint64_t since_ns;
static struct repeats_row gone;

static uint64_t count(const char *name, int code, uint64_t at_s) {
    return repeats_count(&r, name, code, at_s * SECOND, &since_ns, &gone);
}

Test(repeats, the_first_is_told_and_the_next_a_minute_later_with_how_many) {
    cr_expect_eq(count("a", -1, 100), 1);
    for (unsigned s = 101; s < 160; s++)
        cr_expect_eq(count("a", -1, s), 0, "told again after %u s", s - 100);
    cr_expect_eq(count("a", -1, 160), 60);
    cr_expect_eq(since_ns, 60ull * SECOND);
    cr_expect_eq(count("a", -1, 219), 0);
    cr_expect_eq(count("a", -1, 400), 2);
}

Test(repeats, another_name_or_code_is_told_at_once) {
    cr_expect_eq(count("a", -1, 100), 1);
    cr_expect_eq(count("a", -2, 100), 1);
    cr_expect_eq(count("b", -1, 100), 1);
    cr_expect_eq(count("a", -2, 101) + count("b", -1, 101) + count("a", -1, 101), 0);
}

Test(repeats, what_is_over_is_told_when_it_begins_anew) {
    cr_expect_eq(count("a", -1, 100), 1);
    cr_expect_eq(count("b", -1, 100), 1);
    cr_expect_eq(count("a", -1, 101), 0);
    repeats_over(&r, "a");
    cr_expect_eq(count("b", -1, 102), 0, "b is not over");
    cr_expect_eq(count("a", -1, 102), 1);
}

/* However many names there are; and each has a place again when a minute has passed. */
Test(repeats, many_names_are_bounded) {
    char name[16];
    uint64_t told = 0, sum = 0;
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "n%u", i);
        told += count(name, -1, 100) != 0;
    }
    cr_expect_eq(told, REPEATS_ROWS + 1, "%lu were told", told);
    cr_expect_eq(count("n0", -1, 130), 0, "it has lost its row");
    sum = count("n999", -1, 161);
    cr_expect_eq(sum, 1, "%lu", sum);
    cr_expect_eq(count("n999", -1, 162), 0);
}

/* A row is given up when what has it was not told for a minute, and then all of that is told. */
Test(repeats, what_gives_way_is_told_to_its_end) {
    char name[16];
    cr_expect_eq(count("a", -7, 100), 1);
    cr_expect_eq(count("a", -7, 101) + count("a", -7, 102), 0);
    for (unsigned i = 1; i < REPEATS_ROWS; i++) {
        snprintf(name, sizeof(name), "n%u", i);
        cr_expect_eq(count(name, -1, 150), 1);
        cr_expect_eq(gone.untold, 0, "%s took the place of %s", name, gone.name);
    }
    cr_expect_eq(count("b", -1, 159), 1, "of the others");
    cr_expect_eq(gone.untold, 0);
    cr_expect_eq(count("b", -1, 165), 1);
    cr_expect_str_eq(gone.name, "a");
    cr_expect_eq(gone.code, -7);
    cr_expect_eq(gone.untold, 2, "%lu were", gone.untold);
    cr_expect_eq(gone.told_ns, 100ull * SECOND);
    cr_expect_eq(count("b", -1, 166), 0);
    cr_expect_eq(gone.untold, 0, "once");
}
