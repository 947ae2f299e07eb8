/* SPDX-License-Identifier: MIT */
/*
 * revive.h - a ring at the daemon that has taken the session over.
 */
#ifndef RDMAD_LIBCLIENT_REVIVE_H
#define RDMAD_LIBCLIENT_REVIVE_H

#include "libclient/ring/ring.h"

/* Of a ring that is stale, all of whose ops have ended but those that are postponed: it is made
 * anew at the session's daemon, and what is postponed is published. False: not now, or not at all,
 * and then the session is lost. What the daemon, or this process, is just short of is asked for
 * again, for as long as a daemon is waited for. For the completing side. */
bool rdmad_ring_revive(struct rdmad_ring *ring);
/* A daemon that is gone has the beginning of a batch. Until the rest is submitted, and ends, the
 * ring is not made anew, and nothing on it completes. */
bool rdmad_ring_is_blocked(const struct rdmad_ring *ring);

/* Whether a ring could not be made anew yet, and is tried again later. For the completing side, as
 * all here but the last. */
bool rdmad_ring_awaits_revival(const struct rdmad_ring *ring);
/* Of such a ring, else it returns at once: sleeps until that is due, the daemon goes, or the
 * deadline has passed. */
void rdmad_ring_await_revival(struct rdmad_ring *ring, uint64_t deadline_ns);
/* With the lock, for the thread that resumes sessions: event loops of rings that are due wake, so
 * that their threads try again. */
void rdmad_rings_wake(struct rdmad_session *s);

#endif
