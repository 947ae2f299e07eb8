/* SPDX-License-Identifier: MIT */
/* A case that never ends: the runner says so, and what it waits for, before ctest ends it. */
#include "tests/support/runner.h"
#include <unistd.h>

static void waits_for_ever(void) {
    for (;;)
        pause();
}

TEST_MAIN(CASE(waits_for_ever))
