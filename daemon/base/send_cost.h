/* SPDX-License-Identifier: MIT */
/*
 * send_cost.h - what it costs a thread to send to one socket, and when it may send there again.
 *
 * A send calls everybody who waits at the other end. Whoever has that end may let as many epolls
 * wait there as he has memory for. The sender is in the kernel for a millisecond then, or for 90
 * with a million of them, and nothing cuts that short. So a socket for which that has proved to
 * take long is not sent to for SEND_REST_TIMES as long. A user's sockets have this rest in common:
 * many of them take no more of a thread than one.
 *
 * A thread may also stand still in a send because others have its processor. So one that took long
 * by the clock proves nothing, but those that follow are measured by the thread's own time, until
 * one was short again. In a virtual machine that time may be others', too: a kernel that does not
 * hear of it takes the seconds in which its processor stood still for the thread's. So no send
 * counts for more than SEND_COUNTS_NS, which is what the kernel takes with nearly three million who
 * wait; and whatever happened, nobody waits longer than SEND_REST_TIMES of that.
 *
 *     if (send_cost_rests(&cost))
 *         ... later ...
 *     struct send_look look = send_cost_begin(&cost);
 *     if (... it was sent ...)
 *         send_cost_end(&cost, look); // what was not sent has called nobody, and proves nothing
 */
#ifndef RDMAD_BASE_SEND_COST_H
#define RDMAD_BASE_SEND_COST_H

#include "daemon/base/clock.h"
#include <stdbool.h>
#include <stddef.h>

#define SEND_LONG_NS (200 * NSEC_PER_USEC)
#define SEND_LONG_TICKS (8 * CLOCK_STALE_TICKS) /* the same, roughly */
#define SEND_REST_TIMES 32u
#define SEND_COUNTS_NS (250 * NSEC_PER_MSEC)

/* Of a user at one thread; all zero at first. */
struct send_rest {
    uint64_t until_ns;
};

/* Of a socket. */
struct send_cost {
    struct send_rest *rest; /* its user's; NULL: nobody asks what it costs */
    bool doubted;           /* the last send took long */
};

struct send_look {
    uint64_t ticks, cpu_ns;
};

static inline uint64_t send_cost_cpu_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* For how long it rests, from now on. */
static inline uint64_t send_cost_left_ns(const struct send_cost *c) {
    return c->doubted && c->rest ? clock_left(clock_now_ns(), c->rest->until_ns) : 0;
}

static inline bool send_cost_rests(const struct send_cost *c) {
    return send_cost_left_ns(c) > 0;
}

static inline struct send_look send_cost_begin(const struct send_cost *c) {
    return (struct send_look){.ticks = clock_ticks(),
                              .cpu_ns = c->doubted ? send_cost_cpu_ns() : 0};
}

/* One that was doubted took so much of the thread's time, and ended at now_ns. */
void send_cost_judge(struct send_cost *c, uint64_t cpu_ns, uint64_t now_ns);

static inline void send_cost_end(struct send_cost *c, struct send_look look) {
    if (c->doubted)
        send_cost_judge(c, send_cost_cpu_ns() - look.cpu_ns, clock_now_ns());
    else
        c->doubted = clock_ticks() - look.ticks > SEND_LONG_TICKS;
}

#endif
