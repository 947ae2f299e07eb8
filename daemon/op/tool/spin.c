/* SPDX-License-Identifier: MIT */
/*
 * spin.c - the learning bound, and being polite while it lasts.
 *
 * Every microsecond of fruitless spinning the CPU is offered to others: with fewer CPUs than
 * spinning threads, the one we wait for may need it, and all that it waits is added to a latency
 * (two clients and a daemon on two CPUs passed 8 bytes on in two thirds of the time that 3 us took,
 * which were several times as fast as 20). A local op is answered within a microsecond, so two busy
 * sides with a CPU each never come here. At least two rounds must have fitted into it, because we
 * may have spent it off the CPU; not more, because turns may be slow (an emulated CPU, sockets to
 * look at). What the offers cost comes off the rounds, so that a spin in vain burns no more for
 * their number.
 *
 * If a program takes the offer and does not give the CPU back soon, there is no spinning for a
 * while (common/crowd.h).
 */
#include "daemon/op/tool/spin.h"
#include "common/ringword.h"
#include "common/runnable.h"
#include <sched.h>

#define ROUND_NS 100u /* what an empty turn takes at least */
#define YIELD_NS 1000u
#define YIELD_ROUNDS 2u
#define YIELD_IN_ROUNDS 2u  /* what giving it away costs, even if nobody wants it */
#define FIRST_STEP_NS 1000u /* a bound of 0 can only grow by adding */

static void spin_grow(struct spin *s, uint64_t max_ns) {
    s->bound_ns = s->bound_ns ? 2 * s->bound_ns : FIRST_STEP_NS;
    if (s->bound_ns > max_ns)
        s->bound_ns = max_ns;
}

void spin_init(struct spin *s, uint64_t bound_ns) {
    *s = (struct spin){.bound_ns = bound_ns, .cpus_wanted = rdmad_cpus_wanted};
}

void spin_hit(struct spin *s, uint64_t now_ns, uint64_t max_ns) {
    if (!s->spinning)
        return;
    s->spinning = false;
    if (s->bound_ns < max_ns)
        spin_grow(s, max_ns);
    if (!rdmad_crowd_seen(&s->crowd, s->look_ns, now_ns))
        rdmad_crowd_hit(&s->crowd);
}

static bool in_vain(struct spin *s, uint64_t min_ns) {
    s->spinning = false;
    s->bound_ns /= 2;
    if (s->bound_ns < min_ns)
        s->bound_ns = min_ns;
    return false;
}

static void spin_begin(struct spin *s, uint64_t now_ns, uint64_t min_ns, uint64_t max_ns) {
    s->spinning = true;
    s->since_ns = s->yield_ns = now_ns;
    s->rounds = s->yield_rounds = 0;
    if (s->bound_ns > max_ns) /* the bounds may have been reloaded */
        s->bound_ns = max_ns;
    if (s->bound_ns < min_ns)
        s->bound_ns = min_ns;
    s->this_ns = s->bound_ns;
}

static bool time_to_yield(const struct spin *s, uint64_t now_ns) {
    return now_ns - s->yield_ns >= YIELD_NS && s->rounds - s->yield_rounds >= YIELD_ROUNDS;
}

bool spin_more(struct spin *s, uint64_t now_ns, uint64_t min_ns, uint64_t max_ns) {
    if (s->spinning && rdmad_crowd_seen(&s->crowd, s->look_ns, now_ns))
        return in_vain(s, min_ns);
    if (!s->spinning) {
        if (max_ns == 0 || rdmad_crowd_lasts(&s->crowd, now_ns, s->cpus_wanted))
            return false;
        spin_begin(s, now_ns, min_ns, max_ns);
    }
    s->look_ns = now_ns;
    if (now_ns - s->since_ns >= s->this_ns && s->rounds >= s->this_ns / ROUND_NS)
        return in_vain(s, min_ns);
    s->rounds++;
    if (time_to_yield(s, now_ns)) {
        s->rounds += YIELD_IN_ROUNDS;
        s->yield_ns = now_ns;
        s->yield_rounds = s->rounds;
        sched_yield();
    } else {
        ringword_pause();
    }
    return true;
}

void spin_busy(struct spin *s, uint64_t now_ns) {
    s->crowd.asked = 0;
    rdmad_crowd_lasts(&s->crowd, now_ns, s->cpus_wanted);
}

void spin_woke(struct spin *s, uint64_t slept_ns, uint64_t max_ns) {
    if (slept_ns < max_ns)
        spin_grow(s, max_ns);
}
