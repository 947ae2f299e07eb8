/* SPDX-License-Identifier: MIT */
/*
 * pace.h - requests of a user are counted by its rate (limits.calls_per_second_per_uid).
 */
#ifndef RDMAD_SERVE_PACE_H
#define RDMAD_SERVE_PACE_H

#include "daemon/state/session.h"

#define PACE_BURST_NS NSEC_PER_SEC /* so much of its rate a user may use at once */

/* Counts one; returns for how long the user is ahead of its rate by it, in nanoseconds, or 0. */
uint64_t pace_count(struct session *s);
/* A request took as long as so many more: those that follow wait for it. */
void pace_charge(struct session *s, uint64_t calls);
uint64_t pace_rate(const struct session *s); /* a second; 0: none, of tests without settings */

#endif
