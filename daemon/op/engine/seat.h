/* SPDX-License-Identifier: MIT */
/*
 * seat.h - a fabric at a worker: its instance, and how the worker waits for it.
 *
 * A worker has one of these for the local fabric and one for each fabric of the plane's links
 * (plane_settings.fabrics, in that order). Two daemons agree on one fabric when they meet, so all
 * that a peer has here is on one of them: links to it, its connections, its windows. Each knows
 * which, and what was begun on one is cancelled, completed and closed there.
 *
 * It is polled in every turn, or parked: then its descriptor and wake_ns say when to poll it again,
 * and a turn costs it one comparison.
 */
#ifndef RDMAD_OP_SEAT_H
#define RDMAD_OP_SEAT_H

#include "daemon/fabric/fabric.h"

struct seat {
    const struct fabric_ops *ops;
    struct fabric *fabric; /* NULL: not open */
    struct fabric_env env;
    struct list full; /* of struct op_route: routes whose link takes no posts just now */
    bool parked;
    uint64_t wake_ns;    /* while parked */
    uint64_t active_ns;  /* when poll last did something */
    uint64_t heard_turn; /* the turn of the last poll_before_close */
};

int seat_open(struct seat *seat, const struct fabric_ops *ops, const struct fabric_env *env,
              struct error *err);
void seat_close(struct seat *seat);                     /* harmless when it is not open */
bool seat_park(struct seat *seat);                      /* false: it has something to do */
unsigned seat_poll(struct seat *seat, uint64_t now_ns); /* how much happened */

/* It may have something to do: poll it from now on. */
static inline void seat_wake(struct seat *seat, uint64_t now_ns) {
    seat->parked = false;
    seat->active_ns = now_ns;
}

#endif
