/* SPDX-License-Identifier: MIT */
/*
 * hang.h - a daemon that hangs: stopped by SIGSTOP, as if it waited for a dead disk; and sessions
 * that say how long they bear that.
 */
#ifndef RDMAD_TEST_HANG_H
#define RDMAD_TEST_HANG_H

#include "tests/support/client.h"

/* It stands still when this returns. */
void hang(struct tdaemon *d);
void go_on(struct tdaemon *d);

int open_patient(const struct tdaemon *d, int64_t call_timeout_ms, rdmad_session **out);

#endif
