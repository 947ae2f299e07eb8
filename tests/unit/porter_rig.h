/* SPDX-License-Identifier: MIT */
/*
 * porter_rig.h - a real porter for unit tests: the daemon's program in its other role.
 */
#ifndef RDMAD_TEST_PORTER_RIG_H
#define RDMAD_TEST_PORTER_RIG_H

#include "daemon/ipc/porter.h"
#include "daemon/ipc/rota.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

/* Runs another program of the build as the porter. */
static inline struct porter *porter_rig_of(const char *name, struct event_base *base,
                                           void (*crowded)(void *user, bool crowded)) {
    static char program[512];
    const struct porter_spec spec = {.program = program, .crowded = crowded};
    struct porter *p;
    struct error err;
    const char *build = getenv("RDMAD_BUILD");
    cr_assert_not_null(build, "RDMAD_BUILD is not set: run the test by ctest");
    snprintf(program, sizeof(program), "%s/%s", build, name);
    cr_assert_eq(porter_new(base, &spec, &p, &err), 0, "%s", err.text);
    return p;
}

static inline struct porter *porter_rig(struct event_base *base,
                                        void (*crowded)(void *user, bool crowded)) {
    return porter_rig_of("daemon/rdmad", base, crowded);
}

/* Until it gets SIGCONT or is killed. When this returns it stands still: a while after kill() it
 * may yet be at work. */
static inline void porter_stop(pid_t pid) {
    siginfo_t info = {0};
    cr_assert_eq(kill(pid, SIGSTOP), 0);
    cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WSTOPPED), 0);
}

#endif
