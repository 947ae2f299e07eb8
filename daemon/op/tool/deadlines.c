/* SPDX-License-Identifier: MIT */
/*
 * deadlines.c - the wheel: three rings of 256 slots.
 *
 * A slot of the first ring is one tick wide (2^17 ns, 131 us), of the second 256 ticks (34 ms), of
 * the third 65,536 (8.6 s). A deadline goes into the finest ring that still reaches it, and is
 * moved to a finer one when its slot's time comes (further away than the last ring reaches: into
 * its last slot, and again from there). next_ns makes the common turn one comparison: nothing can
 * be due before it, and it is worked out anew only when it has passed or the loop wants to sleep.
 *
 * Clients may have a hundred thousand deadlines fall together. So a run fires and moves a bounded
 * number, and the wheel stays at that tick until the next run. A slot with more than LOOKS is not
 * searched: the next is taken to be due at its beginning, and when that has come, at its end. So in
 * a crowd something may fire a tick late.
 */
#include "daemon/op/tool/deadlines.h"
#include "daemon/base/clock.h"
#include <stdbool.h>

#define TICK_SHIFT 17u
#define SLOT_BITS 8u
#define SLOT_MASK (DEADLINE_SLOTS - 1)
#define MOVES 4096u /* to finer slots, in a run */
#define LOOKS 256u  /* at what is in a slot */

static unsigned level_shift(unsigned level) {
    return SLOT_BITS * level;
}

void deadlines_init(struct deadlines *d, uint64_t now_ns) {
    *d = (struct deadlines){.tick = now_ns >> TICK_SHIFT, .next_ns = CLOCK_NEVER};
    list_init(&d->moving);
    for (unsigned level = 0; level < DEADLINE_LEVELS; level++)
        for (unsigned i = 0; i < DEADLINE_SLOTS; i++)
            list_init(&d->slot[level][i]);
}

static void deadlines_put(struct deadlines *d, struct deadline *due) {
    uint64_t tick = due->at_ns >> TICK_SHIFT;
    if (tick < d->tick)
        tick = d->tick;
    unsigned level = 0;
    while (level < DEADLINE_LEVELS - 1 && (tick - d->tick) >> level_shift(level + 1))
        level++;
    uint64_t reach = (UINT64_C(1) << level_shift(DEADLINE_LEVELS)) - 1;
    if (tick - d->tick > reach)
        tick = d->tick + reach;
    unsigned index = (unsigned)(tick >> level_shift(level)) & SLOT_MASK;
    list_append(&d->slot[level][index], &due->node);
    d->used[level][index / 64] |= UINT64_C(1) << index % 64;
}

void deadlines_add(struct deadlines *d, struct deadline *due, uint64_t at_ns) {
    due->at_ns = at_ns;
    deadlines_put(d, due);
    if (at_ns < d->next_ns)
        d->next_ns = at_ns;
}

/* The first slot of a level at or after from, counted in slots from there; DEADLINE_SLOTS: none.
 * Bits of slots that emptied meanwhile are cleared on the way. */
static unsigned first_used(struct deadlines *d, unsigned level, unsigned from) {
    for (unsigned n = 0; n < DEADLINE_SLOTS;) {
        unsigned index = (from + n) & SLOT_MASK;
        uint64_t word = d->used[level][index / 64] >> index % 64;
        if (!word) {
            n += 64 - index % 64;
            continue;
        }
        unsigned skip = (unsigned)__builtin_ctzll(word);
        n += skip;
        index += skip;
        if (n >= DEADLINE_SLOTS)
            break;
        if (!list_empty(&d->slot[level][index]))
            return n;
        d->used[level][index / 64] &= ~(UINT64_C(1) << index % 64);
    }
    return DEADLINE_SLOTS;
}

static uint64_t earliest_in(const struct list *slot, uint64_t if_crowded) {
    uint64_t earliest = CLOCK_NEVER;
    unsigned looks = LOOKS;
    list_for_each (pos, slot) {
        const struct deadline *due = list_entry(pos, struct deadline, node);
        if (looks-- == 0)
            return if_crowded;
        if (due->at_ns < earliest)
            earliest = due->at_ns;
    }
    return earliest;
}

uint64_t deadlines_next(struct deadlines *d) {
    uint64_t next = CLOCK_NEVER;
    if (!list_empty(&d->moving))
        return d->next_ns = 0;
    unsigned n = first_used(d, 0, (unsigned)d->tick & SLOT_MASK);
    if (n < DEADLINE_SLOTS)
        next = earliest_in(&d->slot[0][(d->tick + n) & SLOT_MASK], (n ? d->tick + n : d->tick + 1)
                                                                       << TICK_SHIFT);
    /* Coarser slots: their start, when their contents move down. The slot of the present tick was
     * moved when it began, so what is in it now belongs to the next round. */
    for (unsigned level = 1; level < DEADLINE_LEVELS; level++) {
        uint64_t current = d->tick >> level_shift(level);
        n = first_used(d, level, (unsigned)(current + 1) & SLOT_MASK);
        if (n == DEADLINE_SLOTS)
            continue;
        uint64_t start = (current + 1 + n) << level_shift(level) << TICK_SHIFT;
        if (start < next)
            next = start;
    }
    d->next_ns = next;
    return next;
}

/* The present tick begins a slot of the coarser levels: what is in it goes to finer ones. */
static void cascade(struct deadlines *d) {
    for (unsigned level = DEADLINE_LEVELS - 1; level > 0; level--)
        if (!(d->tick & ((UINT64_C(1) << level_shift(level)) - 1)))
            list_splice(&d->moving, &d->slot[level][(d->tick >> level_shift(level)) & SLOT_MASK]);
}

/* False: there are more. */
static bool move(struct deadlines *d, unsigned *moves) {
    for (struct list *pos; (pos = list_first(&d->moving));) {
        if (!*moves)
            return false;
        --*moves;
        list_remove(pos);
        deadlines_put(d, list_entry(pos, struct deadline, node));
    }
    return true;
}

/* False: more are due. Only the present tick can have some that are not due yet; those that were
 * not looked at are left to the next run. */
static bool fire_slot(struct deadlines *d, uint64_t now_ns, deadline_fire *fire, void *user,
                      unsigned *fired) {
    struct list *slot = &d->slot[0][d->tick & SLOT_MASK];
    struct list later;
    unsigned looks = LOOKS;
    bool all = true;
    list_init(&later);
    for (struct list *pos; looks && (pos = list_first(slot));) {
        struct deadline *due = list_entry(pos, struct deadline, node);
        bool is_due = due->at_ns <= now_ns;
        all = !is_due || *fired < DEADLINES_A_RUN;
        if (!all)
            break;
        list_remove(pos);
        if (is_due) {
            ++*fired;
            fire(user, due);
        } else {
            list_append(&later, pos);
            looks--;
        }
    }
    list_splice(slot, &later);
    return all;
}

/* The next tick at which there is anything to do, at most target. */
static uint64_t step(struct deadlines *d, uint64_t target) {
    uint64_t next = deadlines_next(d) >> TICK_SHIFT;
    if (next <= d->tick)
        next = d->tick + 1;
    return next < target ? next : target;
}

unsigned deadlines_run(struct deadlines *d, uint64_t now_ns, deadline_fire *fire, void *user) {
    if (now_ns < d->next_ns)
        return 0;
    uint64_t target = now_ns >> TICK_SHIFT;
    unsigned fired = 0, moves = MOVES;
    while (move(d, &moves) && fire_slot(d, now_ns, fire, user, &fired)) {
        if (d->tick >= target) {
            deadlines_next(d);
            return fired;
        }
        d->tick = step(d, target);
        cascade(d);
    }
    d->next_ns = 0;
    return fired ? fired : 1;
}
