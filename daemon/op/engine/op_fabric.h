/* SPDX-License-Identifier: MIT */
/*
 * op_fabric.h - a fabric at a worker: its instance, and how the worker waits for it.
 *
 * A worker has one of these for the local fabric and one for each fabric of the plane's links
 * (plane_settings.fabrics, in that order). Two daemons agree on one fabric when they meet, so all
 * that a peer has here is on one of them: links to it, its connections, its windows. Each knows
 * which, and what was begun on one is cancelled, completed and closed there.
 *
 * It is polled in every turn, or parked: then its descriptor and wake_ns say when to poll it again,
 * and it costs a turn one comparison.
 */
#ifndef RDMAD_OP_ENGINE_OP_FABRIC_H
#define RDMAD_OP_ENGINE_OP_FABRIC_H

#include "daemon/fabric/fabric.h"

struct op_fabric {
    const struct fabric_ops *ops;
    struct fabric *instance; /* NULL: not open */
    struct fabric_env env;
    struct list full; /* of struct op_route: routes whose link takes no posts just now */
    bool parked;
    uint64_t wake_ns;    /* while parked */
    uint64_t active_ns;  /* when poll last did something */
    uint64_t heard_turn; /* the turn of the last poll_before_close */
};

int op_fabric_open(struct op_fabric *fabric, const struct fabric_ops *ops,
                   const struct fabric_env *env, struct error *err);
void op_fabric_close(struct op_fabric *fabric); /* harmless when it is not open */
bool op_fabric_park(struct op_fabric *fabric);  /* false: it has something to do */
unsigned op_fabric_poll(struct op_fabric *fabric, uint64_t now_ns);     /* how much happened */
unsigned op_fabric_poll_all(struct op_fabric *fabric, uint64_t now_ns); /* also if it is parked */

/* It may have something to do: poll it from now on. */
static inline void op_fabric_wake(struct op_fabric *fabric, uint64_t now_ns) {
    fabric->parked = false;
    fabric->active_ns = now_ns;
}

#endif
