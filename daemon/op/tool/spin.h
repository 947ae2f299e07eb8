/* SPDX-License-Identifier: MIT */
/*
 * spin.h - how long to look again before sleeping.
 *
 * A wake-up through the kernel costs tens of microseconds, so a loop that will have work again
 * soon had better spin; a loop that will not only burns a CPU that others need. The bound learns:
 * it doubles when work came while spinning, or so soon after falling asleep that spinning would
 * have been right, and halves when a spin was for nothing. It stays between min and max.
 *
 * A spin ends when both its time and its rounds are used up. Time alone would let one slow system
 * call of the neighbourhood (sched_yield under a tracer takes a hundred microseconds) eat a whole
 * spin in which nobody looked.
 *
 * Where others want the CPU there is no spin (common/crowd.h), and nothing is learned.
 */
#ifndef RDMAD_OP_SPIN_H
#define RDMAD_OP_SPIN_H

#include "common/crowd.h"
#include <stdbool.h>
#include <stdint.h>

struct spin {
    uint64_t bound_ns;
    uint64_t this_ns;  /* this spin's bound */
    uint64_t since_ns; /* when it began */
    uint64_t yield_ns; /* when it gave the CPU away last */
    uint64_t look_ns;  /* when it looked last */
    struct rdmad_crowd crowd;
    bool (*cpus_wanted)(void); /* common/runnable.h, but in tests */
    uint32_t rounds, yield_rounds;
    bool spinning;
};

void spin_init(struct spin *s, uint64_t bound_ns);
/* There was work, found by a look at now_ns. */
void spin_hit(struct spin *s, uint64_t now_ns, uint64_t max_ns);
/* There was none: waits an instant and returns true, or false when it is time to sleep. */
bool spin_more(struct spin *s, uint64_t now_ns, uint64_t min_ns, uint64_t max_ns);
/* There is always work, so nobody spins here, nor tries to; but clients are told whether it is
 * crowded: as long as others want the CPUs, not as long as they did when the work began. */
void spin_busy(struct spin *s, uint64_t now_ns);
/* Came back from sleep after slept_ns. */
void spin_woke(struct spin *s, uint64_t slept_ns, uint64_t max_ns);

#endif
