/* SPDX-License-Identifier: MIT */
/*
 * leak_case.c - a planted fault: a case of our own runner that loses memory and otherwise passes.
 */
#include "tests/support/runner.h"

#include <stdlib.h>

static void leak(void) {
    void *volatile lost = malloc(100);
    CHECK(lost, "out of memory");
    lost = NULL;
}

TEST_MAIN(CASE(leak))
