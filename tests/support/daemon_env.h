/* SPDX-License-Identifier: MIT */
/*
 * daemon_env.h - the environment that a daemon of a test begins with: the test's own, but that
 * sanitizers write their reports into the daemon's directory, and no service manager is told.
 *
 * Allocates nothing. It is made between fork and exec, where another thread of the test may have
 * held the allocator's lock: a sanitizer's stays locked in the child.
 */
#ifndef RDMAD_TEST_DAEMON_ENV_H
#define RDMAD_TEST_DAEMON_ENV_H

#include <stdbool.h>

#define DAEMON_ENV_WORDS 512u
#define DAEMON_ENV_REPORTS 3u

struct daemon_env {
    char *words[DAEMON_ENV_WORDS]; /* for execve */
    char reports[DAEMON_ENV_REPORTS][1024];
};

/* False: there are too many words, or too long ones. */
bool daemon_env_make(struct daemon_env *e, const char *dir);

#endif
