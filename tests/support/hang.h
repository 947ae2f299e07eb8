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

/* Of a call of such a session before its daemon hangs: whether it was done. Else the daemon seemed
 * to hang, as when a busy machine does not run it; any other error fails. */
bool hang_done(int rc);

/* Before another try: closes the session, if there is one. Fails when there were enough. */
void hang_again(rdmad_session *s, unsigned *tries);

#endif
