/* SPDX-License-Identifier: MIT */
/*
 * slots.h - a ring's slots: which are free, which entry has which, and the lists of those that are
 * over.
 */
#ifndef RDMAD_LIBCLIENT_SLOTS_H
#define RDMAD_LIBCLIENT_SLOTS_H

#include "libclient/ring/ring.h"

/* What goes over the shared memory for an op. */
static inline uint64_t rdmad_slot_token(const struct rdmad_ring *r, uint32_t index) {
    return (uint64_t)r->slot[index].generation << 32 | index;
}

/* The slot of a reserved entry. */
static inline uint32_t rdmad_slot_of(const struct rdmad_ring *ring, const struct rdmad_sqe *sqe) {
    return ring->slot_of[sqe - ring->sqe];
}
/* The slot of what lies, or lay last, in that place of the sq. The entry has its token, too, but in
 * memory that the daemon has made. */
static inline struct rdmad_slot *rdmad_slot_at(const struct rdmad_ring *ring, uint32_t at) {
    return &ring->slot[ring->slot_of[at & (ring->entries - 1)]];
}
/* Whether it is an entry that ring has reserved and not submitted. */
static inline bool rdmad_is_reserved(const struct rdmad_ring *ring, const struct rdmad_sqe *sqe) {
    uintptr_t at = (uintptr_t)sqe - (uintptr_t)ring->sqe;
    uint32_t index = (uint32_t)(at / sizeof(*sqe));

    return at % sizeof(*sqe) == 0 && at / sizeof(*sqe) < ring->entries &&
           ((index - ring->sq_tail) & (ring->entries - 1)) < ring->sq_reserved - ring->sq_tail;
}

/* Whether its op waits for the next daemon. */
static inline bool rdmad_slot_is_ahead(const struct rdmad_slot *slot) {
    return slot->state == RDMAD_SLOT_POSTPONED || slot->state == RDMAD_SLOT_KEPT;
}

/* Nobody uses it any more. */
static inline void rdmad_slot_free(struct rdmad_ring *r, uint32_t slot) {
    r->slot[slot].state = RDMAD_SLOT_FREE;
    r->free_slot[r->free_slots++] = slot;
}

/* The op in flight, or over and not told yet, with that user_data that was submitted first;
 * RDMAD_NO_SLOT: none. */
uint32_t rdmad_slot_find(const struct rdmad_ring *ring, uint64_t user_data);

/* Lists of slots that are over. take_out: false if it is not in that list. */
void rdmad_slot_append(struct rdmad_ring *ring, struct rdmad_slot_list *list, uint32_t slot);
bool rdmad_slot_take_out(struct rdmad_ring *ring, struct rdmad_slot_list *list, uint32_t slot);
/* Takes the slot out of whichever list it is in. */
void rdmad_slot_pick(struct rdmad_ring *ring, uint32_t slot);

#endif
