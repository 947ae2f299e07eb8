/* SPDX-License-Identifier: MIT */
/*
 * timers.c - a binary heap, the earliest at the top; each timer knows its place.
 *
 * The owner is told of a new earliest time once per change, and once at the end of a run however
 * many timers it fired.
 */
#include "daemon/base/timers.h"
#include "daemon/base/clock.h"
#include <assert.h>
#include <rdmad/abi.h>
#include <stdlib.h>

void timers_init(struct timers *t, void (*changed)(void *), void *user) {
    *t = (struct timers){.changed = changed, .user = user, .told_ns = CLOCK_NEVER};
}

void timers_fini(struct timers *t) {
    assert(!t->running);
    for (size_t i = 0; i < t->used; i++)
        t->heap[i]->index = 0;
    free(t->heap);
    t->heap = NULL;
    t->used = t->size = 0;
}

void timer_init(struct timer *timer, void (*fire)(struct timer *, uint64_t)) {
    *timer = (struct timer){.fire = fire};
}

uint64_t timers_next(const struct timers *t) {
    return t->used ? t->heap[0]->at_ns : CLOCK_NEVER;
}

static void timers_tell(struct timers *t) {
    uint64_t next = timers_next(t);
    if (t->running || next == t->told_ns)
        return;
    t->told_ns = next;
    if (t->changed)
        t->changed(t->user);
}

static void timers_place(struct timers *t, size_t i, struct timer *timer) {
    t->heap[i] = timer;
    timer->index = i + 1;
}

/* Moves timer from the hole at i to where it belongs. */
static void timers_settle(struct timers *t, size_t i, struct timer *timer) {
    while (i > 0 && timer->at_ns < t->heap[(i - 1) / 2]->at_ns) {
        timers_place(t, i, t->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= t->used)
            break;
        if (child + 1 < t->used && t->heap[child + 1]->at_ns < t->heap[child]->at_ns)
            child++;
        if (t->heap[child]->at_ns >= timer->at_ns)
            break;
        timers_place(t, i, t->heap[child]);
        i = child;
    }
    timers_place(t, i, timer);
}

/* Set, and in this heap. */
static bool timers_has(const struct timers *t, const struct timer *timer) {
    return timer->index && timer->index <= t->used && t->heap[timer->index - 1] == timer;
}

static void timers_take_out(struct timers *t, struct timer *timer) {
    assert(timers_has(t, timer));
    size_t hole = timer->index - 1;
    struct timer *last = t->heap[--t->used];
    timer->index = 0;
    if (last != timer)
        timers_settle(t, hole, last);
}

int timer_set(struct timers *t, struct timer *timer, uint64_t at_ns) {
    if (at_ns == CLOCK_NEVER) {
        timer_unset(t, timer);
        return 0;
    }
    assert(!timer->index || timers_has(t, timer));
    if (!timer->index) {
        if (t->used == t->size) {
            size_t size = t->size ? t->size * 2 : 16;
            struct timer **heap = reallocarray(t->heap, size, sizeof(struct timer *));
            if (!heap)
                return RDMAD_E_NOMEM;
            t->heap = heap;
            t->size = size;
        }
        timer->index = ++t->used;
    }
    timer->at_ns = t->running && at_ns <= t->now_ns ? t->now_ns + 1 : at_ns;
    timers_settle(t, timer->index - 1, timer);
    timers_tell(t);
    return 0;
}

void timer_unset(struct timers *t, struct timer *timer) {
    if (!timer->index)
        return;
    timers_take_out(t, timer);
    timers_tell(t);
}

void timers_run(struct timers *t, uint64_t now_ns) {
    assert(!t->running);
    t->running = true;
    t->now_ns = now_ns; /* what is set from here on is later, and not fired in this run */
    while (timers_next(t) <= now_ns) {
        struct timer *timer = t->heap[0];
        timers_take_out(t, timer);
        timer->fire(timer, now_ns); /* may free timer */
    }
    t->running = false;
    t->told_ns = CLOCK_NEVER; /* the owner's alarm went off: tell even an unchanged time */
    timers_tell(t);
}
