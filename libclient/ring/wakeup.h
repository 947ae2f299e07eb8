/* SPDX-License-Identifier: MIT */
/*
 * wakeup.h - the socket by which the daemon wakes us.
 */
#ifndef RDMAD_LIBCLIENT_WAKEUP_H
#define RDMAD_LIBCLIENT_WAKEUP_H

#include "libclient/ring/ring.h"

/* Takes what wakeups have come. False: the daemon has closed its end. */
bool rdmad_ring_drain(struct rdmad_ring *ring);

#endif
