/* SPDX-License-Identifier: MIT */
/*
 * slots.c - finding slots, and the lists of those that are over.
 */
#include "libclient/ring/slots.h"
#include <assert.h>

uint32_t rdmad_slot_find(const struct rdmad_ring *r, uint64_t user_data) {
    uint32_t found = RDMAD_NO_SLOT;
    for (uint32_t i = 0; i < r->entries; i++) {
        const struct rdmad_slot *slot = &r->slot[i];
        if (slot->user_data != user_data || slot->member || slot->state < RDMAD_SLOT_PUBLISHED ||
            slot->state == RDMAD_SLOT_TAKEN)
            continue;
        if (found == RDMAD_NO_SLOT || slot->order < r->slot[found].order)
            found = i;
    }
    return found;
}

void rdmad_slot_append(struct rdmad_ring *r, struct rdmad_slot_list *l, uint32_t index) {
    r->slot[index].next = RDMAD_NO_SLOT;
    if (l->first == RDMAD_NO_SLOT)
        l->first = index;
    else
        r->slot[l->last].next = index;
    l->last = index;
    l->count++;
}

bool rdmad_slot_take_out(struct rdmad_ring *r, struct rdmad_slot_list *l, uint32_t index) {
    uint32_t before = RDMAD_NO_SLOT, at = l->first;
    while (at != index && at != RDMAD_NO_SLOT) {
        before = at;
        at = r->slot[at].next;
    }
    if (at == RDMAD_NO_SLOT)
        return false;
    if (before == RDMAD_NO_SLOT)
        l->first = r->slot[index].next;
    else
        r->slot[before].next = r->slot[index].next;
    if (l->last == index)
        l->last = before;
    l->count--;
    return true;
}

void rdmad_slot_pick(struct rdmad_ring *r, uint32_t index) {
    bool there =
        rdmad_slot_take_out(r, &r->over, index) || rdmad_slot_take_out(r, &r->called, index);
    assert(there);
    (void)there;
}
