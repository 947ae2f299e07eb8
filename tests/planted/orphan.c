/* SPDX-License-Identifier: MIT */
/*
 * orphan.c - a planted fault: a case that leaves a process behind and otherwise passes.
 */
#include "tests/support/runner.h"

#include <sys/wait.h>
#include <unistd.h>

static void orphan(void) {
    pid_t middle = fork();
    CHECK(middle >= 0, "fork");
    if (middle == 0) {
        if (fork() == 0)
            pause();
        _exit(0);
    }
    /* Wait so that only the grandchild, which is nobody's child here, is left. */
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)middle, &info, WEXITED) == 0, "waitid");
}

TEST_MAIN(CASE(orphan))
