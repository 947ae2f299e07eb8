/* SPDX-License-Identifier: MIT */
/*
 * deadlines.h - a timer wheel for things that nearly always end before they are due.
 *
 * Adding and removing is O(1), so an op pays a few nanoseconds for its deadline. Nothing fires
 * early, and deadlines_run fires everything that is due by its now_ns, to the nanosecond. Only if
 * very many are due at once, some are left to the next runs, and may be a tick (131 us) late. Not
 * thread-safe, knows no clock.
 */
#ifndef RDMAD_OP_DEADLINES_H
#define RDMAD_OP_DEADLINES_H

#include "daemon/base/list.h"
#include <stdint.h>

#define DEADLINE_LEVELS 3u
#define DEADLINE_SLOTS 256u
#define DEADLINES_A_RUN 512u /* at most so many fire */

struct deadline { /* embedded in what is due */
    struct list node;
    uint64_t at_ns;
};

struct deadlines {
    uint64_t tick;      /* the last one looked at */
    uint64_t next_ns;   /* nothing is due before this */
    struct list moving; /* of tick's, on their way to finer slots */
    struct list slot[DEADLINE_LEVELS][DEADLINE_SLOTS];
    /* A bit a slot: set when something was put in, cleared when found empty. */
    uint64_t used[DEADLINE_LEVELS][DEADLINE_SLOTS / 64];
};

typedef void deadline_fire(void *user, struct deadline *due);

void deadlines_init(struct deadlines *d, uint64_t now_ns);
void deadlines_add(struct deadlines *d, struct deadline *due, uint64_t at_ns);
static inline void deadlines_remove(struct deadline *due) {
    list_remove(&due->node);
}

/* Takes out and fires what is due; fire may add and remove anything. Returns how many, or 1 if none
 * but there is more to do at once. */
unsigned deadlines_run(struct deadlines *d, uint64_t now_ns, deadline_fire *fire, void *user);

/* A moment before which nothing is due: exact when it is near. CLOCK_NEVER when empty. */
uint64_t deadlines_next(struct deadlines *d);

#endif
