/* SPDX-License-Identifier: MIT */
/*
 * slots.h - a table of pointers behind 64-bit handles, {generation, index}.
 *
 * A freed index is used again with the next generation, so an old handle never finds the new
 * object. Handle 0 is never given out. Not thread-safe; each table has one owning thread.
 */
#ifndef RDMAD_BASE_SLOTS_H
#define RDMAD_BASE_SLOTS_H

#include <stddef.h>
#include <stdint.h>

struct handle_slot {
    void *ptr; /* NULL: free */
    uint32_t generation;
    uint32_t next_free;
};

struct slots {
    struct handle_slot *slot;
    uint32_t size, max; /* allocated, and never to be exceeded */
    uint32_t used, free_head;
    uint32_t first_generation, last_generation;
};

void slots_init(struct slots *s, uint32_t max);
/* Of a table that never had anything: its handles have generations from first to last. An index
 * that has had all of them is not used again. */
void slots_begin(struct slots *s, uint32_t first, uint32_t last);
void slots_fini(struct slots *s); /* frees the table, not what it points to */

/* Stores ptr (not NULL) and returns its handle; 0 when full or out of memory. */
uint64_t slots_add(struct slots *s, void *ptr);

/* Stores ptr under a handle another table gave out (one owner gives out, copies follow).
 * 0 or RDMAD_E_NOMEM / RDMAD_E_EXISTS, which is also for an index that is not used again. */
int slots_put(struct slots *s, uint64_t handle, void *ptr);

/* Forgets the handle and returns what it named, NULL when it names nothing. */
void *slots_remove(struct slots *s, uint64_t handle);

/* Until slots_put stores something under the handle, which is of a table before slots_begin and
 * names nothing, slots_add gives its index to nobody. Of any other handle, or without memory for
 * it, nothing happens. slots_unreserve takes it back. */
void slots_reserve(struct slots *s, uint64_t handle);
void slots_unreserve(struct slots *s, uint64_t handle);

static inline void *slots_get(const struct slots *s, uint64_t handle) {
    uint32_t index = (uint32_t)handle;
    if (index >= s->size || s->slot[index].generation != (uint32_t)(handle >> 32))
        return NULL;
    return s->slot[index].ptr;
}

/* Walks: *cursor starts at 0; returns the next object and its handle, NULL at the end. Removing the
 * object just returned is allowed. */
void *slots_next(const struct slots *s, uint32_t *cursor, uint64_t *handle);

#endif
