/* SPDX-License-Identifier: MIT */
/*
 * sim.h - a fabric in memory with a script: delay, loss, reordering, refusal, broken links.
 *
 * Every connection has a number of its own, and a window that names one (spec.via) can be used on
 * no other, as with memory windows of type 2.
 *
 * All instances of one process (one per worker, of any number of planes) form one world with one
 * clock and one random generator, so a run is the same each time for the same seed. The world moves
 * when an instance is polled: whoever turns the workers by hand advances the clock with sim_advance
 * and gives sim_now to worker_turn. Not thread-safe.
 *
 * It is as unkind as fabric.h allows: a write's bytes are read from the caller's memory as late as
 * possible, in chunks with a delay of their own, and a read's arrive the same way; answers overtake
 * each other; what is cancelled or broken off stays half done. Only SENDs keep order: each is
 * received after the WRITEs, atomics and SENDs that were posted before it on its link took effect
 * (unless the script says unordered: then after the SENDs alone). The instance that a SEND goes to
 * must be polled to receive it.
 */
#ifndef RDMAD_TESTS_SIM_H
#define RDMAD_TESTS_SIM_H

#include "daemon/fabric/fabric.h"

/* Of a link, unless the script says otherwise when it comes up. */
#define SIM_MAX_MESSAGE 4096u
#define SIM_MAX_SEND FABRIC_SEND_MIN
#define SIM_MAX_DATAGRAM 512u

extern const struct fabric_ops fabric_sim;

struct sim_script {
    uint64_t delay_min_ns, delay_max_ns; /* of each step of a message; a spread reorders */
    uint64_t chunk;                      /* bytes moved in one step at most; 0: all at once */
    uint32_t lose_request_ppm;           /* never arrives: nothing is touched, no answer */
    uint32_t lose_answer_ppm;            /* done at the target, the answer never comes */
    uint32_t refuse_ppm;                 /* the target answers refuse_status */
    int refuse_status;
    bool refusal_breaks;   /* a refusal costs the link, as a device's does */
    uint32_t max_inflight; /* on a link; post then says AGAIN */
    bool refuse_connections;
    bool lazy_cancel;  /* a cancelled op goes on for a while before it comes back, as with verbs */
    bool lazy_windows; /* opened and closed after a step's delay, and open until then */
    bool refuse_windows;
    bool knows_unexecuted;   /* a link that breaks tells of which writes nothing was executed */
    uint64_t max_message;    /* of links that come up from now on; 0: SIM_MAX_MESSAGE */
    uint64_t max_send;       /* likewise; 0: SIM_MAX_SEND */
    bool unordered;          /* likewise: link.ordered is false */
    uint64_t land_from;      /* SENDs with so long a payload land, in chunks; 0: none */
    uint32_t receive_window; /* SENDs posted on a link and not completed; 0: any number */
    bool hold_sends;         /* none arrives until this is false again */
    bool hold_atomics;       /* the same of CAS and FADD */
    uint32_t late_send_ppm;  /* under way when the link breaks or it is cancelled (it is UNKNOWN):
                                received all the same; 0: never, and 1000000: always */
    unsigned services;       /* of fabric_ops.services */
    uint32_t lose_weak_ppm;  /* SENDs of the weaker kinds that nobody receives */
    /* Told of every piece of a write that is placed; may be NULL. */
    void (*placed)(void *base, uint64_t offset, uint64_t bytes);
};

/* A new world at one second past boot; no instance may be alive. */
void sim_reset(uint64_t seed);
/* The script in force; write to it at any time. */
struct sim_script *sim_script(void);

uint64_t sim_now(void);
void sim_advance(uint64_t ns);
/* A number below bound, from the world's generator. */
uint64_t sim_random(uint64_t bound);

/* Breaks all links that this instance opened, at its next poll. */
void sim_break_links(struct fabric *f);
/* Ops posted and not completed, over all instances. */
unsigned sim_inflight(void);

#endif
