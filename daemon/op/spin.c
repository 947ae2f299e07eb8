/* SPDX-License-Identifier: MIT */
/*
 * spin.c - the learning bound, and being polite while it lasts.
 *
 * Every 3 us of fruitless spinning the CPU is offered to others: with fewer CPUs than spinning
 * threads, the one we wait for may need it (two daemons and a client on two CPUs moved 64-byte
 * writes several times as fast as with 20 us). A local op is answered well within 3 us, so two busy
 * sides with a CPU each never come here. Some rounds must have been among them, for we may have
 * spent the 3 us off the CPU; few, for where turns are slow (an emulated CPU) more take far longer.
 */
#include "daemon/op/spin.h"
#include "common/ringword.h"
#include <sched.h>

#define ROUND_NS 100u /* what an empty turn takes at least */
#define YIELD_NS 3000u
#define YIELD_ROUNDS 4u
#define FIRST_STEP_NS 1000u /* a bound of 0 can only grow by adding */

static void grow(struct spin *s, uint64_t max_ns) {
    s->bound_ns = s->bound_ns ? 2 * s->bound_ns : FIRST_STEP_NS;
    if (s->bound_ns > max_ns)
        s->bound_ns = max_ns;
}

void spin_init(struct spin *s, uint64_t bound_ns) {
    *s = (struct spin){.bound_ns = bound_ns};
}

void spin_hit(struct spin *s, uint64_t max_ns) {
    if (!s->spinning)
        return;
    s->spinning = false;
    if (s->bound_ns < max_ns)
        grow(s, max_ns);
}

static void begin(struct spin *s, uint64_t now_ns, uint64_t min_ns, uint64_t max_ns) {
    s->spinning = true;
    s->since_ns = s->yield_ns = now_ns;
    s->rounds = s->yield_rounds = 0;
    if (s->bound_ns > max_ns) /* the bounds may have been reloaded */
        s->bound_ns = max_ns;
    if (s->bound_ns < min_ns)
        s->bound_ns = min_ns;
}

bool spin_more(struct spin *s, uint64_t now_ns, uint64_t min_ns, uint64_t max_ns) {
    if (!s->spinning)
        begin(s, now_ns, min_ns, max_ns);
    if (now_ns - s->since_ns >= s->bound_ns && s->rounds >= s->bound_ns / ROUND_NS) {
        s->spinning = false;
        s->bound_ns /= 2;
        if (s->bound_ns < min_ns)
            s->bound_ns = min_ns;
        return false;
    }
    s->rounds++;
    if (now_ns - s->yield_ns >= YIELD_NS && s->rounds - s->yield_rounds >= YIELD_ROUNDS) {
        s->yield_ns = now_ns;
        s->yield_rounds = s->rounds;
        sched_yield();
    } else {
        ringword_pause();
    }
    return true;
}

void spin_woke(struct spin *s, uint64_t slept_ns, uint64_t max_ns) {
    if (slept_ns < max_ns)
        grow(s, max_ns);
}
