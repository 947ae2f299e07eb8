/* SPDX-License-Identifier: MIT */
/*
 * leak_case.c - a planted fault: a case of our own runner that loses memory and otherwise passes.
 */
#include "tests/support/runner.h"

#include <stdlib.h>

/* Of the last one a register may still know when it is looked for what was lost. */
static void leak(void) {
    for (unsigned i = 0; i < 16; i++) {
        void *volatile lost = malloc(100 + i);
        CHECK(lost, "out of memory");
        lost = NULL;
    }
}

TEST_MAIN(CASE(leak))
