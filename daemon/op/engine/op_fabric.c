/* SPDX-License-Identifier: MIT */
/*
 * op_fabric.c - opening, polling, parking.
 */
#include "daemon/op/engine/op_fabric.h"
#include "daemon/base/clock.h"

int op_fabric_open(struct op_fabric *fabric, const struct fabric_ops *ops,
                   const struct fabric_env *env, struct error *err) {
    *fabric = (struct op_fabric){.ops = ops, .env = *env, .wake_ns = CLOCK_NEVER};
    list_init(&fabric->full);
    return ops->open(&fabric->env, &fabric->instance, err);
}

void op_fabric_close(struct op_fabric *fabric) {
    if (fabric->instance)
        fabric->ops->close(fabric->instance);
    fabric->instance = NULL;
}

bool op_fabric_park(struct op_fabric *fabric) {
    fabric->wake_ns = CLOCK_NEVER;
    fabric->parked = fabric->ops->arm(fabric->instance, &fabric->wake_ns);
    return fabric->parked;
}

static unsigned op_fabric_poll_by(struct op_fabric *fabric, uint64_t now_ns,
                                  unsigned (*poll)(struct fabric *f)) {
    unsigned work = poll(fabric->instance);
    if (work) {
        op_fabric_wake(fabric, now_ns);
        fabric->wake_ns = CLOCK_NEVER;
    } else if (fabric->parked)
        op_fabric_park(fabric); /* its time came and nothing followed: ask for the next */
    return work;
}

unsigned op_fabric_poll(struct op_fabric *fabric, uint64_t now_ns) {
    if (fabric->parked && now_ns < fabric->wake_ns)
        return 0;
    return op_fabric_poll_by(fabric, now_ns, fabric->ops->poll);
}

unsigned op_fabric_poll_all(struct op_fabric *fabric, uint64_t now_ns) {
    const struct fabric_ops *ops = fabric->ops;
    op_fabric_wake(fabric, now_ns);
    return op_fabric_poll_by(fabric, now_ns, ops->poll_all ? ops->poll_all : ops->poll);
}
