/* SPDX-License-Identifier: MIT */
/*
 * session_end.h - a session closes, and all that it owns ends.
 *
 * These steps, each begun when the one before has reported:
 *
 *   1. its questions to other daemons are given up, its services close, and sessions of this daemon
 *      let go of channels to it;
 *   2. the data plane lets go of its rings, pools, handles and channels, so that nothing is under
 *      way in its name;
 *   3. its leases end (ORPHANED) at their lessees, its handles are released at their owners and its
 *      channels end at their other ends, after which nobody else reaches its memory either;
 *   4. pools and rings are unmapped on the registration thread and their charges go back;
 *   5. the session is freed.
 *
 * Whatever runs asynchronously on a session's behalf holds it (session_hold), so no step can free
 * what another still uses; the session itself counts as one hold until 4 is under way. From the
 * first step on plane is NULL.
 */
#ifndef RDMAD_STATE_SESSION_END_H
#define RDMAD_STATE_SESSION_END_H

#include "daemon/state/session.h"

/* Begins the end; why (may be NULL) is told to the client and the log. Closing twice is harmless.
 */
void session_close(struct session *s, const struct error *why);

#endif
