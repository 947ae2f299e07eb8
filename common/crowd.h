/* SPDX-License-Identifier: MIT */
/*
 * crowd.h - whether somebody else wants our CPU, and for how long not to spin because of that.
 *
 * A thread that spins looks at the clock all the time, and between two looks it does nothing but
 * pause or yield. Threads of ours that spin on the same CPUs yield too, and give it back within
 * microseconds. A program that computes does not: a yield then gives the rest of the slice away,
 * and a look later than RDMAD_CROWD_GAP_NS shows it.
 *
 * A spin that finds work (a hit) saves a wake-up; a gap costs as long as it lasts. As long as the
 * gaps are paid for by the hits before them (by RDMAD_CROWD_CREDIT_NS at most), they are only slow
 * moments. A gap that is not paid for ends the spin, and it is *crowded*: nobody spins, not for a
 * microsecond, but clients' realtime threads, which have no share to use up. A thread that sleeps
 * is run at once when it is woken because it has used less than its share, and each spin uses that
 * up.
 *
 * It stays crowded for RDMAD_CROWD_TIMES as long as the gap (RDMAD_CROWD_FIRST_NS at most), so that
 * one slow moment is soon forgotten. If the next gap comes that soon after it, it stays crowded for
 * twice as long, up to RDMAD_CROWD_MOST times the gap. After that it asks whether it still is,
 * because finding out by spinning costs another gap. The caller answers: do more threads want to
 * run than there are CPUs (common/runnable.h), or does somebody else say that it is crowded? As
 * long as the answer is yes, it asks again every RDMAD_CROWD_ASK_NS. But spinning threads of our
 * own are also threads that want to run, and must not keep each other from spinning for ever: after
 * RDMAD_CROWD_ASKS answers it tries all the same, and after each try that meets a gap it asks up to
 * twice as often, RDMAD_CROWD_ASKS_MOST times at most.
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
#define RDMAD_CROWD_ASK_NS UINT64_C(5000000)
#define RDMAD_CROWD_ASKS 50u
#define RDMAD_CROWD_ASKS_MOST 800u

struct rdmad_crowd {    /* all 0: nothing seen yet */
    uint64_t until_ns;  /* it is crowded at least until then */
    uint64_t for_ns;    /* how long that was after the gap */
    uint64_t credit_ns; /* saved by hits, and not yet lost by gaps */
    unsigned asked, asks;
    bool crowded;
};

static inline uint64_t rdmad_crowd_times(uint64_t gap_ns, unsigned times) {
    return gap_ns < RDMAD_CROWD_MAX_NS / times ? gap_ns * times : RDMAD_CROWD_MAX_NS;
}

/* A spin found work. */
static inline void rdmad_crowd_hit(struct rdmad_crowd *c) {
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
        c->asks = 2 * c->asks < RDMAD_CROWD_ASKS_MOST ? 2 * c->asks : RDMAD_CROWD_ASKS_MOST;
    } else {
        for_ns = rdmad_crowd_times(gap_ns, RDMAD_CROWD_TIMES);
        most_ns = RDMAD_CROWD_FIRST_NS;
        c->asks = RDMAD_CROWD_ASKS;
    }
    c->for_ns = for_ns < most_ns ? for_ns : most_ns;
    c->until_ns = now_ns + c->for_ns;
    c->asked = 0;
    c->crowded = true;
    return true;
}

/* For a caller that knows nothing yet: it asks before it spins. */
static inline void rdmad_crowd_doubt(struct rdmad_crowd *c) {
    c->crowded = true;
    c->asks = RDMAD_CROWD_ASKS;
}

/* Whether it is time to say whether others want the CPUs. */
static inline bool rdmad_crowd_asks(const struct rdmad_crowd *c, uint64_t now_ns) {
    return c->crowded && now_ns >= c->until_ns;
}

/* The answer. */
static inline void rdmad_crowd_told(struct rdmad_crowd *c, uint64_t now_ns, bool wanted) {
    c->crowded = wanted && c->asked < c->asks;
    if (!c->crowded)
        return;
    c->asked++;
    c->until_ns = now_ns + RDMAD_CROWD_ASK_NS;
}

/* Both, for a caller that answers by itself. wanted NULL: it cannot tell, and tries. */
static inline bool rdmad_crowd_lasts(struct rdmad_crowd *c, uint64_t now_ns, bool (*wanted)(void)) {
    if (rdmad_crowd_asks(c, now_ns))
        rdmad_crowd_told(c, now_ns, wanted && wanted());
    return c->crowded;
}

#endif
