/* SPDX-License-Identifier: MIT */
/*
 * revive.h - a ring at the daemon that has taken the session over.
 */
#ifndef RDMAD_LIBCLIENT_REVIVE_H
#define RDMAD_LIBCLIENT_REVIVE_H

#include "libclient/ring/ring.h"

/* Of a ring that is stale, all of whose ops have ended but those that are postponed: it is made
 * anew at the session's daemon, and what is postponed is published. False: not now, or not at all,
 * and then the session is lost. For the completing side. */
bool rdmad_ring_revive(struct rdmad_ring *ring);
/* A daemon that is gone has the beginning of a batch. Until the rest is submitted, and ends, the
 * ring is not made anew, and nothing on it completes. */
bool rdmad_ring_is_blocked(const struct rdmad_ring *ring);

#endif
