/* SPDX-License-Identifier: MIT */
/*
 * leak.c - a planted fault: a Criterion test that loses memory and otherwise passes.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

Test(planted, leak) {
    void *volatile lost = malloc(100);
    cr_assert_not_null(lost);
    lost = NULL;
}
