/* SPDX-License-Identifier: MIT */
/*
 * per_turn.h - how many of something a session, and all sessions together, have had in this turn.
 *
 * A session may have so many. When all have had their number together, each may still have a few:
 * the turn gets longer the more sessions there are, but none waits for those of the others.
 */
#ifndef RDMAD_OP_ENGINE_PER_TURN_H
#define RDMAD_OP_ENGINE_PER_TURN_H

#include <stdbool.h>
#include <stdint.h>

struct per_turn {
    uint64_t turn; /* the worker's when count was last 0 */
    uint32_t count;
};

struct per_turn_most {
    uint32_t session, all, last; /* last: of a session when there were so many of all */
};

static inline uint32_t *per_turn_count(struct per_turn *p, uint64_t turn) {
    if (p->turn != turn)
        *p = (struct per_turn){.turn = turn};
    return &p->count;
}

/* Takes one more of it; false: not in this turn. */
static inline bool per_turn_take(struct per_turn *of_session, struct per_turn *of_all,
                                 uint64_t turn, const struct per_turn_most *most) {
    uint32_t *own = per_turn_count(of_session, turn), *all = per_turn_count(of_all, turn);
    if (*own >= (*all < most->all ? most->session : most->last))
        return false;
    ++*own;
    ++*all;
    return true;
}

#endif
