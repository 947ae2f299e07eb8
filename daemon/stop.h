/* SPDX-License-Identifier: MIT */
/*
 * stop.h - how a running daemon ends, within a bound.
 *
 * Draining: nothing new is accepted, and ops in flight may end, at most for drain_timeout_ms. Then
 * every session is closed, which ends its leases, and the peers are told goodbye. When the last
 * object has reported its end, done is called. If some do not within a second bound as long as the
 * first (at least STOP_FORCE_MS), done is called with clean false, and what is left is left to the
 * kernel.
 *
 *     NOT --stop_begin--> DRAINING --no op in flight, or the bound--> CLOSING
 *     CLOSING --nothing is left, or the second bound--> OVER
 */
#ifndef RDMAD_STOP_H
#define RDMAD_STOP_H

#include "daemon/state/state.h"

#define STOP_FORCE_MS 5000u

struct stop {
    struct state *state;
    struct timer look;
    uint64_t bound_ns;
    enum { STOP_NOT, STOP_DRAINING, STOP_CLOSING, STOP_OVER } stage;
    bool peers_stopped;
    void (*done)(void *arg, bool clean);
    void *arg;
};

/* s is all zero: nothing has begun to stop yet. */
void stop_begin(struct stop *s, struct state *st, void (*done)(void *arg, bool clean), void *arg);

#endif
