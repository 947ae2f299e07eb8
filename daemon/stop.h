/* SPDX-License-Identifier: MIT */
/*
 * stop.h - how a running daemon ends, within a bound.
 *
 * Draining: nothing new is accepted, nothing more is taken from any ring, and ops in flight may
 * end, at most for drain_timeout_ms. So however busy clients are, that takes as long as what they
 * have in flight. Then their rings say how far they were read.
 *
 * Parting: sessions that end with this daemon are closed, which ends their leases; then the
 * channels of the others part, so that nothing is on the way, and what they have not begun is the
 * next daemon's; then those who have leases of theirs by other daemons are told that this one
 * leaves, so that they end what they have under way and wait for the next life. They get
 * STOP_PART_MS for all of it.
 *
 * Closing: every session is closed, and the peers are told goodbye. When the last object has
 * reported its end, done is called. If some do not within a second bound as long as the first (at
 * least STOP_FORCE_MS), done is called with clean false, and what is left is left to the kernel.
 *
 *     NOT --stop_begin--> DRAINING --no op in flight, or the bound--> PARTING
 *     PARTING --all lessees elsewhere have left, or their time is over--> CLOSING
 *     CLOSING --nothing is left, or the second bound--> OVER
 *
 * What is not taken is not lost: a session that goes on with the next daemon gives it that
 * (libclient/ring/reap.c), and one that ends knows that it has done nothing. So there is one rule
 * for both. To read on in the rings of sessions that end would only choose other ops to be the
 * last, and a single client that streams could have all others wait for the whole bound.
 *
 * A RECV and a NOTIFIED wait for somebody else and are not waited for. A SEND is, but it can wait
 * for a RECV that stands in a ring and is not taken any more: sessions with SENDs under way are
 * waited for as long as some op of theirs ends every STOP_STILL_MS.
 */
#ifndef RDMAD_STOP_H
#define RDMAD_STOP_H

#include "daemon/state/state.h"

#define STOP_FORCE_MS 5000u
#define STOP_STILL_MS 100u
#define STOP_TOLD_MS 200u     /* of STOP_PART_MS, for what ends with this daemon */
#define STOP_CHANNELS_MS 100u /* and until channels whose peers do not answer are cut */
#define STOP_PART_MS 500u

struct stop {
    struct state *state;
    struct timer look;
    uint64_t began_ns, bound_ns;
    enum { STOP_NOT, STOP_DRAINING, STOP_PARTING, STOP_CLOSING, STOP_OVER } stage;
    enum { PAUSE_NOT, PAUSE_ALL, PAUSE_AGAIN, PAUSE_OPEN } pause; /* what was asked last */
    unsigned asked;                                               /* sessions' answers to that */
    unsigned steps;      /* how often a batch was let come to its end */
    uint64_t of_senders; /* ops in flight of sessions with SENDs, since still_ns the same */
    uint64_t still_ns;
    uint64_t part_ns; /* PARTING: since when */
    enum { PART_CLOSING, PART_CHANNELS, PART_LEAVING, PART_FLUSHING, PART_TOLD } part;
    uint64_t channels_ns;      /* PART_CHANNELS: since when */
    unsigned parting, leaving; /* sessions' answers to these */
    bool peers_stopped;
    void (*done)(void *arg, bool clean);
    void *arg;
};

/* s is all zero: nothing has begun to stop yet. */
void stop_begin(struct stop *s, struct state *st, void (*done)(void *arg, bool clean), void *arg);

#endif
