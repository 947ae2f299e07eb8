/* SPDX-License-Identifier: MIT */
/*
 * let_go.h - whether a daemon that is lost has let go of the buffers of a ring's ops.
 *
 * An op must not end before: its buffer would be the program's again while a device reads or writes
 * it. A daemon that ends a session says so in the ring (let_go in rdmad/ring.h), and closes its end
 * of the wakeups then. One that was killed says nothing; its lifeline hangs up when all devices
 * that it had opened are closed. One that does neither in options.call_timeout_ms is
 * waited for no longer; an event loop is not woken by that, and sees it when it looks next.
 */
#ifndef RDMAD_LIBCLIENT_LET_GO_H
#define RDMAD_LIBCLIENT_LET_GO_H

#include "libclient/ring/ring.h"

/* Of a ring whose daemon is lost. If the daemon is just dying this waits for moments: the ring's
 * wakeup is readable all the time then, so an event loop would spin. */
bool rdmad_ring_has_let_go(struct rdmad_ring *ring);

/* Sleeps until it may have, something has completed after all, or the deadline has passed; or for
 * less. */
void rdmad_ring_await_let_go(struct rdmad_ring *ring, uint64_t deadline_ns);

#endif
