/* SPDX-License-Identifier: MIT */
/*
 * elsewhere.h - what a user costs a worker, for each that it costs all of them.
 *
 * Workers share users out by themselves, each with virtual times of its own. If they knew nothing
 * of each other, a user with sessions at two workers would get a whole one and half of the other,
 * where his neighbour, who has one session, gets the other half. So a worker counts a user's costs
 * as many times as he costs all workers for each that he costs this one: 1 if nobody else serves
 * him, and ELSEWHERE_MOST at most, so that his sessions here are not starved. It matters only where
 * somebody else wants the worker's time.
 *
 * Both sums are of the last ELSEWHERE_MEMORY bytes or so, for what somebody did long ago is his own
 * affair. A worker tells the others of what it served in pieces, so that the word that they share
 * is not on the way of every op.
 */
#ifndef RDMAD_OP_ENGINE_ELSEWHERE_H
#define RDMAD_OP_ENGINE_ELSEWHERE_H

#include <stdbool.h>
#include <stdint.h>

#define ELSEWHERE_ONCE 256u /* costs count as they are; fixed point */
#define ELSEWHERE_MOST (4 * ELSEWHERE_ONCE)
#define ELSEWHERE_PIECE (256u * 1024)     /* is told of at once */
#define ELSEWHERE_LOOK (4u * 1024 * 1024) /* after so much it is reckoned anew */
#define ELSEWHERE_MEMORY (8 * ELSEWHERE_LOOK)

struct elsewhere {
    uint64_t *all;       /* atomic: the user's cost at all workers since he came */
    uint64_t all_before; /* that, when it was looked at last */
    uint64_t here;       /* his cost at this worker since then */
    uint64_t untold;     /* of which all does not have so much */
    uint64_t all_sum, here_sum;
    uint64_t times; /* fixed point: how many times his costs count here */
};

void elsewhere_init(struct elsewhere *e, uint64_t *all);
void elsewhere_tell(struct elsewhere *e);

/* Reckons anew, if there was enough to tell. Returns whether times has changed. */
bool elsewhere_look(struct elsewhere *e);

static inline void elsewhere_spend(struct elsewhere *e, uint64_t cost) {
    e->untold += cost;
    if (e->untold >= ELSEWHERE_PIECE)
        elsewhere_tell(e);
}

#endif
