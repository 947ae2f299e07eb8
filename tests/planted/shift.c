/* SPDX-License-Identifier: MIT */
/*
 * shift.c - a planted fault: a Criterion test with an undefined shift that otherwise passes.
 */
#include <criterion/criterion.h>

Test(planted, shift) {
    volatile int bits = 40;
    volatile int result = 1 << bits;
    (void)result;
    cr_assert(bits == 40);
}
