/* SPDX-License-Identifier: MIT */
/*
 * slots.c - an array, a free list of indices, and a generation an index.
 *
 * A slot's generation moves on when it is freed, so a handle is dead from that moment. slots_put
 * may take a slot out of the middle of the free list; it leaves it linked, and slots_add skips
 * linked slots that are taken or reserved.
 *
 * Generations before first_generation are those of handles that slots_put brings from a table
 * before this one. A free slot that has such a generation is reserved for that handle. One whose
 * generations are used up has RETIRED, which is before all others, so it is never used again: the
 * generations after last_generation are those of a table after this one.
 */
#include "daemon/base/slots.h"
#include <assert.h>
#include <rdmad/abi.h>
#include <stdbool.h>
#include <stdlib.h>

#define LIST_END UINT32_MAX
#define NOT_LISTED (UINT32_MAX - 1)
#define INDEX_MAX (UINT32_MAX - 2)
#define FIRST_SIZE 16u
#define RETIRED 0u

static uint64_t handle_of(const struct slots *s, uint32_t index) {
    return (uint64_t)s->slot[index].generation << 32 | index;
}

void slots_init(struct slots *s, uint32_t max) {
    *s = (struct slots){.max = max > INDEX_MAX ? INDEX_MAX : max,
                        .free_head = LIST_END,
                        .first_generation = 1,
                        .last_generation = UINT32_MAX};
}

void slots_begin(struct slots *s, uint32_t first, uint32_t last) {
    assert(!s->size && first > RETIRED && last >= first);
    s->first_generation = first;
    s->last_generation = last;
}

void slots_fini(struct slots *s) {
    free(s->slot);
    slots_init(s, s->max);
}

static void slots_list(struct slots *s, uint32_t index) {
    s->slot[index].next_free = s->free_head;
    s->free_head = index;
}

static bool slots_is_reserved(const struct slots *s, uint32_t index) {
    return !s->slot[index].ptr && s->slot[index].generation < s->first_generation;
}

/* Nothing is under the index any more. */
static void slots_free(struct slots *s, uint32_t index, uint32_t generation) {
    s->slot[index].ptr = NULL;
    s->slot[index].generation = generation;
    if (s->slot[index].next_free == NOT_LISTED)
        slots_list(s, index);
}

/* Makes room for index. */
static bool slots_grow(struct slots *s, uint32_t index) {
    if (index >= s->max)
        return false;
    uint64_t size = s->size ? s->size : FIRST_SIZE;
    while (size <= index)
        size *= 2;
    if (size == s->size)
        size *= 2;
    if (size > s->max)
        size = s->max;

    struct handle_slot *slot = reallocarray(s->slot, (size_t)size, sizeof(*slot));
    if (!slot)
        return false;
    s->slot = slot;
    for (uint32_t i = (uint32_t)size; i-- > s->size;) { /* backwards: low indices go out first */
        slot[i] = (struct handle_slot){.generation = s->first_generation};
        slots_list(s, i);
    }
    s->size = (uint32_t)size;
    return true;
}

static void slots_take(struct slots *s, uint32_t index, void *ptr) {
    assert(ptr);
    s->slot[index].ptr = ptr;
    s->used++;
}

uint64_t slots_add(struct slots *s, void *ptr) {
    for (;;) {
        if (s->free_head == LIST_END && !slots_grow(s, s->size))
            return 0;
        uint32_t index = s->free_head;
        s->free_head = s->slot[index].next_free;
        s->slot[index].next_free = NOT_LISTED;
        if (s->slot[index].ptr || slots_is_reserved(s, index))
            continue;
        slots_take(s, index, ptr);
        return handle_of(s, index);
    }
}

int slots_put(struct slots *s, uint64_t handle, void *ptr) {
    uint32_t index = (uint32_t)handle;
    if (index >= s->size && !slots_grow(s, index))
        return RDMAD_E_NOMEM;
    if (s->slot[index].ptr || s->slot[index].generation == RETIRED)
        return RDMAD_E_EXISTS;
    s->slot[index].generation = (uint32_t)(handle >> 32);
    slots_take(s, index, ptr);
    return 0;
}

void *slots_remove(struct slots *s, uint64_t handle) {
    void *ptr = slots_get(s, handle);
    if (!ptr)
        return NULL;

    uint32_t index = (uint32_t)handle, was = s->slot[index].generation;
    if (was >= s->last_generation)
        slots_free(s, index, RETIRED);
    else
        slots_free(s, index, was < s->first_generation ? s->first_generation : was + 1);
    s->used--;
    return ptr;
}

void slots_reserve(struct slots *s, uint64_t handle) {
    uint32_t index = (uint32_t)handle, generation = (uint32_t)(handle >> 32);
    if (generation == RETIRED || generation >= s->first_generation ||
        (index >= s->size && !slots_grow(s, index)))
        return;
    uint32_t now = s->slot[index].generation;
    if (!s->slot[index].ptr && now != RETIRED && now <= s->first_generation)
        s->slot[index].generation = generation;
}

void slots_unreserve(struct slots *s, uint64_t handle) {
    uint32_t index = (uint32_t)handle, generation = (uint32_t)(handle >> 32);
    if (index < s->size && generation != RETIRED && s->slot[index].generation == generation &&
        slots_is_reserved(s, index))
        slots_free(s, index, s->first_generation);
}

void *slots_next(const struct slots *s, uint32_t *cursor, uint64_t *handle) {
    while (*cursor < s->size) {
        uint32_t index = (*cursor)++;
        if (!s->slot[index].ptr)
            continue;
        *handle = handle_of(s, index);
        return s->slot[index].ptr;
    }
    return NULL;
}
