/* SPDX-License-Identifier: MIT */
/*
 * seat.c - opening, polling, parking.
 */
#include "daemon/op/engine/seat.h"
#include "daemon/base/clock.h"

int seat_open(struct seat *seat, const struct fabric_ops *ops, const struct fabric_env *env,
              struct error *err) {
    *seat = (struct seat){.ops = ops, .env = *env, .wake_ns = CLOCK_NEVER};
    list_init(&seat->full);
    return ops->open(&seat->env, &seat->fabric, err);
}

void seat_close(struct seat *seat) {
    if (seat->fabric)
        seat->ops->close(seat->fabric);
    seat->fabric = NULL;
}

bool seat_park(struct seat *seat) {
    seat->wake_ns = CLOCK_NEVER;
    seat->parked = seat->ops->arm(seat->fabric, &seat->wake_ns);
    return seat->parked;
}

unsigned seat_poll(struct seat *seat, uint64_t now_ns) {
    if (seat->parked && now_ns < seat->wake_ns)
        return 0;
    unsigned work = seat->ops->poll(seat->fabric);
    if (work) {
        seat_wake(seat, now_ns);
        seat->wake_ns = CLOCK_NEVER;
    } else if (seat->parked)
        seat_park(seat); /* its time came and nothing followed: ask for the next */
    return work;
}
