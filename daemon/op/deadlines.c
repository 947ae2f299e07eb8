/* SPDX-License-Identifier: MIT */
/*
 * deadlines.c - the wheel: three rings of 256 slots.
 *
 * A slot of the first ring is one tick wide (2^17 ns, 131 us), of the second 256 ticks (34 ms), of
 * the third 65,536 (8.6 s). A deadline goes into the finest ring that still reaches it, and is
 * moved to a finer one when its slot's time comes (further away than the last ring reaches: into
 * its last slot, and again from there). next_ns makes the common turn one comparison: nothing can
 * be due before it, and it is worked out anew only when it has passed or the loop wants to sleep.
 */
#include "daemon/op/deadlines.h"
#include "daemon/base/clock.h"

#define TICK_SHIFT 17u
#define SLOT_BITS 8u
#define SLOT_MASK (DEADLINE_SLOTS - 1)

static unsigned level_shift(unsigned level) {
    return SLOT_BITS * level;
}

void deadlines_init(struct deadlines *d, uint64_t now_ns) {
    *d = (struct deadlines){.tick = now_ns >> TICK_SHIFT, .next_ns = CLOCK_NEVER};
    for (unsigned level = 0; level < DEADLINE_LEVELS; level++)
        for (unsigned i = 0; i < DEADLINE_SLOTS; i++)
            list_init(&d->slot[level][i]);
}

static void put(struct deadlines *d, struct deadline *due) {
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
    put(d, due);
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

static uint64_t earliest_in(const struct list *slot) {
    uint64_t earliest = CLOCK_NEVER;
    list_for_each (pos, slot) {
        const struct deadline *due = list_entry(pos, struct deadline, node);
        if (due->at_ns < earliest)
            earliest = due->at_ns;
    }
    return earliest;
}

uint64_t deadlines_next(struct deadlines *d) {
    uint64_t next = CLOCK_NEVER;
    unsigned n = first_used(d, 0, (unsigned)d->tick & SLOT_MASK);
    if (n < DEADLINE_SLOTS)
        next = earliest_in(&d->slot[0][(d->tick + n) & SLOT_MASK]);
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
    for (unsigned level = DEADLINE_LEVELS - 1; level > 0; level--) {
        if (d->tick & ((UINT64_C(1) << level_shift(level)) - 1))
            continue;
        struct list moving;
        list_init(&moving);
        list_splice(&moving, &d->slot[level][(d->tick >> level_shift(level)) & SLOT_MASK]);
        for (struct list *pos; (pos = list_pop(&moving));)
            put(d, list_entry(pos, struct deadline, node));
    }
}

static unsigned fire_slot(struct deadlines *d, uint64_t now_ns, deadline_fire *fire, void *user) {
    struct list *slot = &d->slot[0][d->tick & SLOT_MASK];
    struct list later;
    unsigned fired = 0;
    list_init(&later);
    for (struct list *pos; (pos = list_pop(slot));) {
        struct deadline *due = list_entry(pos, struct deadline, node);
        if (due->at_ns > now_ns) {
            list_append(&later, pos);
            continue;
        }
        fire(user, due);
        fired++;
    }
    list_splice(slot, &later);
    return fired;
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
    unsigned fired = fire_slot(d, now_ns, fire, user);
    while (d->tick < target) {
        d->tick = step(d, target);
        cascade(d);
        fired += fire_slot(d, now_ns, fire, user);
    }
    deadlines_next(d);
    return fired;
}
