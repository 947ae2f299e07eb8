/* SPDX-License-Identifier: MIT */
/*
 * crowd.h - whether somebody else wants our CPU, and for how long not to offer it because of that.
 *
 * Who spins looks at the clock all the time, and between two looks it does nothing but pause or
 * yield. Threads of ours that spin on the same CPUs yield too, and give it back within
 * microseconds. A program that computes does not: a yield then gives the rest of the slice away,
 * and a look later than RDMAD_CROWD_GAP_NS shows it. To sleep is better: who sleeps is run at once
 * when it is woken.
 *
 * A spin that is hit saves a wake-up, and a gap costs what it lasts: while the gaps are paid by the
 * hits before them (by RDMAD_CROWD_CREDIT_NS at most) they are nothing but slow moments. One that
 * is not ends the spin, and for RDMAD_CROWD_TIMES as long (RDMAD_CROWD_FIRST_NS at most) nobody
 * yields: what trying costs is a small share of the time that way, whatever a scheduler's slice is.
 * A gap during that time, or as soon after, means twice as long; up to RDMAD_CROWD_MOST times the
 * gap, so that one slow moment is soon forgotten.
 *
 * Meanwhile spins last RDMAD_CROWD_SPIN_NS at most, enough to meet a partner that runs at this
 * moment, and none at all where that was in vain some times: who spins uses up what makes him run
 * at once when he is woken. One wait in RDMAD_CROWD_TRY tries again.
 *
 * Nothing here reads a clock, and times may be of any clock that does not go back.
 */
#ifndef RDMAD_COMMON_CROWD_H
#define RDMAD_COMMON_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#define RDMAD_CROWD_GAP_NS UINT64_C(200000)
#define RDMAD_CROWD_TIMES 8u
#define RDMAD_CROWD_FIRST_NS UINT64_C(10000000)
#define RDMAD_CROWD_SAVED_NS UINT64_C(10000)
#define RDMAD_CROWD_CREDIT_NS UINT64_C(3000000)
#define RDMAD_CROWD_MOST 128u
#define RDMAD_CROWD_MAX_NS UINT64_C(1000000000)
#define RDMAD_CROWD_SPIN_NS UINT64_C(8000)
#define RDMAD_CROWD_SPIN_MIN_NS UINT64_C(1000)
#define RDMAD_CROWD_TRY 16u

struct rdmad_crowd {    /* all 0: nothing seen yet */
    uint64_t until_ns;  /* it is crowded until then, */
    uint64_t for_ns;    /* which was so long after the gap */
    uint64_t credit_ns; /* saved by hits, and not yet lost by gaps */
    uint64_t spin_ns;   /* while it is: the next spin's length */
    unsigned spins;
};

static inline uint64_t rdmad_crowd_times(uint64_t gap_ns, unsigned times) {
    return gap_ns < RDMAD_CROWD_MAX_NS / times ? gap_ns * times : RDMAD_CROWD_MAX_NS;
}

/* A spin was not in vain. */
static inline void rdmad_crowd_hit(struct rdmad_crowd *c) {
    c->spin_ns = RDMAD_CROWD_SPIN_NS;
    if (c->credit_ns < RDMAD_CROWD_CREDIT_NS)
        c->credit_ns += RDMAD_CROWD_SAVED_NS;
}

/* Two looks at the clock with nothing but waiting in between. True: there was a gap, and it is
 * crowded. */
static inline bool rdmad_crowd_seen(struct rdmad_crowd *c, uint64_t before_ns, uint64_t now_ns) {
    uint64_t gap_ns = now_ns - before_ns, for_ns, most_ns;
    if (gap_ns <= RDMAD_CROWD_GAP_NS)
        return false;
    if (gap_ns <= c->credit_ns) {
        c->credit_ns -= gap_ns;
        return false;
    }
    c->credit_ns = 0;
    if (before_ns < c->until_ns + c->for_ns) {
        for_ns = 2 * c->for_ns;
        most_ns = rdmad_crowd_times(gap_ns, RDMAD_CROWD_MOST);
    } else {
        for_ns = rdmad_crowd_times(gap_ns, RDMAD_CROWD_TIMES);
        most_ns = RDMAD_CROWD_FIRST_NS;
    }
    if (for_ns > most_ns)
        for_ns = most_ns;
    if (now_ns >= c->until_ns)
        c->spin_ns = RDMAD_CROWD_SPIN_NS;
    c->for_ns = for_ns;
    if (c->until_ns < now_ns + for_ns)
        c->until_ns = now_ns + for_ns;
    return true;
}

/* It is crowded: no yields, and spins only as below. */
static inline bool rdmad_crowd_now(const struct rdmad_crowd *c, uint64_t now_ns) {
    return now_ns < c->until_ns;
}

/* How long this spin may be; 0: none. */
static inline uint64_t rdmad_crowd_spin(struct rdmad_crowd *c) {
    return ++c->spins % RDMAD_CROWD_TRY == 0 ? RDMAD_CROWD_SPIN_NS : c->spin_ns;
}

/* It was in vain. */
static inline void rdmad_crowd_missed(struct rdmad_crowd *c) {
    if ((c->spin_ns /= 2) < RDMAD_CROWD_SPIN_MIN_NS)
        c->spin_ns = 0;
}

#endif
