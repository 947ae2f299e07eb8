/* SPDX-License-Identifier: MIT */
/*
 * crowd.h - whether somebody else wants our CPU, and for how long not to spin because of that.
 *
 * Who spins looks at the clock all the time, and between two looks it does nothing but pause or
 * yield. Threads of ours that spin on the same CPUs yield too, and give it back within
 * microseconds. A program that computes does not: then the scheduler has taken the rest of our
 * slice, and a look later than RDMAD_CROWD_GAP_NS shows it. To sleep is better then: who sleeps is
 * run at once when it is woken, who has spun has used up what it was entitled to.
 *
 * So a gap ends the spinning at once, for RDMAD_CROWD_TIMES as long as it was: what trying to spin
 * costs stays below that share, whatever a scheduler's slice is. After that the next spin is the
 * try. A gap soon after means twice as long without, up to RDMAD_CROWD_MAX_NS; a gap after more
 * spinning than there was abstaining is one for itself.
 *
 * Nothing here reads a clock, and times may be of any clock that does not go back.
 */
#ifndef RDMAD_COMMON_CROWD_H
#define RDMAD_COMMON_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#define RDMAD_CROWD_GAP_NS UINT64_C(100000)
#define RDMAD_CROWD_TIMES 16u
#define RDMAD_CROWD_MAX_NS UINT64_C(2000000000)

struct rdmad_crowd {   /* all 0: nothing seen yet */
    uint64_t until_ns; /* no spinning before this, */
    uint64_t for_ns;   /* which was so long after the gap */
};

/* Two looks at the clock with nothing but waiting in between. True: there was a gap. */
static inline bool rdmad_crowd_seen(struct rdmad_crowd *c, uint64_t before_ns, uint64_t now_ns) {
    uint64_t gap_ns = now_ns - before_ns, for_ns;
    if (gap_ns <= RDMAD_CROWD_GAP_NS)
        return false;
    for_ns = RDMAD_CROWD_TIMES * gap_ns;
    if (c->for_ns && now_ns < c->until_ns + c->for_ns && for_ns < 2 * c->for_ns)
        for_ns = 2 * c->for_ns;
    if (gap_ns > RDMAD_CROWD_MAX_NS / RDMAD_CROWD_TIMES || for_ns > RDMAD_CROWD_MAX_NS)
        for_ns = RDMAD_CROWD_MAX_NS;
    c->for_ns = for_ns;
    c->until_ns = now_ns + for_ns;
    return true;
}

/* Not to spin now. */
static inline bool rdmad_crowd_now(const struct rdmad_crowd *c, uint64_t now_ns) {
    return now_ns < c->until_ns;
}

#endif
