/* SPDX-License-Identifier: MIT */
/*
 * timers.h - a heap of timers that knows no loop and no clock.
 *
 * Whoever owns the heap runs it with timers_run(now) and asks timers_next for when to come again;
 * the daemon does so from a CLOCK_BOOTTIME timerfd, tests from a scripted clock. A timer is
 * embedded in its user's struct. Not thread-safe.
 */
#ifndef RDMAD_BASE_TIMERS_H
#define RDMAD_BASE_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer {
    uint64_t at_ns;
    size_t index; /* in the heap + 1; 0: not set */
    void (*fire)(struct timer *timer, uint64_t now_ns);
};

struct timers {
    struct timer **heap;
    size_t used, size;
    void (*changed)(void *user); /* the earliest timer changed: re-arm; may be NULL */
    void *user;
    uint64_t told_ns; /* the earliest time that changed was last called for */
    bool running;     /* timers_run is under way; now_ns is its time */
    uint64_t now_ns;
};

void timers_init(struct timers *t, void (*changed)(void *), void *user);
void timers_fini(struct timers *t);
void timer_init(struct timer *timer, void (*fire)(struct timer *, uint64_t));
/* Sets or moves. 0 or RDMAD_E_NOMEM. CLOCK_NEVER unsets. */
int timer_set(struct timers *t, struct timer *timer, uint64_t at_ns);
void timer_unset(struct timers *t, struct timer *timer);
static inline bool timer_is_set(const struct timer *timer) {
    return timer->index != 0;
}
uint64_t timers_next(const struct timers *t); /* CLOCK_NEVER when none */
/* Fires all that are due, in order of time; they may set and unset any timer. One that is set for
 * now, or for earlier, while this runs is set for the moment after now_ns: each timer fires once a
 * run at most. */
void timers_run(struct timers *t, uint64_t now_ns);

#endif
