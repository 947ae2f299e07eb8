/* SPDX-License-Identifier: MIT */
/*
 * failures.h - ops that failed become events, while their session goes on and when it ends.
 *
 * A worker says that a session has failures that were not told. A second later they are: an event
 * for each status, with how many there were, and the last of them. Of a session and a status more
 * are told after a minute, so a program that fails all the time makes one event a minute of each.
 * What is not told when the session ends is told then, in the same way.
 *
 * Once a second at most 64 sessions are looked at, users in turn and a user's sessions in turn, and
 * at most four statuses of each are told. So a user whose programs all fail without pause makes its
 * own events late and nobody else's. How long events are kept is up to base/events.h, which shares
 * its place between users.
 */
#ifndef RDMAD_STATE_FAILURES_H
#define RDMAD_STATE_FAILURES_H

#include "daemon/state/session.h"

#define FAILURES_EVERY_NS NSEC_PER_SEC
#define FAILURES_AGAIN_NS (60 * NSEC_PER_SEC)
#define FAILURES_SESSIONS 64u /* that are looked at a time, */
#define FAILURES_STATUSES 4u  /* and how many of each are told */

void failures_heard(struct session *s); /* plane_events.session_failed */
/* Its last word, before it is dropped from the data plane; it is not looked at any more. */
void failures_end(struct session *s);

#endif
