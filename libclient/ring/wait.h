/* SPDX-License-Identifier: MIT */
/*
 * wait.h - waiting for completions. It touches the completing side's fields alone, so that a thread
 * may sleep here while others submit.
 */
#ifndef RDMAD_LIBCLIENT_WAIT_H
#define RDMAD_LIBCLIENT_WAIT_H

#include "libclient/ring/ring.h"

/* Until the daemon has published a completion not seen by peek (true), or the deadline passed or
 * the daemon is lost (false). */
bool rdmad_ring_await(struct rdmad_ring *ring, uint64_t deadline_ns);
/* Nothing is in flight that could complete: says so and returns the code. */
int rdmad_ring_idle(struct rdmad_ring *ring);

#endif
