/* SPDX-License-Identifier: MIT */
/*
 * wait.h - waiting for completions. It touches the completing side's fields alone, so that a thread
 * may sleep here while others submit.
 */
#ifndef RDMAD_LIBCLIENT_WAIT_H
#define RDMAD_LIBCLIENT_WAIT_H

#include "libclient/ring/ring.h"

/* Waits until the daemon has published a completion that peek has not seen (true), or the deadline
 * has passed or the daemon is gone (false). */
bool rdmad_ring_await(struct rdmad_ring *ring, uint64_t deadline_ns);
/* While the session is away: waits until it is not, or the deadline has passed. Then there may be
 * something for peek to do. */
void rdmad_ring_await_open(struct rdmad_ring *ring, uint64_t deadline_ns);
/* For a wait while nothing is in flight that could complete: sets that error and returns its code.
 */
int rdmad_ring_idle(struct rdmad_ring *ring);

#endif
